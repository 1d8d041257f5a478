"""The ledger: append-only, one `spec.ledger.Event` a line as JSON, each with the hash of the line before."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from money.account import Account
from money.books import Books
from money.chain import Chain, digest
from money.store import Store, store
from spec.clock import now
from spec.errors import MegatokError, OverBudget, RecipeError
from spec.ledger import Event, EventKind, Resource, Scope
from spec.receipt import Receipt
from spec.receipt import read as read_receipt


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
    owner: str = ""
    day_usd: Decimal | None = None
    month_usd: Decimal | None = None
    scopes: tuple[Scope, ...] = ()
    raises_epoch: bool = False


Decide = Callable[[Books], Draft | None]
"""From what stands so far: what to append, or None where that is already so. It only looks: where writers race, it is
asked again."""


class Ledger:
    """One ledger, by address. Safe to share between threads; other processes have a handle of their own."""

    def __init__(self, address: str, *, clock: Callable[[], datetime] = now, where: Store | None = None) -> None:
        self.address = address
        self.clock = clock
        self._store = where or store(address)
        self._chain = Chain(self._store)
        self._lock = threading.Lock()

    def append(self, run: str, decide: Decide) -> Event | None:
        """Append what `decide` says; nothing was appended between its look and the write."""
        with self._lock:
            while True:
                with self._store.held(write=True):
                    self._chain.catch_up()
                    draft = decide(self._chain.books)
                    if draft is None:
                        return None
                    event = self._event(run, draft)
                    if self._chain.add(event):
                        return event

    def events(self, run: str | None = None) -> tuple[Event, ...]:
        """All events, or those of one run, in order."""
        with self._lock:
            chain = self._read()
            return tuple(chain.events if run is None else chain.runs.get(run, ()))

    def runs(self) -> tuple[str, ...]:
        """Every run that the ledger names, oldest first."""
        with self._lock:
            return tuple(self._read().runs)

    def head(self) -> str:
        """SHA-256 of the last line; empty where there is none."""
        with self._lock:
            return self._read().head

    def lines(self) -> tuple[bytes, ...]:
        """Every line as it stands, unread: for who doubts them."""
        with self._lock, self._store.held(write=False):
            return tuple(self._chain.lines())

    def epoch(self, run: str) -> int:
        """Number of the run's present owner; 0 for a run never opened."""
        with self._lock:
            return self._read().books.account(run).epoch

    def open(self, run: str, budget_usd: Decimal, note: str = "", owner: str = "") -> int:
        """Give the run its budget; answer its epoch. A closed run opens again; what it spent before still counts.

        `owner`: in whose days and months it counts.
        """
        if not run:
            raise RecipeError("a run needs a name; give one")
        if not (budget_usd.is_finite() and budget_usd > 0):
            raise RecipeError(f"budget_usd of run {run!r} is {budget_usd}; give an amount of dollars above 0")

        def decide(books: Books) -> Draft | None:
            now = books.account(run)
            _check_opens(now, run, budget_usd, owner)
            return None if now.is_open else Draft("open", usd=budget_usd, note=note, owner=owner, raises_epoch=True)

        event = self.append(run, decide)
        return event.epoch if event else self.epoch(run)

    def fence(self, run: str) -> int:
        """Become the run's owner: who holds an older epoch creates nothing more."""
        event = self.append(run, lambda _: Draft("fence", raises_epoch=True))
        assert event is not None
        return event.epoch

    def keep_receipt(self, receipt: Receipt) -> None:
        """Keep a copy beside the lines: it holds the head of their chain."""
        data = receipt.model_dump_json(indent=1).encode()
        self._store.keep(f"{receipt.run}-{digest(data)[:12]}.json", data)

    def receipts(self) -> dict[str, Receipt]:
        """The receipts kept, by name."""
        found = {}
        for name, data in self._store.kept().items():
            try:
                found[name] = read_receipt(data)
            except ValueError as error:
                raise MegatokError(
                    f"the receipt {name} kept beside the ledger {self._store.place} cannot be read: {error}; "
                    "move it away, or update this program if a newer one wrote it"
                ) from None
        return found

    def _read(self) -> Chain:
        with self._store.held(write=False):
            self._chain.catch_up()
        return self._chain

    def _event(self, run: str, draft: Draft) -> Event:
        return Event(
            seq=len(self._chain.events),
            at=draft.at or self.clock(),
            run=run,
            epoch=self._chain.books.account(run).epoch + draft.raises_epoch,
            kind=draft.kind,
            token=draft.token,
            usd=draft.usd,
            resources=draft.resources,
            note=draft.note,
            pid=os.getpid(),
            host=socket.gethostname(),
            started_at=draft.started_at,
            ended_at=draft.ended_at,
            owner=draft.owner,
            day_usd=draft.day_usd,
            month_usd=draft.month_usd,
            scopes=draft.scopes,
            previous=self._chain.head,
        )


def _check_opens(now: Account, run: str, budget_usd: Decimal, owner: str) -> None:
    if now.is_open and now.adopted and now.budget_usd != budget_usd:
        raise OverBudget(
            f"run {run!r} was adopted by an audit: what it had cost before is lost, so of {budget_usd} USD nothing can "
            f"be shown to be left beyond the {now.budget_usd} USD of what stands; let that go on to its end, or end it "
            f"with: megatok down {run}; then begin anew"
        )
    if now.is_open and now.budget_usd != budget_usd:
        raise RecipeError(
            f"run {run!r} is open with budget_usd {now.budget_usd}, not {budget_usd}; "
            f"keep that budget, or end the run first: megatok down {run}"
        )
    if owner and now.owner and owner != now.owner:
        raise RecipeError(
            f"run {run!r} is of owner {now.owner!r}, not {owner!r}; take another name for the run, or set MEGATOK_OWNER"
        )
