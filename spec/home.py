"""Where this machine keeps what must not be lost (`MEGATOK_HOME`) and what can be made again (`MEGATOK_CACHE`)."""

from __future__ import annotations

import getpass
import hashlib
import os
import socket
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
    """The ledger that commands use unless a stack names another: `MEGATOK_LEDGER`, else a folder of our own."""
    return os.environ.get("MEGATOK_LEDGER") or (home() / "ledger").as_uri()


def ledger_mark(address: str) -> str:
    """Short name of a ledger, as a tag of what is accounted in it. A folder is one of this machine alone."""
    place = f"{socket.gethostname()} {address}" if address.startswith("file:") else address
    return hashlib.sha256(place.encode()).hexdigest()[:16]


def owner() -> str:
    """Whose day and month budgets count: `MEGATOK_OWNER`, else the user's login name."""
    return os.environ.get("MEGATOK_OWNER") or getpass.getuser()
