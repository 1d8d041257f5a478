"""Price x time -> dollars, the way a cloud bills: a started step is paid whole. Exact, never a float."""

from __future__ import annotations

import math
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from spec.errors import MegatokError

_MICRODOLLARS = 1_000_000
"""Amounts are rounded up to one millionth of a dollar: below any cloud's own rounding, and short in a ledger."""


def worst_case_usd(usd_per_hour: Decimal, seconds: float, step_s: int) -> Decimal:
    """Cost of `seconds` at `usd_per_hour`, rounded up to whole steps of `step_s`, then up to 1e-6 dollar."""
    if not (usd_per_hour.is_finite() and usd_per_hour >= 0):
        raise MegatokError(f"{usd_per_hour} dollars an hour is not a price; give one that is finite and not negative")
    if not (math.isfinite(seconds) and seconds >= 0):
        raise MegatokError(f"{seconds} s is not a time that can be priced; give one that is finite and not negative")
    if step_s <= 0:
        raise MegatokError(f"a billing step of {step_s} s cannot be priced; a step is 1 s or more")
    billed_s = math.ceil(Fraction(seconds) / step_s) * step_s
    return Decimal(math.ceil(Fraction(usd_per_hour) * billed_s / 3600 * _MICRODOLLARS)).scaleb(-6)


def cost_usd(usd_per_hour: Decimal, started_at: datetime, ended_at: datetime, step_s: int) -> Decimal:
    """Cost of what was up from `started_at` to `ended_at`, both by the cloud's own clock."""
    return worst_case_usd(usd_per_hour, (ended_at - started_at).total_seconds(), step_s)
