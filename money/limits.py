"""What all runs of one owner together may cost in a UTC day and in a UTC month."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from money.account import ZERO, Token
from money.books import Books, Purse
from money.ledger import Draft, Ledger
from money.periods import FOREVER, UNITS, period
from spec.errors import OverBudget, RecipeError
from spec.ledger import Event


@dataclass(frozen=True)
class Left:
    """Limits (None: there is none), and what counts against them in the day and month that were asked for."""

    day_usd: Decimal | None
    day_used_usd: Decimal
    month_usd: Decimal | None
    month_used_usd: Decimal


def set_limits(ledger: Ledger, owner: str, day_usd: Decimal | None, month_usd: Decimal | None) -> None:
    """Both at once; None lifts a limit. What is set aside already stays: a lower limit only refuses what is new."""
    if not owner:
        raise RecipeError("a limit needs an owner; set MEGATOK_OWNER or name one")
    for usd in (day_usd, month_usd):
        if usd is not None and not (usd.is_finite() and usd >= 0):
            raise RecipeError(f"{usd} USD is no limit for owner {owner!r}; give one that is finite and not negative")

    def decide(books: Books) -> Draft | None:
        if books.purse(owner).limits == {"day": day_usd, "month": month_usd}:
            return None
        return Draft("limit", owner=owner, day_usd=day_usd, month_usd=month_usd)

    ledger.append("", decide)


def left(events: Iterable[Event], owner: str, now: datetime) -> Left:
    purse = Books(events).purse(owner)
    day_used_usd, month_used_usd = (purse.used_usd(period(now, unit), unit, now) for unit in UNITS)
    return Left(purse.limits.get("day"), day_used_usd, purse.limits.get("month"), month_used_usd)


def free_usd(events: Iterable[Event], owner: str, now: datetime) -> Decimal | None:
    """The smaller rest of day and month, below 0 where more is in use; None where nothing limits the owner."""
    purse = Books(events).purse(owner)
    rests = [
        limit_usd - purse.used_usd(period(now, unit), unit, now)
        for unit in UNITS
        if (limit_usd := purse.limits.get(unit)) is not None
    ]
    return min(rests, default=None)


def passed(books: Books, run: str, now: datetime) -> tuple[str, ...]:
    """Which limits what stands has passed, of a run that holds money: its own, and its owner's days and months."""
    account = books.account(run)
    if not account.held:
        return ()
    purse = books.purse(account.owner)
    found = []
    if account.free_usd < 0:
        used_usd = account.budget_usd - account.free_usd
        found.append(f"budget of run {run!r}: {used_usd} USD settled or set aside, limit {account.budget_usd}")
    for unit in UNITS:
        name, used_usd = purse.fullest(unit, now, FOREVER, now)
        limit_usd = purse.limits.get(unit)
        if limit_usd is not None and used_usd > limit_usd:
            what = f"budget of owner {account.owner!r} in the {unit} {name} (UTC)"
            found.append(f"{what}: {used_usd} USD settled or set aside by all runs, limit {limit_usd}")
    return tuple(found)


def check_fits(
    books: Books,
    owner: str,
    token: str,
    before: Token,
    more_usd: Decimal,
    since: datetime,
    until: datetime,
    now: datetime,
) -> None:
    """OverBudget where `more_usd` on top of what the token holds, or holding that until `until`, passes a limit."""
    if before.reserved_until is not None:
        if not more_usd and until <= before.until:
            return
        since, until = min(since, before.since), max(until, before.until)
    purse, usd = books.purse(owner), before.held_usd + more_usd
    for unit in UNITS:
        limit_usd = purse.limits.get(unit)
        if limit_usd is None or not usd:
            continue
        name, used_usd = purse.fullest(unit, min(since, now), max(until, now), now, before)
        if used_usd + usd > limit_usd:
            raise OverBudget(
                _refusal(purse, owner, token, usd, unit, name, limit_usd, used_usd) + _way_out(unit, before)
            )


def _refusal(
    purse: Purse, owner: str, token: str, usd: Decimal, unit: str, name: str, limit_usd: Decimal, used_usd: Decimal
) -> str:
    settled_usd = purse.spent.get(name, ZERO)
    return (
        f"{token} needs {usd} USD in the worst case, owner {owner!r} has {limit_usd - used_usd} USD free in the "
        f"{unit} {name} (UTC): limit {limit_usd}, settled {settled_usd}, "
        f"reserved by all runs {used_usd - settled_usd}; "
    )


def _way_out(unit: str, before: Token) -> str:
    if before.committed:
        return f"extend by less, or raise the limit: megatok budget --{unit} USD"
    return "wait for the next, raise the limit with megatok budget, shorten lifetime_s, or take fewer or cheaper nodes"
