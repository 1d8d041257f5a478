"""UTC days and months, and what of a cost falls into each."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Literal

from spec.cost import share_usd

Unit = Literal["day", "month"]
UNITS: dict[Unit, int] = {"day": 10, "month": 7}
"""How much of an ISO time names the period: 2026-01-31, 2026-01. In text order they are in order of time."""

FOREVER = datetime.max.replace(tzinfo=UTC)
"""End of what has no known end."""


def period(at: datetime, unit: Unit) -> str:
    return at.astimezone(UTC).isoformat()[: UNITS[unit]]


def shares(usd: Decimal, started_at: datetime, ended_at: datetime) -> dict[str, Decimal]:
    """What of `usd` falls into each day and month, by the time that was spent in it."""
    whole = ended_at - started_at
    if whole <= timedelta(0):
        return whole_in_each(usd, ended_at, ended_at)
    times: dict[str, timedelta] = {}
    for start, stop in _days(started_at, ended_at):
        for unit in UNITS:
            times[period(start, unit)] = times.get(period(start, unit), timedelta(0)) + (stop - start)
    return {name: share_usd(usd, part, whole) for name, part in times.items()}


def whole_in_each(usd: Decimal, since: datetime, until: datetime) -> dict[str, Decimal]:
    """All of `usd` in each day and month from `since` to `until`: an upper bound where the times are not known."""
    starts = (until, *(start for start, _ in _days(since, until)))
    return {period(start, unit): usd for start in starts for unit in UNITS}


def _days(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """The time from `start` to `end`, cut at each midnight UTC."""
    while start < end:
        morning = start.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        stop = min(end, morning + timedelta(days=1))
        yield start, stop
        start = stop
