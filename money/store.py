"""Where a ledger's lines lie: a file on this machine, or numbered objects in a bucket."""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from money.lines import LineFile
from spec.errors import RecipeError

FILE = "ledger.jsonl"


class Store(Protocol):
    """Lines that are only ever added, and how far they were read. Used by one thread at a time."""

    place: str
    """As messages name it."""

    def held(self, *, write: bool) -> AbstractContextManager[None]:
        """What follows sees one state of the lines, as far as the store can keep others out."""

    def new_lines(self) -> tuple[bool, list[bytes]]:
        """Whether what was read before is void, and the whole lines after it."""

    def took(self, line: bytes) -> None:
        """The next of the new lines is read."""

    def forget(self) -> None:
        """Nothing is read."""

    def add(self, line: bytes) -> bool:
        """Make `line` durable right after all that was read, and count it as read; False where another came first."""

    def way_out(self, whole: int) -> str:
        """What a person does where only the first `whole` lines can be read."""

    def keep(self, name: str, data: bytes) -> None:
        """Keep a document beside the lines."""

    def kept(self) -> dict[str, bytes]:
        """The documents kept, by name."""


def store(address: str) -> Store:
    parts = urlsplit(address)
    plain = not (parts.query or parts.fragment)
    if plain and parts.scheme == "file" and not parts.netloc and parts.path.startswith("/"):
        return LineFile(Path(unquote(parts.path)) / FILE)
    if plain and parts.scheme == "s3" and parts.netloc and "@" not in parts.netloc:
        # By name: the library for it costs memory and a second, to nobody who needs none.
        made: Store = importlib.import_module("money.bucket").bucket(parts.netloc, unquote(parts.path).strip("/"))
        return made
    raise RecipeError(
        f"{address!r} is not the address of a ledger; write it like file:///home/me/.megatok/ledger "
        "or s3://bucket/folder"
    )
