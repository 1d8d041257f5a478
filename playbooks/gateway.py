"""Programs of the system that serve as gateways: whether a node has them, and how a person gets them there."""

from __future__ import annotations

from spec.facts import Facts

PACKAGES = {"nginx": "nginx-light", "haproxy": "haproxy"}
"""Debian's and Ubuntu's name of the package. Never installed for the user: it may be their own machine."""


def absent(node: str, facts: Facts, program: str) -> str:
    """What to say where a node lacks `program`; empty where it has it, or where no probe looks for it."""
    if program in facts.programs or program not in PACKAGES:
        return ""
    return f"{node} has no {program}; install it there with: apt-get install -y {PACKAGES[program]}"
