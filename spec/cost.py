"""Price x use -> dollars, the way a cloud bills: a started step is paid whole. Exact, never a float."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Protocol

from spec.errors import MegatokError

_MICRODOLLARS = 1_000_000
"""Amounts are rounded up to one millionth of a dollar: below any cloud's own rounding, and short in a ledger."""
_LONGEST_S = 366 * 24 * 3600
"""No lifetime is longer: a search for what money buys ends here."""


class Priced(Protocol):
    """What is billed beside a node, apart: a disk, an address, a fee paid up front, traffic."""

    @property
    def usd_per_hour(self) -> Decimal: ...
    @property
    def usd_once(self) -> Decimal: ...
    @property
    def usd_per_gib(self) -> Decimal: ...


def worst_case_usd(usd_per_hour: Decimal, seconds: float, step_s: int) -> Decimal:
    """Cost of `seconds` at `usd_per_hour`, rounded up to whole steps of `step_s`, then up to 1e-6 dollar."""
    _check_price(usd_per_hour, "dollars an hour")
    if not (math.isfinite(seconds) and seconds >= 0):
        raise MegatokError(f"{seconds} s is not a time that can be priced; give one that is finite and not negative")
    if step_s <= 0:
        raise MegatokError(f"a billing step of {step_s} s cannot be priced; a step is 1 s or more")
    billed_s = math.ceil(Fraction(seconds) / step_s) * step_s
    return _rounded_up(Fraction(usd_per_hour) * billed_s / 3600)


def cost_usd(usd_per_hour: Decimal, started_at: datetime, ended_at: datetime, step_s: int) -> Decimal:
    """Cost of what was up from `started_at` to `ended_at`, both by the cloud's own clock."""
    return worst_case_usd(usd_per_hour, (ended_at - started_at).total_seconds(), step_s)


def extra_usd(extra: Priced, seconds: float, step_s: int, gib: float = 0) -> Decimal:
    """Cost of one thing billed beside a node for `seconds`, and of `gib` that pass through it."""
    once_usd = _rounded_up(Fraction(_check_price(extra.usd_once, "dollars up front")))
    return once_usd + worst_case_usd(extra.usd_per_hour, seconds, step_s) + traffic_usd(extra.usd_per_gib, gib)


def group_usd(
    usd_per_hour: Decimal, count: int, seconds: float, step_s: int, extras: Iterable[Priced] = (), gib: float = 0
) -> Decimal:
    """Worst case of `count` equal nodes, each with `extras` of its own and `gib` of traffic; each is billed apart."""
    if count < 0:
        raise MegatokError(f"{count} nodes cannot be priced; give 0 or more")
    node_usd = worst_case_usd(usd_per_hour, seconds, step_s)
    return count * sum((extra_usd(extra, seconds, step_s, gib) for extra in extras), node_usd)


def traffic_usd(usd_per_gib: Decimal, gib: float) -> Decimal:
    """Cost of data that leaves, or is fetched where fetching bills."""
    _check_price(usd_per_gib, "dollars a GiB")
    if not (math.isfinite(gib) and gib >= 0):
        raise MegatokError(f"{gib} GiB cannot be priced; give an amount that is finite and not negative")
    return _rounded_up(Fraction(usd_per_gib) * Fraction(gib))


def share_usd(usd: Decimal, part: timedelta, whole: timedelta) -> Decimal:
    """The share of `usd` that falls to `part` of a time, rounded up to 1e-6 dollar."""
    tick = timedelta(microseconds=1)
    return _rounded_up(Fraction(usd) * (part // tick) / (whole // tick))


def affordable_s(free_usd: Decimal, cost: Callable[[float], Decimal], step_s: int) -> float:
    """The longest time, in whole steps, whose `cost` fits into `free_usd`: 0 where none does, inf where all does."""
    low, high = 0, _LONGEST_S // step_s
    if cost(high * step_s) <= free_usd:
        return math.inf
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if cost(middle * step_s) <= free_usd else (low, middle)
    return float(low * step_s)


def _check_price(usd: Decimal, unit: str) -> Decimal:
    if not (usd.is_finite() and usd >= 0):
        raise MegatokError(f"{usd} {unit} is not a price; give one that is finite and not negative")
    return usd


def _rounded_up(usd: Fraction) -> Decimal:
    return Decimal(math.ceil(usd * _MICRODOLLARS)).scaleb(-6)
