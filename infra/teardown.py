"""The end of a run, proven: from the ledger and the clouds' tags alone, without Pulumi and its state.

`fence -> end what still creates -> find -> delete -> see gone -> settle -> absent from two listings -> receipt`.
It goes on after every error, and repeats what may yet succeed until its time is over; what is left then stands in
the receipt.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import TypeVar

from infra import orphans
from infra.cloud import Cloud, Item
from infra.clouds import CLOUDS, cloud
from infra.provider.job import patiently, until
from money import budget, receipt
from money.account import Key, account, key
from money.intents import open_intents
from money.ledger import Ledger
from spec import clock
from spec.cost import cost_usd
from spec.errors import MegatokError, NotYetTerminated
from spec.ledger import Event, Resource
from spec.receipt import Receipt

WORKERS = 32
PAUSE_S = 0.5
"""Between two rounds over what would not go."""
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
    doubts: dict[str, str] = field(default_factory=dict)
    """What went wrong last, by the thing that it went wrong with."""
    billed: dict[str, Decimal] = field(default_factory=dict)
    """The clouds' own figures, by id."""

    @property
    def left_s(self) -> float:
        return max(0.0, self.ends_at - time.monotonic())

    @property
    def events(self) -> tuple[Event, ...]:
        return self.ledger.events(self.run)


@dataclass(frozen=True)
class Thing:
    """Something that may be billed, and the attempt that made it."""

    resource: Resource
    token: str
    item: Item | None


def teardown(run: str, ledger_address: str, *, on_line: Tell = quiet, settle_timeout_s: float = 120) -> Receipt:
    """End all that the run has anywhere; the receipt says what is proven. Calling it again goes on."""
    work = Work(run, Ledger(ledger_address), on_line, time.monotonic() + settle_timeout_s)
    _record(work, partial(work.ledger.fence, run))
    _end_processes(orphans.orphans(work.events, run), on_line)
    play_money = []
    for name in _names(work.events):
        try:
            found = cloud(name)
            play_money += [found.capabilities.simulated] if found.capabilities.billed else []
            _clear(work, found)
        except Exception as error:
            work.doubts[name] = f"cloud {name}: {error}"
    _record(work, partial(budget.close, work.ledger, run, "torn down"))
    written = receipt.build(
        work.events,
        run,
        cloud_usd=work.billed,
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
            work.doubts[name] = f"cloud {name}: {error}"
    return tuple(work.doubts.values())


def _end_processes(left: Sequence[orphans.Process], tell: Tell) -> None:
    if left:
        tell(f"ending {len(left)} processes that a dead run left: {', '.join(str(one.pid) for one in left)}")
        orphans.end(left)


def _names(events: Iterable[Event]) -> tuple[str, ...]:
    """Clouds that the run's events name; all that there are, where none does: the ledger may be lost."""
    named = {resource.cloud for event in events for resource in event.resources}
    return tuple(sorted(named or CLOUDS))


def _clear(work: Work, where: Cloud) -> bool:
    """Round after round until two listings show nothing; False where time is over before that."""
    while True:
        with ThreadPoolExecutor(WORKERS) as pool:
            ended = list(pool.map(lambda thing: _end(work, where, thing), _unsettled(work, where)))
        if _absent_twice(work, where) and all(ended):
            break
        if LEDGER in work.doubts or not work.left_s:
            return False
        time.sleep(PAUSE_S)
    _release(work, where)
    work.billed |= _ask(work, partial(where.billed_usd, work.run))
    return True


def _unsettled(work: Work, where: Cloud) -> tuple[Thing, ...]:
    """All that is wanted gone, and still stands or is not yet paid.

    What an attempt made without the ledger's knowledge is committed; what no attempt knows is only settled.
    """
    work.billed |= _ask(work, partial(where.billed_usd, work.run))
    made = _made(work, where)
    listed = {one.id: one.resource for one in _ask(work, partial(where.inventory, work.run))}
    ids = _all(work, where, listed) if work.only is None else {x.id: x for x in work.only if x.cloud == where.name}
    settled = account(work.events, work.run).settled
    wanted = [one for one in ids.values() if one.id in listed or key(one) not in settled]
    return tuple(_known(work, where, resource, made.get(key(resource), (resource, ""))[1]) for resource in wanted)


def _all(work: Work, where: Cloud, listed: dict[str, Resource]) -> dict[str, Resource]:
    """Listed, found under an open token, known to the ledger, or charged for; by id."""
    ids = {resource.id: resource for resource, _ in _made(work, where).values()} | listed
    for token in _open(work, where):
        ids |= {one.id: one.resource for one in _ask(work, partial(where.find, token))}
    for id in work.billed.keys() - ids.keys():
        if found := _ask(work, partial(where.read, Resource(cloud=where.name, region="", kind="", id=id))):
            ids[id] = found.resource
    return ids


def _known(work: Work, where: Cloud, resource: Resource, token: str) -> Thing:
    item = _ask(work, partial(where.read, resource))
    token = token or (item.token if item else "")
    if token in account(work.events, work.run).tokens:
        began = item.started_at if item else None
        _record(work, partial(budget.commit, work.ledger, work.run, token, (resource,), began))
    return Thing(resource, token, item)


def _end(work: Work, where: Cloud, thing: Thing) -> bool:
    """Delete it, see it gone, settle it; False where that failed."""
    id, name = thing.resource.id, thing.resource.name
    try:
        _ask(work, partial(where.delete, thing.resource))
        last = _gone(work, where, thing.resource)
        usd = _settle(work, where, thing, last)
    except Exception as error:
        work.doubts[id] = f"{thing.resource.kind} {id} ({name}): {error}"
        work.tell(work.doubts[id])
        return False
    work.doubts.pop(id, None)
    work.tell(f"{name} ({id}) is gone: ${usd}")
    return True


def _gone(work: Work, where: Cloud, resource: Resource) -> Item | None:
    """The thing as the cloud last knew it; None where it has forgotten it."""

    def ended() -> tuple[Item | None] | None:
        now = where.read(resource)
        return (now,) if now is None or now.state == "terminated" else None

    found = until(lambda: _ask(work, ended), work.left_s)
    if found is None:
        raise NotYetTerminated("it was told to end, and still stands")
    return found[0]


def _settle(work: Work, where: Cloud, thing: Thing, last: Item | None) -> Decimal:
    """Put on record what it cost by the cloud's own times; where these are lost, by its bill, else at the worst."""
    item = last or thing.item
    began = item.started_at if item else None
    ended = (last.ended_at if last else None) or _ask(work, where.now)
    if not where.capabilities.billed or (last and not began):
        usd = Decimal(0)  # owned, or never up
    elif item and began:
        usd = cost_usd(item.usd_per_hour, began, max(began, ended), where.capabilities.billing_step_s)
    else:
        token = account(work.events, work.run).tokens.get(thing.token)
        usd = work.billed.get(thing.resource.id, token.held_usd if token else Decimal(0))
    _record(work, partial(budget.settle, work.ledger, work.run, thing.token, thing.resource, usd, began, ended))
    return usd


def _absent_twice(work: Work, where: Cloud) -> bool:
    """Whether two listings, as far apart as the cloud may lag, show nothing of it; what they lack is recorded."""
    apart_s = max(where.capabilities.consistency_s, UNKNOWN_S if _open(work, where) else 0.0)
    for listing in range(receipt.SIGHTINGS):
        time.sleep(apart_s if listing else 0)
        asked_at = _ask(work, where.now)
        listed = {one.id for one in _ask(work, partial(where.inventory, work.run))}
        absent = tuple(resource for resource, _ in _made(work, where).values() if resource.id not in listed)
        if absent:
            _record(work, partial(budget.sighting, work.ledger, work.run, absent, asked_at))
        left = listed if work.only is None else listed & {one.id for one in work.only}
        if left or any(_ask(work, partial(where.find, token)) for token in _open(work, where)):
            return False
    return True


def _release(work: Work, where: Cloud) -> None:
    """Free what was set aside for creates that made nothing."""
    for token, event in _open(work, where).items():
        on_its_way_until = event.at + timedelta(seconds=where.capabilities.create_limit_s)
        if event.host != socket.gethostname() and clock.now() < on_its_way_until:
            work.doubts[token] = (
                f"{token}: process {event.pid} on {event.host} may still be creating it until "
                f"{on_its_way_until:%H:%M:%S} UTC"
            )
        else:
            _record(work, partial(budget.release, work.ledger, work.run, token, "nothing stands"))


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
