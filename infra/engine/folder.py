"""A Pulumi state in a local folder, read and cleaned without the engine: it must work when the engine cannot.

Pulumi leaves its lock file behind when its process is killed; a state may be damaged, or its passphrase lost.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

PROJECT = "megatok"


@dataclass(frozen=True)
class Lock:
    file: Path
    pid: int
    host: str

    @property
    def dead(self) -> bool:
        """Its process ran on this machine and is gone; its number may be another program's by now."""
        return self.host == socket.gethostname() and not _is_engine(self.pid)


@dataclass(frozen=True)
class StateFolder:
    path: Path
    """`.pulumi` in the backend's folder."""

    @classmethod
    def of(cls, backend: str) -> StateFolder | None:
        """None where the backend is no local folder."""
        parts = urlsplit(backend)
        return cls(Path(unquote(parts.path)) / ".pulumi") if parts.scheme == "file" else None

    def stacks(self) -> tuple[str, ...]:
        return tuple(sorted(file.stem for file in (self.path / "stacks" / PROJECT).glob("*.json")))

    def locks(self, stack: str) -> tuple[Lock, ...]:
        return tuple(lock for file in self._lock_folder(stack).glob("*.json") if (lock := _read(file)))

    def unlock(self, stack: str) -> tuple[Lock, ...]:
        """Remove the locks of processes that are gone; the locks that stay."""
        held = []
        for lock in self.locks(stack):
            if lock.dead:
                lock.file.unlink(missing_ok=True)
            else:
                held.append(lock)
        return tuple(held)

    def forget(self, stack: str) -> None:
        """Remove all that the state knows of a stack."""
        for file in (self.path / "stacks" / PROJECT).glob(f"{stack}.json*"):
            file.unlink(missing_ok=True)
        for kind in ("history", "backups"):
            shutil.rmtree(self.path / kind / PROJECT / stack, ignore_errors=True)
        shutil.rmtree(self._lock_folder(stack), ignore_errors=True)

    def _lock_folder(self, stack: str) -> Path:
        return self.path / "locks" / "organization" / PROJECT / stack


def _read(file: Path) -> Lock | None:
    try:
        content = json.loads(file.read_text())
        return Lock(file, int(content["pid"]), str(content["hostname"]))
    except (OSError, ValueError, KeyError):
        return None


def _is_engine(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    try:
        return b"pulumi" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return True  # no /proc: it lives, and is taken for the engine
