"""Whole lines of one file that several processes and threads append to, and that a crash may leave half-written."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from spec.errors import MegatokError


class LineFile:
    """A place in the file, up to which its lines were read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._end = 0
        self._last = b""

    @contextlib.contextmanager
    def locked(self, *, write: bool) -> Iterator[int]:
        """Descriptor of the file, while nobody else writes. Missing: a writer makes it; FileNotFoundError to a reader.

        `flock`, not `lockf`: it also holds between two handles of one process.
        """
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT if write else os.O_RDONLY
        descriptor = self._open(flags)
        try:
            yield descriptor
        finally:
            # A child forked meanwhile shares the lock; closing alone would leave it held there.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def _open(self, flags: int) -> int:
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
                raise
            raise MegatokError(
                f"the ledger {self.path} cannot be opened: {error.strerror}; "
                "give this user the rights to it, or name another ledger on a local file system"
            ) from error

    def _is_current(self, descriptor: int) -> bool:
        """Whether the path still names this file: what is appended to one that was moved away is lost."""
        with contextlib.suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(descriptor), os.stat(self.path))
        return False

    def new_lines(self, descriptor: int) -> tuple[bool, list[bytes]]:
        """Whether what was read before is void, and the whole lines after it; a torn last line is not one.

        The last line read must still stand where it stood. As each line carries the hash of the one before, that one
        comparison vouches for all of the past, also where a new file took the place, and the inode, of the old.
        """
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

    def append(self, descriptor: int, line: bytes) -> None:
        """Make `line` durable after all that was read, where a torn line is cut off, or leave the file as it was."""
        try:
            os.ftruncate(descriptor, self._end)
            data = line + b"\n"
            while data:
                data = data[os.write(descriptor, data) :]
            os.fsync(descriptor)
            if not self._end:
                self._sync_folder()
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, self._end)
                os.fsync(descriptor)
            raise MegatokError(
                f"the ledger {self.path} cannot take a line: {error.strerror}; nothing was written and nothing may be "
                "created; make room on its disk and try again"
            ) from error
        self.took(line)

    def _sync_folder(self) -> None:
        """A new file is only durable once its folder is."""
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
