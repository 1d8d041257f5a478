"""A run's folder: what it was asked, what is known of it, and who works on it now."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from infra import stack
from report.write import load as read_document
from spec import clock, load
from spec.errors import MegatokError, RecipeError
from spec.home import home
from spec.inventory import Inventory
from spec.receipt import Receipt
from spec.receipt import read as read_receipt
from spec.record import RunDocument


class Busy(RecipeError):
    """Another process works on this run."""


RECEIPT = "receipt.json"


class RunFolder:
    """`$MEGATOK_HOME/runs/RUN`. Each file is replaced whole, so a reader never sees half of one."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.path = home() / "runs" / run

    @property
    def recipe(self) -> Path:
        return self.path / "recipe.yaml"

    @property
    def key_file(self) -> Path:
        """API key of the served endpoint; beside the SSH key, not in the folder that people pass on."""
        return home() / "keys" / f"{self.run}.api-key"

    def exists(self) -> bool:
        return self.path.is_dir()

    def make(self) -> None:
        """RecipeError where the run exists: of two that begin it at once, one gets it."""
        try:
            self.path.mkdir(parents=True)
        except FileExistsError:
            raise RecipeError(
                f"run {self.run} exists already; go on with --resume {self.run}, or take another id"
            ) from None
        except OSError as error:
            raise MegatokError(
                f"cannot make {self.path}: {error.strerror}; give it room and rights, or set MEGATOK_HOME"
            ) from error

    def write(self, name: str, text: str) -> Path:
        """Replace the file `name`."""
        path = self.path / name
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(text)
            partial.replace(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
            raise MegatokError(f"cannot write {path}: {error.strerror}; free some space or set MEGATOK_HOME") from error
        return path

    def plan(self) -> str:
        """The plan as it was rendered before anything was rented."""
        path = self.path / "plan.txt"
        return path.read_text() if path.exists() else ""

    def last_line(self) -> str:
        """The newest line of progress, without its time and without the money as it was then."""
        try:
            text = (self.path / "progress.log").read_text(errors="replace").rstrip()
        except OSError:
            return ""
        return text.rpartition("\n")[2].partition("] ")[2].partition("; $")[0]

    def inventory(self) -> Inventory | None:
        path = self.path / "inventory.json"
        return load.inventory(path) if path.exists() else None

    def forget_inventory(self) -> None:
        """Its nodes are gone, or will be made anew."""
        with contextlib.suppress(OSError):
            (self.path / "inventory.json").unlink()

    def receipt(self) -> Receipt | None:
        """Of the last teardown."""
        path = self.path / RECEIPT
        if not path.exists():
            return None
        try:
            return read_receipt(path.read_bytes())
        except ValueError as error:
            raise MegatokError(f"the receipt {path} cannot be read: {error}; move it away, then try again") from None

    def document(self) -> RunDocument | None:
        path = self.path / "document.json"
        return read_document(path) if path.exists() else None

    def api_key(self) -> str:
        """Made at first use, mode 600."""
        if not self.key_file.exists():
            self.key_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self.key_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w") as file:
                file.write(secrets.token_urlsafe(24))
        return self.key_file.read_text()

    @contextlib.contextmanager
    def owned(self) -> Iterator[None]:
        """Hold the run for this process; Busy where another one has it."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "lock").open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EACCES):
                    raise
                raise Busy(
                    f"process {self.owner() or '?'} works on run {self.run}; wait, or: megatok stop {self.run}"
                ) from None
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield
            file.truncate(0)

    def owner(self) -> int | None:
        """Process that holds the run now; None where nobody does (the kernel drops a dead owner's lock)."""
        try:
            with (self.path / "lock").open() as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    text = file.read()
                    return int(text) if text.isdigit() else None
        except FileNotFoundError:
            pass
        return None


def mint(name: str) -> str:
    """A new run id: the recipe's name, the time and four random letters."""
    stem = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")[:24] or "run"
    return f"{stem}-{clock.now():%m%d-%H%M%S}-{secrets.token_hex(2)}"


def folders() -> tuple[RunFolder, ...]:
    """All runs of this machine, oldest first."""
    root = home() / "runs"
    paths = [path for path in root.iterdir() if path.is_dir()] if root.is_dir() else []
    return tuple(RunFolder(path.name) for path in sorted(paths, key=lambda path: path.stat().st_ctime))


def known(run: str) -> RunFolder:
    """The folder of a run or of a stack that exists; RecipeError with the ones that do."""
    folder = RunFolder(run)
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", run) or not (folder.exists() or run in stack.stacks()):
        names = ", ".join(other.run for other in folders()[-5:]) or "none yet"
        raise RecipeError(f"no run {run!r} on this machine; the latest are: {names}")
    return folder
