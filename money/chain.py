"""The chain of events in a store, as far as it was read: each line holds the number and the hash of the one before."""

from __future__ import annotations

import hashlib

from money.books import Books
from money.store import Store
from spec.errors import MegatokError
from spec.ledger import Event, NewerVersion, read


class Chain:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._clear()

    def _clear(self) -> None:
        self.head = ""
        """Hash of the last line."""
        self.events: list[Event] = []
        self.runs: dict[str, list[Event]] = {}
        self.books = Books()

    def catch_up(self) -> None:
        void, lines = self._store.new_lines()
        if void:
            self._clear()
        for line in lines:
            event = self._read(line)
            self._store.took(line)
            self._keep(event, line)

    def add(self, event: Event) -> bool:
        """False where another line came first: catch up, and decide again."""
        line = event.model_dump_json().encode()
        if not self._store.add(line):
            return False
        self._keep(event, line)
        return True

    def lines(self) -> list[bytes]:
        """All lines as they are in the store now, read or not."""
        self._store.forget()
        self._clear()
        return self._store.new_lines()[1]

    def _keep(self, event: Event, line: bytes) -> None:
        self.events.append(event)
        if event.run:
            self.runs.setdefault(event.run, []).append(event)
        self.books.apply(event)
        self.head = digest(line)

    def _read(self, line: bytes) -> Event:
        try:
            event = read(line)
        except NewerVersion as error:
            raise MegatokError(
                f"line {len(self.events) + 1} of the ledger {self._store.place} cannot be read: {error}; "
                "update this program to the one that wrote it, nothing is created until then"
            ) from None
        except ValueError as error:
            raise self._damaged(str(error)) from None
        if (event.seq, event.previous) != (len(self.events), self.head):
            raise self._damaged("it does not follow the line before it")
        return event

    def _damaged(self, why: str) -> MegatokError:
        whole = len(self.events)
        return MegatokError(
            f"line {whole + 1} of the ledger {self._store.place} is damaged or of another version: {why}; "
            f"{self._store.way_out(whole)}, then megatok down each run that may still stand: it finds machines by tag"
        )


def digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()
