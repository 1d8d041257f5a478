"""The audit itself: what the clouds show, held against the ledger. Changes nothing."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from infra import orphans
from infra.audit.judge import Verdict, judge, judge_blindly
from infra.audit.look import Sight, Silence, look, stands
from infra.cloud import Item
from money.account import Account, account
from money.books import Books
from money.intents import open_intents
from money.ledger import Ledger
from money.limits import passed
from spec import clock
from spec.errors import MegatokError, RecipeError
from spec.home import ledger_mark
from spec.ledger import Event

ELSEWHERE = timedelta(minutes=15)
"""A runner on another machine cannot be seen from here. One whose run holds nothing writes more often than this: it
creates, or it is done."""

Owned = Callable[[str], bool]
"""Whether a runner of this machine holds a run."""


@dataclass(frozen=True)
class Finding:
    """A billable thing, and whether it stands by right."""

    item: Item
    verdict: Verdict
    why: str
    run_is_open: bool
    seen_at: datetime
    """By the cloud's clock."""

    @property
    def is_amiss(self) -> bool:
        """Of ours, and not as the ledger has it."""
        return self.verdict in ("expired", "closed", "unknown", "not known")


@dataclass(frozen=True)
class Hollow:
    """A run that holds money, or is open, and has nothing standing."""

    run: str
    is_open: bool
    held_usd: Decimal
    busy: bool
    """Somebody may be at work on it."""


@dataclass(frozen=True)
class Report:
    address: str
    sights: tuple[Sight, ...]
    silences: tuple[Silence, ...]
    findings: tuple[Finding, ...]
    intents: tuple[Event, ...]
    """Creates of unknown outcome whose caller is dead, and under whose token nothing is seen."""
    hollow: tuple[Hollow, ...]
    unseen: tuple[str, ...]
    """Runs that may hold something in a cloud for which this machine has no credentials, in words."""
    dark: Mapping[str, datetime]
    """Runs that the ledger knows to hold something in a cloud that does not answer, and until when that may bill."""
    over: Mapping[str, tuple[str, ...]]
    """Limits that what stands has passed, by run."""
    unread: MegatokError | None = None
    """Why nothing is known of the ledger."""

    @property
    def over_budget(self) -> tuple[str, ...]:
        """In words, each once, with the way on."""
        runs: dict[str, list[str]] = {}
        for run, limits in self.over.items():
            for limit in limits:
                runs.setdefault(limit, []).append(run)
        return tuple(
            f"{limit}; nothing more is created under it; end what can go with: megatok down {' or '.join(names)}"
            for limit, names in runs.items()
        )

    @property
    def unproven(self) -> tuple[str, ...]:
        """What may be billed without anybody's right to it."""
        return (
            *((str(self.unread),) if self.unread else ()),
            *(f"cloud {one.cloud} does not answer: {one.why}" for one in self.silences if one.configured),
            *(
                f"{one.item.resource.kind} {one.item.id} of run {one.item.run}: {one.verdict}: {one.why}"
                for one in self.findings
                if one.is_amiss
            ),
            *self.unseen,
            *(f"{event.token}: what its create made is not known, and who called it is dead" for event in self.intents),
        )

    def about(self, names: Sequence[str]) -> Report:
        """Only what is named, by run or by id. RecipeError for a name that nothing knows, where all clouds answered."""
        if not names:
            return self
        known = {name for one in self.findings for name in (one.item.run, one.item.id)}
        known |= set() if self.unread else _named(Ledger(self.address))
        strange = [name for name in names if name not in known]
        if strange and not self.unread and not any(one.configured for one in self.silences):
            raise RecipeError(
                f"nothing is called {', '.join(strange)}: no run or resource of the ledger {self.address}, and nothing "
                "with our tag in a cloud; see: megatok audit"
            )
        runs = {*names, *(one.item.run for one in self.findings if one.item.id in names)}
        return replace(
            self,
            findings=tuple(one for one in self.findings if {one.item.run, one.item.id} & set(names)),
            intents=tuple(event for event in self.intents if event.run in names),
            hollow=tuple(one for one in self.hollow if one.run in names),
            dark={run: until for run, until in self.dark.items() if run in names},
            over={run: limits for run, limits in self.over.items() if run in runs},
        )


def _named(ledger: Ledger) -> set[str]:
    ids = {resource.id for event in ledger.events() for resource in event.resources if resource.id}
    return {*ledger.runs(), *ids}


def audit(address: str, owned: Owned) -> Report:
    """Look at every cloud first, then at the ledger: what was made meanwhile has its intent there already."""
    seen = look()
    sights = tuple(one for one in seen if isinstance(one, Sight))
    silences = tuple(one for one in seen if isinstance(one, Silence))
    books = _Books(address, owned)
    findings = tuple(found for sight in sights for found in _findings(sight, books))
    return Report(
        address,
        sights,
        silences,
        findings,
        _intents(books, findings),
        _hollow(books, findings, {one.cloud for one in silences}),
        _unseen(books, {one.cloud for one in silences if not one.configured}),
        _dark(books, {one.cloud for one in silences if one.configured}),
        books.passed(),
        books.unread,
    )


class _Books:
    """The ledger as it is now, by run."""

    def __init__(self, address: str, owned: Owned) -> None:
        self.mark = ledger_mark(address)
        self.events: dict[str, tuple[Event, ...]] = {}
        self.unread: MegatokError | None = None
        self._all = Books()
        try:
            ledger = Ledger(address)
            self.events = {run: ledger.events(run) for run in ledger.runs()}
            self._all = Books(ledger.events())
        except MegatokError as error:
            self.unread = error
        self._owned = owned
        self._busy: dict[str, bool] = {}

    def account(self, run: str) -> Account:
        return account(self.events.get(run, ()), run)

    def unsettled(self) -> list[tuple[str, Account]]:
        """Runs that are open, or hold money."""
        accounts = ((run, self.account(run)) for run in self.events)
        return [(run, now) for run, now in accounts if now.is_open or now.held]

    def passed(self) -> dict[str, tuple[str, ...]]:
        found = {run: passed(self._all, run, clock.now()) for run in self.events}
        return {run: limits for run, limits in found.items() if limits}

    def clouds(self, run: str) -> set[str]:
        return {resource.cloud for event in self.events.get(run, ()) for resource in event.resources}

    def busy(self, run: str) -> bool:
        """Whether somebody may be at work on the run: a process here, or a machine that wrote of it just now."""
        if run not in self._busy:
            events = self.events.get(run, ())
            self._busy[run] = self._owned(run) or bool(orphans.orphans(events, run)) or _fresh(events)
        return self._busy[run]


def _fresh(events: Sequence[Event]) -> bool:
    return any(event.host != socket.gethostname() and clock.now() < event.at + ELSEWHERE for event in events[-1:])


def _findings(sight: Sight, books: _Books) -> list[Finding]:
    found = []
    for item in sight.items:
        run = books.account(item.run)
        busy = run.is_open and books.busy(item.run)
        blind = books.unread is not None
        verdict, why = (
            judge_blindly(item, books.mark, sight.now) if blind else judge(item, run, books.mark, sight.now, busy)
        )
        one = Finding(item, verdict, why, run.is_open, sight.now)
        if not one.is_amiss or stands(sight.where, item):
            found.append(one)
    return found


def _intents(books: _Books, findings: Sequence[Finding]) -> tuple[Event, ...]:
    seen = {one.item.token for one in findings}
    return tuple(
        event
        for run, events in books.events.items()
        for event in open_intents(events, run)
        if event.token not in seen and not books.busy(run)
    )


def _hollow(books: _Books, findings: Sequence[Finding], silent: set[str]) -> tuple[Hollow, ...]:
    """A run in a cloud that does not answer may hold anything."""
    standing = {one.item.run for one in findings}
    return tuple(
        Hollow(run, now.is_open, now.reserved_usd, books.busy(run))
        for run, now in books.unsettled()
        if run not in standing and not silent & books.clouds(run)
    )


def _unseen(books: _Books, foreign: set[str]) -> tuple[str, ...]:
    return tuple(
        f"run {run} may hold something on {name}, for which this machine has no credentials: audit it where they are"
        for run, _ in books.unsettled()
        for name in sorted(foreign & books.clouds(run))
    )


def _dark(books: _Books, silent: set[str]) -> dict[str, datetime]:
    return {
        run: max(token.until for token in now.held.values())
        for run, now in books.unsettled()
        if now.held and silent & books.clouds(run)
    }
