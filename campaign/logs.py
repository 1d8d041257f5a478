"""Logs of a run: files in its folder, and of processes that still run on nodes."""

from __future__ import annotations

import re

from campaign.folder import RunFolder, known
from playbooks import collect
from spec.errors import MegatokError, RecipeError


def names(run: str) -> tuple[str, ...]:
    """What can be asked for: what the nodes have now is fetched first, where they can be reached."""
    folder = known(run)
    _refresh(folder)
    paths = [path for path in (folder.path / "logs").rglob("*") if path.is_file()]
    return ("progress", *sorted(str(path.relative_to(folder.path / "logs")) for path in paths))


def text(run: str, name: str, lines: int) -> str:
    """The last `lines` of a log; RecipeError with the names that exist."""
    folder = known(run)
    known_names = names(run)
    if name not in known_names:
        raise RecipeError(f"run {run} has no log {name!r}; it has {', '.join(known_names)}")
    path = folder.path / ("progress.log" if name == "progress" else f"logs/{name}")
    body = path.read_text(errors="replace") if path.exists() else ""
    return "\n".join(re.split(r"\r?\n", body.rstrip("\n"))[-lines:])


def _refresh(folder: RunFolder) -> None:
    document, inventory = folder.document(), folder.inventory()
    if inventory is None or (document is not None and document.receipt is not None):
        return
    try:
        collect.collect(inventory, folder.path / "logs")
    except MegatokError:
        return
