"""Goldens: files of expected text. `MEGATOK_UPDATE_GOLDENS=1 make test` writes them anew; then read what git shows."""

from __future__ import annotations

import os
from pathlib import Path

UPDATE = "MEGATOK_UPDATE_GOLDENS"


def matches(text: str, path: Path) -> None:
    """`text` is what `path` holds."""
    if os.environ.get(UPDATE):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert path.exists(), f"{path} is missing; write it with {UPDATE}=1"
    assert text == path.read_text(), f"{path} differs; if that is meant, write it anew with {UPDATE}=1"
