"""The receipt: each billable thing that a run ever had, and the proof that it is gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from money.account import ZERO, Account, Key, account, key
from money.intents import open_intents, replaced_by
from money.ledger import Ledger
from spec.ledger import Event, Resource
from spec.receipt import Line, Receipt

SIGHTINGS = 2
"""Listings without a thing, made after its end, that prove it gone: one alone may lag behind."""


@dataclass
class _Thing:
    """What the events say of one resource."""

    resource: Resource
    token: str = ""
    started_at: datetime | None = None
    settle: Event | None = None
    listings: set[datetime] = field(default_factory=set)

    @property
    def absent_at(self) -> tuple[datetime, ...]:
        """Listings that count: a thing absent before its end was only not there yet."""
        ended_at = self.settle.ended_at if self.settle else None
        return tuple(sorted(at for at in self.listings if ended_at is not None and at >= ended_at))


def build(
    events: Sequence[Event],
    run: str,
    *,
    cloud_usd: Mapping[str, Decimal],
    simulated: bool,
    unproven: Sequence[str],
    ledger: Ledger,
    now: datetime,
) -> Receipt:
    """`cloud_usd` is what the cloud itself charges, by resource id; `unproven` is what the caller could not show.

    Proven: every thing ever committed, settled or listed is settled and twice absent after its end, no create is of
    unknown outcome, and the cloud charges for nothing else.
    """
    total = account(events, run)
    things = _things(events, run)
    lines = tuple(_line(thing, _burned(thing, total), cloud_usd) for thing in things)
    doubts = (*unproven, *_doubts(events, run, lines, cloud_usd))
    return Receipt(
        run=run,
        simulated=simulated,
        budget_usd=total.budget_usd,
        usd=total.settled_usd,
        held_usd=total.reserved_usd,
        cloud_usd=sum(cloud_usd.values(), ZERO) if cloud_usd else None,
        burned_usd=sum((line.usd for thing, line in zip(things, lines, strict=True) if _burned(thing, total)), ZERO),
        lines=lines,
        unproven=doubts,
        proven=not doubts,
        ledger=ledger.address,
        ledger_head=ledger.head(),
        written_at=now,
    )


def _things(events: Sequence[Event], run: str) -> tuple[_Thing, ...]:
    """Every resource that the run's events name as made, paid or absent, oldest first."""
    things: dict[Key, _Thing] = {}
    for event in events:
        if event.run != run or event.kind not in ("commit", "settle", "sighting"):
            continue
        for resource in event.resources:
            thing = things.setdefault(key(resource), _Thing(resource))
            if event.kind == "sighting":
                thing.listings.add(event.at)
                continue
            thing.token = thing.token or event.token
            thing.started_at = event.started_at or thing.started_at
            thing.settle = event if event.kind == "settle" else thing.settle
    return tuple(things.values())


def _line(thing: _Thing, burned: str, cloud_usd: Mapping[str, Decimal]) -> Line:
    return Line(
        resource=thing.resource,
        created_at=thing.started_at,
        deleted_at=thing.settle.ended_at if thing.settle else None,
        absent_at=thing.absent_at,
        usd=(thing.settle.usd if thing.settle else None) or ZERO,
        cloud_usd=cloud_usd.get(thing.resource.id),
        proven=len(thing.absent_at) >= SIGHTINGS,
        note=f"burned: {burned}" if burned else "",
    )


def _burned(thing: _Thing, total: Account) -> str:
    """Why its cost bought nothing, empty where it served.

    Burned is what came of an attempt that was given up (released) or followed by another for the same group, and what
    belongs to no attempt at all.
    """
    token = total.tokens.get(thing.token)
    if token is None:
        return "no attempt knows it, found by its tag"
    if token.released:
        return f"{thing.token} was given up: {token.released.note}"
    later = replaced_by(total, thing.token)
    return f"{thing.token} was replaced by {later}" if later else ""


def _doubts(
    events: Sequence[Event], run: str, lines: Sequence[Line], cloud_usd: Mapping[str, Decimal]
) -> tuple[str, ...]:
    """What stands in the way of `proven`, each with the way on."""
    again = f"megatok down {run} goes on"
    known = {line.resource.id for line in lines}
    return (
        *(
            f"{event.token}: whether its create made something is not known; {again}"
            for event in open_intents(events, run)
        ),
        *(f"{line.resource.kind} {line.resource.id}: {_missing(line)}; {again}" for line in lines if not line.proven),
        *(
            f"{other}: the cloud charges for it, the ledger does not know it; {again}"
            for other in cloud_usd
            if other not in known
        ),
    )


def _missing(line: Line) -> str:
    if line.deleted_at is None:
        return "its end is not known"
    return f"absent in {len(line.absent_at)} of {SIGHTINGS} listings after its end"
