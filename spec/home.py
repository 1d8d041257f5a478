"""Where this machine keeps what must not be lost (`MEGATOK_HOME`) and what can be made again (`MEGATOK_CACHE`)."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The checkout."""


def home() -> Path:
    """Made at first use, for the user's eyes only."""
    folder = Path(os.environ.get("MEGATOK_HOME") or Path.home() / ".megatok").absolute()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def cache() -> Path:
    folder = Path(os.environ.get("MEGATOK_CACHE") or Path.home() / ".cache" / "megatok").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def ledger_address() -> str:
    """The ledger that commands use unless a stack names another."""
    return (home() / "ledger").as_uri()
