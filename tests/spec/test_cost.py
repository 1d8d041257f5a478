from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec.cost import cost_usd, worst_case_usd
from spec.errors import MegatokError

PRICES = st.decimals(0, 1000, places=6)
SECONDS = st.floats(0, 1e7)
STEPS = st.sampled_from([1, 60, 3600])
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("usd_per_hour", "seconds", "step_s", "usd"),
    [
        ("3600", 1, 1, "1"),
        ("1", 3600, 3600, "1"),
        ("1", 3601, 3600, "2"),
        ("60", 60.000001, 60, "2"),
        ("1", 1, 1, "0.000278"),
        ("0.000001", 0.5, 1, "0.000001"),
        ("5", 0, 60, "0"),
        ("0", 1e6, 60, "0"),
    ],
)
def test_a_started_step_is_paid_whole(usd_per_hour: str, seconds: float, step_s: int, usd: str) -> None:
    assert worst_case_usd(Decimal(usd_per_hour), seconds, step_s) == Decimal(usd)


@given(PRICES, SECONDS, STEPS)
def test_worst_case_is_never_below_the_exact_price_and_at_most_a_step_above(
    price: Decimal, seconds: float, step_s: int
) -> None:
    usd = Fraction(worst_case_usd(price, seconds, step_s))
    exact = Fraction(price) * Fraction(seconds) / 3600
    assert exact <= usd < exact + Fraction(price) * step_s / 3600 + Fraction(1, 10**6)


@given(PRICES, SECONDS, SECONDS, STEPS)
def test_longer_never_costs_less(price: Decimal, a: float, b: float, step_s: int) -> None:
    low, high = sorted((a, b))
    assert worst_case_usd(price, low, step_s) <= worst_case_usd(price, high, step_s)


@given(PRICES, st.integers(0, 10**6), st.integers(0, 10**6), STEPS)
def test_what_ended_within_its_lifetime_costs_at_most_the_worst_case(
    price: Decimal, up_ms: int, spare_ms: int, step_s: int
) -> None:
    cost = cost_usd(price, NOON, NOON + timedelta(milliseconds=up_ms), step_s)
    assert cost <= worst_case_usd(price, (up_ms + spare_ms) / 1000, step_s)


@pytest.mark.parametrize(
    ("usd_per_hour", "seconds", "step_s", "named"),
    [
        ("-1", 1, 1, "-1 dollars"),
        ("NaN", 1, 1, "NaN dollars"),
        ("1", -1, 1, "-1 s"),
        ("1", float("inf"), 1, "inf s"),
        ("1", 1, 0, "step of 0 s"),
    ],
)
def test_what_has_no_price_is_named(usd_per_hour: str, seconds: float, step_s: int, named: str) -> None:
    with pytest.raises(MegatokError, match=named):
        worst_case_usd(Decimal(usd_per_hour), seconds, step_s)


def test_an_end_before_the_start_is_refused() -> None:
    with pytest.raises(MegatokError, match="-1.0 s"):
        cost_usd(Decimal(1), NOON, NOON - timedelta(seconds=1), 60)
