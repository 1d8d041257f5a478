"""What a record says of how its figures came about: exact commands, and versions."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from plan.launch import Launch
from playbooks.environments import LOCKS, fills
from playbooks.launch import folder
from spec.facts import Facts
from spec.inventory import Inventory


def commands(inventory: Inventory, facts: Mapping[str, Facts], launches: Sequence[Launch]) -> tuple[str, ...]:
    """One line a process, as its node ran it; what is secret stands in its environment, not here."""
    return tuple(_command(inventory, facts, launch) for launch in launches)


def _command(inventory: Inventory, facts: Mapping[str, Facts], launch: Launch) -> str:
    node = inventory.nodes[launch.node]
    seen = facts[node.name]
    values = {**fills(seen, launch), "dir": f"{seen.home}/{folder(inventory.run, launch.name)}"}
    words = [f"{name}={value}" for name, value in launch.env if name != "PATH"] + list(launch.argv)
    exact = [re.sub(r"\{(env|dir|cache|model)\}", lambda found: values[found[1]], word) for word in words]
    return f"{node.name}: {shlex.join(exact)}"


def versions(facts: Mapping[str, Facts], launches: Sequence[Launch]) -> dict[str, str]:
    """Pinned versions of the foreign tools, those of the system's programs, and the nodes' own."""
    tools = {launch.tool: _pinned(launch.tool) for launch in launches if launch.tool}
    programs = {launch.argv[0] for launch in launches if not launch.tool}
    seen = {name: text for each in facts.values() for name, text in each.versions.items() if name in programs}
    nodes = sorted({f"{each.distribution}, Linux {each.kernel}, {each.machine}" for each in facts.values()})
    return {**tools, **seen, "nodes": "; ".join(nodes)}


def _pinned(tool: str) -> str:
    """`xllamacpp 2026.10.11549`: the first line of what the tool's lock was made from."""
    return (LOCKS / f"{tool}.in").read_text().splitlines()[0].replace("==", " ")
