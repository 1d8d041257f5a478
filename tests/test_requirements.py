"""requirements.in names what the rooms import: no more, and nothing that merely comes along with something else."""

from __future__ import annotations

import ast
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("campaign", "cli", "infra", "localcloud", "money", "plan", "playbooks", "report", "spec")
IN_TOOL_ENVIRONMENTS = ROOT / "playbooks" / "files"
"""Programs that run on nodes, on what `tools/envs/` locks."""


def _imported() -> set[str]:
    """Top names of what the rooms and the entry point import, beside the standard library and each other."""
    found = set[str]()
    for path in [ROOT / "__main__.py", *(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))]:
        if IN_TOOL_ENVIRONMENTS in path.parents:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {name.name.split(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add((node.module or "").split(".")[0])
    return found - set(sys.stdlib_module_names) - set(ROOMS)


def test_requirements_are_what_the_rooms_import() -> None:
    owners = {**packages_distributions(), "google": ["protobuf"]}  # several share that name; the rooms import only one
    imported = {owners[name][0].lower().replace("_", "-") for name in _imported()}
    named = set(re.findall(r"^([a-z0-9-]+)", (ROOT / "requirements.in").read_text(), re.MULTILINE))
    assert imported == named
