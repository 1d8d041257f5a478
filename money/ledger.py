"""The ledger: append-only, one `spec.ledger.Event` a line as JSON, each with the hash of the line before."""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from urllib.parse import unquote, urlsplit

from money.account import account
from money.lines import LineFile
from spec.errors import MegatokError, RecipeError
from spec.ledger import Event, EventKind, Resource, read

FILE = "ledger.jsonl"


@dataclass(frozen=True)
class Draft:
    """What an event shall say; the ledger adds its place, its writer and, where `at` is None, the time."""

    kind: EventKind
    token: str = ""
    usd: Decimal | None = None
    resources: tuple[Resource, ...] = ()
    note: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    at: datetime | None = None
    raises_epoch: bool = False


Decide = Callable[[tuple[Event, ...]], Draft | None]
"""From the run's events so far: what to append, or None where that is already so. It only looks: a ledger whose writers
race may ask it again."""


class Ledger:
    """One ledger, by address. Safe to share between threads; other processes have a handle of their own."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._file = LineFile(_folder(address) / FILE)
        self._lock = threading.Lock()
        self._head = ""
        self._events: list[Event] = []
        self._runs: dict[str, list[Event]] = {}

    def append(self, run: str, decide: Decide) -> Event | None:
        """Append what `decide` says; nobody else appends between its look and the write."""
        with self._lock, self._file.locked(write=True) as descriptor:
            self._catch_up(descriptor)
            draft = decide(tuple(self._runs.get(run, ())))
            if draft is None:
                return None
            event = self._event(run, draft)
            line = event.model_dump_json().encode()
            self._file.append(descriptor, line)
            self._keep(event, line)
            return event

    def events(self, run: str | None = None) -> tuple[Event, ...]:
        """All events, or those of one run, in order."""
        with self._lock:
            self._read()
            return tuple(self._events if run is None else self._runs.get(run, ()))

    def runs(self) -> tuple[str, ...]:
        """Every run that the ledger names, oldest first."""
        with self._lock:
            self._read()
            return tuple(self._runs)

    def head(self) -> str:
        """SHA-256 of the last line; empty where there is none."""
        with self._lock:
            self._read()
            return self._head

    def epoch(self, run: str) -> int:
        """Number of the run's present owner; 0 for a run never opened."""
        return account(self.events(run), run).epoch

    def open(self, run: str, budget_usd: Decimal, note: str = "") -> int:
        """Give the run its budget; answer its epoch. A closed run opens again; what it spent before still counts."""
        if not (budget_usd.is_finite() and budget_usd > 0):
            raise RecipeError(f"budget_usd of run {run!r} is {budget_usd}; give an amount of dollars above 0")

        def decide(events: tuple[Event, ...]) -> Draft | None:
            now = account(events, run)
            if now.is_open and now.budget_usd != budget_usd:
                raise RecipeError(
                    f"run {run!r} is open with budget_usd {now.budget_usd}, not {budget_usd}; "
                    f"keep that budget, or end the run first: megatok down {run}"
                )
            return None if now.is_open else Draft("open", usd=budget_usd, note=note, raises_epoch=True)

        event = self.append(run, decide)
        return event.epoch if event else self.epoch(run)

    def fence(self, run: str) -> int:
        """Become the run's owner: who holds an older epoch creates nothing more."""
        event = self.append(run, lambda _: Draft("fence", raises_epoch=True))
        assert event is not None
        return event.epoch

    def _read(self) -> None:
        try:
            with self._file.locked(write=False) as descriptor:
                self._catch_up(descriptor)
        except FileNotFoundError:
            self._forget()

    def _catch_up(self, descriptor: int) -> None:
        void, lines = self._file.new_lines(descriptor)
        if void:
            self._forget()
        for line in lines:
            self._keep(self._parse(line), line)
            self._file.took(line)

    def _parse(self, line: bytes) -> Event:
        try:
            event = read(line)
        except ValueError as error:
            raise self._damaged(str(error)) from None
        if (event.seq, event.previous) != (len(self._events), self._head):
            raise self._damaged("it does not follow the line before it")
        return event

    def _damaged(self, why: str) -> MegatokError:
        number, path = len(self._events) + 1, self._file.path
        return MegatokError(
            f"line {number} of the ledger {path} is damaged or of another version: {why}; move the file away and "
            f"keep it, put its first {number - 1} lines (head -n {number - 1}) in its place, then megatok down each "
            "run that may still stand: it finds machines by tag"
        )

    def _event(self, run: str, draft: Draft) -> Event:
        before = self._runs.get(run)
        return Event(
            seq=len(self._events),
            at=draft.at or datetime.now(UTC),
            run=run,
            epoch=(before[-1].epoch if before else 0) + draft.raises_epoch,
            kind=draft.kind,
            token=draft.token,
            usd=draft.usd,
            resources=draft.resources,
            note=draft.note,
            pid=os.getpid(),
            host=socket.gethostname(),
            started_at=draft.started_at,
            ended_at=draft.ended_at,
            previous=self._head,
        )

    def _keep(self, event: Event, line: bytes) -> None:
        self._events.append(event)
        self._runs.setdefault(event.run, []).append(event)
        self._head = hashlib.sha256(line).hexdigest()

    def _forget(self) -> None:
        self._file.forget()
        self._events.clear()
        self._runs.clear()
        self._head = ""


def _folder(address: str) -> Path:
    parts = urlsplit(address)
    if parts.scheme != "file" or parts.netloc or not parts.path.startswith("/") or parts.query or parts.fragment:
        raise RecipeError(f"{address!r} is not the address of a ledger; write it like file:///home/me/.megatok/ledger")
    return Path(unquote(parts.path))
