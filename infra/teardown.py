"""The end of a run, proven: from the ledger and the clouds' tags alone, without Pulumi and its state.

`fence -> end what still creates -> find -> delete -> see gone -> settle -> absent from two listings -> receipt`.
It goes on after every error, and repeats what may yet succeed until its time is over; what is left then stands in
the receipt.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import TypeVar

from infra import orphans
from infra.cloud import Cloud, Item, Machine
from infra.clouds import CLOUDS, cloud
from infra.provider.end import give_up, in_order, price, see_gone
from infra.provider.job import patiently
from money import budget, receipt
from money.account import Key, account, key
from money.intents import open_intents
from money.ledger import Ledger
from spec import clock
from spec.errors import MegatokError, NotConfigured, TeardownUnproven, why
from spec.home import ledger_mark, owner
from spec.ledger import Event, Resource
from spec.receipt import Receipt

WORKERS = 32
PAUSE_S = 0.5
"""Between two rounds over what would not go."""
ROUND_S = 20.0
"""What would not go within this waits for the next round: meanwhile the rest goes."""
UNKNOWN_S = 1.0
"""Where a create was called and its outcome is not known, absent means absent twice, at least so far apart: the call
of a process that was just killed may still be in the cloud's queue."""

LEDGER = "ledger"
"""Its place among the doubts."""

T = TypeVar("T")
Tell = Callable[[str], object]


def quiet(_line: str) -> None:
    """For callers that want no progress."""


@dataclass
class Work:
    """One teardown in progress."""

    run: str
    ledger: Ledger
    tell: Tell
    ends_at: float
    """On the monotonic clock."""
    only: tuple[Resource, ...] | None = None
    """What to end; None: all that the run has anywhere."""
    tokens: frozenset[str] | None = None
    """The creates of unknown outcome to look into; None: all."""
    foreign: bool = False
    """Also what bears the run's name in another ledger: only where a person named it."""
    doubts: dict[str, str] = field(default_factory=dict)
    """What went wrong last, by the thing that it went wrong with."""
    bills: dict[str, Mapping[str, Decimal]] = field(default_factory=dict)
    """Each cloud's own figures, by id."""

    @property
    def mark(self) -> str:
        return ledger_mark(self.ledger.address)

    @property
    def left_s(self) -> float:
        return max(0.0, self.ends_at - time.monotonic())

    @property
    def events(self) -> tuple[Event, ...]:
        """None where the ledger cannot be read: then tags alone say what to end, and nothing is proven."""
        try:
            return self.ledger.events(self.run)
        except MegatokError as error:
            self.doubts[LEDGER] = str(error)
            return ()

    def check_ledger(self) -> None:
        """TeardownUnproven where it cannot be read: there is nothing to write a receipt from."""
        try:
            self.ledger.events()
        except MegatokError as error:
            raise TeardownUnproven(
                f"{error}; all that bears the tag of run {self.run} was told to end, which nothing proves meanwhile"
            ) from error


@dataclass(frozen=True)
class Thing:
    """Something that may be billed, and the attempt that made it."""

    resource: Resource
    token: str
    item: Item | None


def teardown(
    run: str,
    ledger_address: str,
    *,
    on_line: Tell = quiet,
    settle_timeout_s: float = 120,
    burned: str = "",
    foreign: bool = False,
) -> Receipt:
    """End all that the run has anywhere; the receipt says what is proven. Calling it again goes on.

    `burned`: why its nodes were of no use, where they were not.
    """
    work = Work(run, Ledger(ledger_address), on_line, time.monotonic() + settle_timeout_s, foreign=foreign)
    _record(work, partial(work.ledger.fence, run))
    _end_processes(orphans.orphans(work.events, run), on_line)
    play_money = []
    for name in _names(work.events):
        try:
            found = cloud(name)
            play_money += [found.capabilities.simulated] if found.capabilities.billed else []
            _clear(work, found)
        except Exception as error:
            work.doubts[name] = f"cloud {name}: {why(error)}"
    _record(work, partial(_account_for, work, burned))
    _record(work, partial(budget.close, work.ledger, run, "torn down"))
    work.check_ledger()
    written = receipt.build(
        work.events,
        run,
        cloud_usd={id: usd for bill in work.bills.values() for id, usd in bill.items()},
        simulated=bool(play_money) and all(play_money),
        unproven=[f"{doubt}; megatok down {run} goes on" for doubt in work.doubts.values()],
        ledger=work.ledger,
        now=clock.now(),
    )
    _record(work, partial(work.ledger.keep_receipt, written))
    return written


def take_over(run: str, ledger_address: str, *, on_line: Tell = quiet) -> None:
    """Own a run whose runner is dead: what that left working creates nothing more, and is ended. A person's is not."""
    ledger = Ledger(ledger_address)
    if ledger.events(run):
        ledger.fence(run)
    _end_processes([one for one in orphans.orphans(ledger.events(run), run) if one.is_automated], on_line)


def remove(
    run: str,
    ledger_address: str,
    things: Sequence[Resource],
    tokens: Sequence[str] = (),
    *,
    on_line: Tell = quiet,
    settle_timeout_s: float = 120,
) -> tuple[str, ...]:
    """End single things of a run, and give up creates of it that made nothing; the rest stays. What is unproven."""
    work = Work(
        run, Ledger(ledger_address), on_line, time.monotonic() + settle_timeout_s, tuple(things), frozenset(tokens)
    )
    intended = (one for event in open_intents(work.events, run) if event.token in tokens for one in event.resources)
    for name in sorted({one.cloud for one in (*things, *intended)}):
        try:
            if not _clear(work, cloud(name)):
                work.doubts.setdefault(name, f"cloud {name}: not all was seen gone")
        except Exception as error:
            work.doubts[name] = f"cloud {name}: {why(error)}"
    return tuple(work.doubts.values())


def _end_processes(left: Sequence[orphans.Process], tell: Tell) -> None:
    if left:
        tell(f"ending {len(left)} processes that a dead run left: {', '.join(str(one.pid) for one in left)}")
        orphans.end(left)


def _names(events: Iterable[Event]) -> tuple[str, ...]:
    """Clouds that the run's events name; all that we may use, where none does: the ledger may be lost."""
    named = {resource.cloud for event in events for resource in event.resources}
    return tuple(sorted(named or filter(configured, CLOUDS)))


def configured(name: str) -> bool:
    """Whether this machine has credentials for it; also where it does not answer, since then nobody can say no."""
    try:
        cloud(name).scope()
    except Exception as error:
        return not isinstance(error, NotConfigured)
    return True


def _clear(work: Work, where: Cloud) -> bool:
    """Round after round until two listings show nothing; False where time is over before that."""
    while True:
        ended = [_ended(work, where, batch) for batch in _batches(work, where)]
        if all(ended) and _absent_twice(work, where):
            break
        if LEDGER in work.doubts or not work.left_s:
            return False
        time.sleep(PAUSE_S)
    _release(work, where)
    _read_bill(work, where)
    return True


def _read_bill(work: Work, where: Cloud) -> None:
    work.bills[where.name] = _ask(work, partial(where.billed_usd, work.run))


def _batches(work: Work, where: Cloud) -> tuple[Sequence[Thing], ...]:
    """All that is wanted gone, and still stands or is not yet paid; what holds others first.

    What an attempt made without the ledger's knowledge is committed; what no attempt knows is only settled.
    """
    _read_bill(work, where)
    made = _made(work, where)
    listed = {one.id: one.resource for one in _listed(work, where)}
    ids = _all(work, where, listed) if work.only is None else {x.id: x for x in work.only if x.cloud == where.name}
    settled = account(work.events, work.run).settled
    wanted = [one for one in ids.values() if one.id in listed or key(one) not in settled]
    with ThreadPoolExecutor(WORKERS) as pool:
        things = pool.map(lambda one: _known(work, where, one, made.get(key(one), (one, ""))[1]), wanted)
        return in_order(where, list(things), lambda thing: thing.resource.kind)


def _listed(work: Work, where: Cloud) -> tuple[Item, ...]:
    """What bears the run's tag. A run of the same name in another ledger is somebody else's: told, and left alone."""
    found = _ask(work, partial(where.inventory, work.run))
    if work.foreign or work.only is not None:
        return found
    for one in found:
        if not one.is_of(work.mark):
            work.doubts[one.id] = (
                f"{one.resource.kind} {one.id} ({one.name}) bears this run's name and is accounted in another ledger "
                f"({one.ledger}): left alone; if it is yours, end it with megatok audit --fix {one.id}"
            )
    return tuple(one for one in found if one.is_of(work.mark))


def _all(work: Work, where: Cloud, listed: dict[str, Resource]) -> dict[str, Resource]:
    """Listed, found under an open token, known to the ledger, or charged for; by id."""
    ids = {resource.id: resource for resource, _ in _made(work, where).values()} | listed
    for token in _open(work, where):
        ids |= {one.id: one.resource for one in _found(work, where, token)}
    for id in work.bills[where.name].keys() - ids.keys():
        unnamed = Resource(cloud=where.name, region="", kind="", id=id)
        found = _ask(work, partial(where.read, unnamed))
        if found is None or work.foreign or found.is_of(work.mark):
            ids[id] = found.resource if found else unnamed.model_copy(update={"kind": "charge"})
    return ids


def _found(work: Work, where: Cloud, token: str) -> tuple[Machine, ...]:
    return tuple(one for one in _ask(work, partial(where.find, token)) if work.foreign or one.is_of(work.mark))


def _known(work: Work, where: Cloud, resource: Resource, token: str) -> Thing:
    item = _ask(work, partial(where.read, resource))
    token = token or (item.token if item else "")
    if token in account(work.events, work.run).tokens:
        began = item.started_at if item else None
        _record(work, partial(budget.commit, work.ledger, work.run, token, (resource,), began))
    return Thing(resource, token, item)


def _ended(work: Work, where: Cloud, things: Sequence[Thing]) -> bool:
    """Delete them side by side, see each gone, settle it; False where one would not go."""
    with ThreadPoolExecutor(WORKERS) as pool:
        gone = list(pool.map(lambda thing: _gone(work, where, thing), things))
    _read_bill(work, where)
    for thing, last in zip(things, gone):
        if last:
            usd = _settle(work, where, thing, last.item)
            work.tell(f"{thing.resource.name or thing.resource.kind} ({thing.resource.id}) is gone: ${usd}")
    return all(gone)


@dataclass(frozen=True)
class Gone:
    """As the cloud last knew it; None where it has forgotten it."""

    item: Item | None


def _gone(work: Work, where: Cloud, thing: Thing) -> Gone | None:
    """Its end, seen; None where it is not, with the reason among the doubts."""
    id, name = thing.resource.id, thing.resource.name
    try:
        last = see_gone(where, thing.resource, min(work.left_s, ROUND_S))
    except Exception as error:
        work.doubts[id] = f"{thing.resource.kind} {id} ({name}): {why(error)}"
        work.tell(work.doubts[id])
        return None
    work.doubts.pop(id, None)
    return Gone(last)


def _settle(work: Work, where: Cloud, thing: Thing, last: Item | None) -> Decimal:
    """Put on record what it cost by the cloud's own times; where these are lost, by its bill, else at the worst."""
    item, id = last or thing.item, thing.resource.id
    now = _ask(work, where.now)
    began = item.started_at if item else None
    ended = (last.ended_at if last else None) or now
    usd = price(where, thing.item, last, work.bills[where.name].get(id), now)
    if usd is None:
        token = account(work.events, work.run).tokens.get(thing.token)
        usd = token.held_usd if token else Decimal(0)
    _record(work, partial(budget.settle, work.ledger, work.run, thing.token, thing.resource, usd, began, ended))
    return usd


def _account_for(work: Work, burned: str) -> None:
    """Nothing that was paid stays outside of budgets: a run that the ledger had lost is opened with what it cost."""
    now = account(work.events, work.run)
    if now.settled_usd and not now.budget_usd:
        work.ledger.open(work.run, now.settled_usd, "found by its tags; its budget is what it cost", owner())
    for name, token in now.tokens.items() if burned else ():
        if token.committed and not token.released:
            budget.release(work.ledger, work.run, name, burned)


def _absent_twice(work: Work, where: Cloud) -> bool:
    """Whether two listings, as far apart as the cloud may lag, show nothing of it; what they lack is recorded."""
    apart_s = max(where.capabilities.consistency_s, UNKNOWN_S if _open(work, where) else 0.0)
    for listing in range(receipt.SIGHTINGS):
        time.sleep(apart_s if listing else 0)
        asked_at = _ask(work, where.now)
        listed = {one.id for one in _listed(work, where)}
        absent = tuple(resource for resource, _ in _made(work, where).values() if resource.id not in listed)
        if absent:
            _record(work, partial(budget.sighting, work.ledger, work.run, absent, asked_at))
        left = listed if work.only is None else listed & {one.id for one in work.only}
        if left or any(_found(work, where, token) for token in _open(work, where)):
            return False
    return True


def _release(work: Work, where: Cloud) -> None:
    """Free what was set aside for creates that made nothing; what counts as paid instead is absent twice as well."""
    now, made = _ask(work, where.now), len(_made(work, where))
    for token, event in _open(work, where).items():
        on_its_way_until = event.at + timedelta(seconds=where.capabilities.create_limit_s)
        if event.host != socket.gethostname() and clock.now() < on_its_way_until:
            work.doubts[token] = (
                f"{token}: process {event.pid} on {event.host} may still be creating it until "
                f"{on_its_way_until:%H:%M:%S} UTC"
            )
        else:
            _record(work, partial(give_up, where, work.ledger, work.run, token, now))
    if len(_made(work, where)) > made:
        _absent_twice(work, where)


def _record(work: Work, write: Callable[[], object]) -> None:
    """Put something on record. A ledger that cannot be written makes all unproven, but keeps no machine up."""
    try:
        write()
    except MegatokError as error:
        work.doubts[LEDGER] = str(error)
        work.tell(str(error))


def _ask(work: Work, call: Callable[[], T]) -> T:
    """The answer, asked for again while that can help and time is left."""
    return patiently(call, work.left_s)


def _open(work: Work, where: Cloud) -> dict[str, Event]:
    """Intents for this cloud whose outcome is not known, by token."""
    return {
        event.token: event
        for event in open_intents(work.events, work.run)
        if any(one.cloud == where.name for one in event.resources)
        and (work.tokens is None or event.token in work.tokens)
    }


def _made(work: Work, where: Cloud) -> dict[Key, tuple[Resource, str]]:
    """All that the ledger knows the run to have made in this cloud, with its token."""
    return {
        key(resource): (resource, event.token)
        for event in work.events
        if event.kind in ("commit", "settle")
        for resource in event.resources
        if resource.cloud == where.name
    }
