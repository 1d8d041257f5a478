"""Whether a node's supervisor lives, and how to tell it to end. Its lock is the proof: numbers are used again."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
from pathlib import Path


def lives(folder: Path) -> bool:
    """Whether a supervisor holds the node's lock."""
    try:
        with (folder / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def stop(folder: Path) -> None:
    """Ask the supervisor to end its node; nothing where it has not yet said its number, so ask again."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, ValueError):
        pidfd = os.pidfd_open(int((folder / "lock").read_text()))
        try:
            if lives(folder):
                signal.pidfd_send_signal(pidfd, signal.SIGTERM)
        finally:
            os.close(pidfd)


def last_beat_s(folder: Path) -> float:
    """When the supervisor was last heard of."""
    return round((folder / "lock").stat().st_mtime, 3)
