"""The truth about runs and what they really cost, kept in whole hours and fractions, without the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

START = datetime(2026, 1, 30, tzinfo=UTC)
"""Two days before a month ends."""
JANUARY_DAYS = 2
DAYS = 6
"""Days that are looked at."""
ZERO = Decimal(0)

OWNERS = ("ann", "bob")
RUNS = {"a": "ann", "b": "ann", "c": "bob"}

Unit = str
"""day or month"""


def at(hour: int) -> datetime:
    return START + timedelta(hours=hour)


def index(hour: int, unit: Unit) -> int:
    """Number of the day or month that an hour is in."""
    day = hour // 24
    return day if unit == "day" else int(day >= JANUARY_DAYS)


def names(unit: Unit) -> list[str]:
    return [f"{at(24 * day):%Y-%m-%d}" for day in range(DAYS)] if unit == "day" else ["2026-01", "2026-02"]


@dataclass
class Create:
    """One attempt: what the ledger promised to hold, what the cloud may still charge, and what it did charge."""

    run: str
    since: int
    until: int
    base_usd: Decimal
    asked: dict[int, Decimal] = field(default_factory=dict)
    """Extensions set aside, by their end, and not given back."""
    moved: dict[int, Decimal] = field(default_factory=dict)
    """Extensions that the cloud made true."""
    began: int | None = None
    known: bool = False
    given_up: bool = False
    gone: bool = False
    running: set[str] = field(default_factory=set)
    paid: list[tuple[Decimal, int, int]] = field(default_factory=list)

    @property
    def paid_usd(self) -> Decimal:
        return sum((usd for usd, _, _ in self.paid), ZERO)

    @property
    def held_usd(self) -> Decimal:
        """What must be set aside."""
        return ZERO if self.gone else max(ZERO, self.base_usd + sum(self.asked.values(), ZERO) - self.paid_usd)

    @property
    def could_usd(self) -> Decimal:
        """What the cloud may still charge."""
        may = self.began is not None and not self.gone
        return self.base_usd + sum(self.moved.values(), ZERO) - self.paid_usd if may else ZERO

    @property
    def ends(self) -> int:
        """When the cloud ends it by itself."""
        return max((self.until, *self.moved))

    def stands_too(self, node: str, usd: Decimal, now: int, until: int) -> None:
        """All that stands of it, with one node that nobody knew, may still cost `usd`."""
        self.base_usd = max(self.base_usd, self.paid_usd + usd)
        self.since, self.until = min(self.since, now), max(self.until, until)
        self.began, self.known = now if self.began is None else self.began, True
        self.running.add(node)

    def paid_in(self, number: int, unit: Unit) -> Fraction:
        total = Fraction(0)
        for usd, start, end in self.paid:
            hours = range(start, end) or range(end, end + 1)
            total += Fraction(usd) * sum(index(hour, unit) == number for hour in hours) / len(hours)
        return total


@dataclass
class Truth:
    now: int = 20
    budgets: dict[str, Decimal] = field(default_factory=dict)
    limits: dict[tuple[str, Unit], Decimal | None] = field(default_factory=dict)
    floors: dict[tuple[str, Unit, int], Fraction] = field(default_factory=dict)
    """What was set aside or spent already when a limit was set, or when a node was found: that stays."""
    found_usd: dict[str, Decimal] = field(default_factory=dict)
    """By run, what was set aside or spent when a node was found: that stays too."""
    turns: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RUNS, 0))
    """How often each run changed hands."""
    creates: dict[str, Create] = field(default_factory=dict)

    def of(self, run: str) -> Iterator[Create]:
        return (one for one in self.creates.values() if one.run == run)

    def standing(self, run: str, number: int, *, given_up: bool = False) -> str | None:
        """The latest attempt of that group that may have made something and is not over, one `given_up` or not."""
        prefix = f"{run}-{number}-"
        found = (
            name
            for name, one in reversed(self.creates.items())
            if name.startswith(prefix) and one.began is not None and not one.gone and given_up >= one.given_up
        )
        return next(found, None)

    def unknown(self, run: str) -> set[str]:
        """Attempts that may have made something, with nobody having looked."""
        return {
            name
            for name, one in self.creates.items()
            if one.run == run and one.began is not None and not (one.known or one.gone)
        }

    def promised_usd(self, run: str) -> Decimal:
        return sum((one.held_usd + one.paid_usd for one in self.of(run)), ZERO)

    def exposed_usd(self, run: str) -> Decimal:
        """What the run cost, and may still cost."""
        return sum((one.could_usd + one.paid_usd for one in self.of(run)), ZERO)

    def promised_in(self, owner: str, number: int, unit: Unit) -> Fraction:
        """What must count in a period: all that is set aside until it is over, also past its end."""
        mine = [one for one in self.creates.values() if RUNS[one.run] == owner]
        spans = ((one, max((self.now, one.until, *one.asked))) for one in mine)
        held = (one.held_usd for one, end in spans if index(one.since, unit) <= number <= index(end, unit))
        return sum((Fraction(usd) for usd in held), sum((one.paid_in(number, unit) for one in mine), Fraction(0)))

    def exposed_in(self, owner: str, number: int, unit: Unit) -> Fraction:
        """What a period did cost and may cost at most, as the cloud sees it."""
        mine = [one for one in self.creates.values() if RUNS[one.run] == owner]
        could = (one.could_usd for one in mine if index(one.since, unit) <= number <= index(one.ends, unit))
        return sum((Fraction(usd) for usd in could), sum((one.paid_in(number, unit) for one in mine), Fraction(0)))

    def is_over(self, run: str, since: int, until: int) -> bool:
        """Whether what is promised passes the budget of the run, or a limit of its owner from `since` to `until`."""
        if self.promised_usd(run) > self.budgets[run]:
            return True
        for unit in ("day", "month"):
            limit_usd = self.limits.get((RUNS[run], unit))
            numbers = range(index(since, unit), index(max(until, self.now), unit) + 1)
            if limit_usd is not None and any(self.promised_in(RUNS[run], n, unit) > limit_usd for n in numbers):
                return True
        return False

    def set_limit(self, owner: str, unit: Unit, usd: Decimal | None) -> None:
        self.limits[owner, unit] = usd
        for number in range(len(names(unit))):
            self.floors[owner, unit, number] = self.promised_in(owner, number, unit)

    def allow_what_stands(self, run: str) -> None:
        """No limit can undo what is found standing; above one, nothing may be added."""
        self.found_usd[run] = self.promised_usd(run)
        for owner, unit in self.limits:
            if owner == RUNS[run]:
                self.set_limit(owner, unit, self.limits[owner, unit])

    def check(self) -> None:
        """The promise itself: no budget of a run, a day or a month is passed, whatever the cloud still does."""
        for run, budget_usd in self.budgets.items():
            found_usd = self.found_usd.get(run, ZERO)
            assert self.exposed_usd(run) <= max(budget_usd, found_usd), f"run {run} passes its budget"
            self.found_usd[run] = min(self.promised_usd(run), found_usd)
        for (owner, unit), limit_usd in self.limits.items():
            for number in range(len(names(unit))):
                used, floor = self.exposed_in(owner, number, unit), self.floors[owner, unit, number]
                assert limit_usd is None or used <= max(Fraction(limit_usd), floor), f"{owner} passes the {unit}"
                self.floors[owner, unit, number] = min(self.promised_in(owner, number, unit), floor)
