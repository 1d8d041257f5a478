"""Whole lines of one file that several processes and threads append to, and that a crash may leave half-written."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from spec.errors import MegatokError

RECEIPTS = "receipts"
"""Folder beside the file, for what must not be lost with it."""


class LineFile:
    """A `money.store.Store`: a place in the file, up to which its lines were read."""

    def __init__(self, path: Path) -> None:
        self.place = str(path)
        self.path = path
        self._end = 0
        self._last = b""
        self._descriptor: int | None = None
        """While held; None where there is no file."""

    @contextlib.contextmanager
    def held(self, *, write: bool) -> Iterator[None]:
        """While nobody else writes. A writer makes the file where it is missing.

        `flock`, not `lockf`: it also holds between two handles of one process.
        """
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT if write else os.O_RDONLY
        self._descriptor = descriptor = self._open(flags)
        try:
            yield
        finally:
            self._descriptor = None
            if descriptor is not None:
                # A child forked meanwhile shares the lock; closing alone would leave it held there.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
                os.close(descriptor)

    def _open(self, flags: int) -> int | None:
        try:
            if flags & os.O_CREAT:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            while True:
                descriptor = os.open(self.path, flags, 0o600)
                fcntl.flock(descriptor, fcntl.LOCK_EX if flags & os.O_CREAT else fcntl.LOCK_SH)
                if self._is_current(descriptor):
                    return descriptor
                os.close(descriptor)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not flags & os.O_CREAT:
                return None
            raise MegatokError(
                f"the ledger {self.path} cannot be opened: {error.strerror}; "
                "give this user the rights to it, or name another ledger on a local file system"
            ) from error

    def _is_current(self, descriptor: int) -> bool:
        """Whether the path still names this file: what is appended to one that was moved away is lost."""
        with contextlib.suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(descriptor), os.stat(self.path))
        return False

    def new_lines(self) -> tuple[bool, list[bytes]]:
        """A torn last line is none.

        The last line read must still stand where it stood. As each line carries the hash of the one before, that one
        comparison vouches for all of the past, also where a new file took the place, and the inode, of the old.
        """
        if (descriptor := self._descriptor) is None:
            self.forget()
            return True, []
        mark = self._last + b"\n"
        void = self._end > 0 and os.pread(descriptor, len(mark), self._end - len(mark)) != mark
        if void:
            self.forget()
        data = b""
        while more := os.pread(descriptor, 1 << 24, self._end + len(data)):
            data += more
        return void, data[: data.rfind(b"\n") + 1].split(b"\n")[:-1]

    def took(self, line: bytes) -> None:
        self._end += len(line) + 1
        self._last = line

    def forget(self) -> None:
        self._end, self._last = 0, b""

    def add(self, line: bytes) -> bool:
        """A torn line is cut off first. After an error the file is as it was."""
        descriptor = self._descriptor
        assert descriptor is not None
        try:
            os.ftruncate(descriptor, self._end)
            _write(descriptor, line + b"\n")
            if not self._end:
                _sync_folder(self.path.parent)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, self._end)
                os.fsync(descriptor)
            raise MegatokError(
                f"the ledger {self.path} cannot take a line: {error.strerror}; nothing was written and nothing may be "
                "created; make room on its disk and try again"
            ) from error
        self.took(line)
        return True

    def way_out(self, whole: int) -> str:
        return f"move the file away and keep it, put its first {whole} lines (head -n {whole}) in its place"

    def keep(self, name: str, data: bytes) -> None:
        folder = self.path.parent / RECEIPTS
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            half = folder / f".{name}.{os.getpid()}"
            descriptor = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            try:
                _write(descriptor, data)
            finally:
                os.close(descriptor)
            half.replace(folder / name)
            _sync_folder(folder)
        except OSError as error:
            raise MegatokError(
                f"{name} cannot be kept in {folder}: {error.strerror}; make room there, then ask again"
            ) from error

    def kept(self) -> dict[str, bytes]:
        folder = self.path.parent / RECEIPTS
        try:
            return {path.name: path.read_bytes() for path in sorted(folder.glob("[!.]*.json"))}
        except OSError as error:
            raise MegatokError(f"{folder} cannot be read: {error.strerror}; give this user the rights to it") from error


def _write(descriptor: int, data: bytes) -> None:
    """All of it, durable."""
    while data:
        data = data[os.write(descriptor, data) :]
    os.fsync(descriptor)


def _sync_folder(path: Path) -> None:
    """A new file is only durable once its folder is."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
