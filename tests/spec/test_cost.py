from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from math import isinf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec.cost import affordable_s, cost_usd, extra_usd, group_usd, share_usd, worst_case_usd
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


@dataclass(frozen=True)
class Extra:
    usd_per_hour: Decimal = Decimal(0)
    usd_once: Decimal = Decimal(0)
    usd_per_gib: Decimal = Decimal(0)


EXTRAS = st.lists(st.builds(Extra, PRICES, PRICES, PRICES), max_size=3)
GIB = st.floats(0, 1e4)
MICRO = Fraction(1, 10**6)


@given(PRICES, st.integers(0, 8), SECONDS, STEPS, EXTRAS, GIB)
def test_a_group_costs_its_nodes_with_all_that_is_billed_beside_them(
    price: Decimal, count: int, seconds: float, step_s: int, extras: list[Extra], gib: float
) -> None:
    usd = Fraction(group_usd(price, count, seconds, step_s, extras, gib))
    hourly = Fraction(price) + sum((Fraction(extra.usd_per_hour) for extra in extras), Fraction(0))
    fixed = sum((Fraction(one.usd_once) + Fraction(one.usd_per_gib) * Fraction(gib) for one in extras), Fraction(0))
    exact = count * (hourly * Fraction(seconds) / 3600 + fixed)
    assert exact <= usd <= exact + count * (hourly * step_s / 3600 + (1 + 3 * len(extras)) * MICRO)


def test_a_fee_and_traffic_are_paid_whatever_the_time() -> None:
    fee = Extra(usd_once=Decimal(5), usd_per_gib=Decimal("0.09"))
    assert group_usd(Decimal(0), 2, 0, 60, [fee], 100) == Decimal(28)


@given(st.decimals(0, 10**5, places=2), PRICES, st.integers(1, 8), STEPS)
def test_what_money_buys_fits_and_a_step_more_does_not(free: Decimal, price: Decimal, count: int, step_s: int) -> None:
    def cost(seconds: float) -> Decimal:
        return group_usd(price, count, seconds, step_s)

    buys = affordable_s(free, cost, step_s)
    if isinf(buys):
        assert cost(365 * 24 * 3600) <= free
    else:
        assert cost(buys) <= free < cost(buys + step_s)
        assert buys % step_s == 0


def test_money_that_buys_nothing() -> None:
    assert affordable_s(Decimal(1), lambda seconds: Decimal(2), 60) == 0


@given(st.decimals(0, 1000, places=6), st.integers(0, 10**6), st.integers(1, 10**6))
def test_the_shares_of_a_cost_cover_it(usd: Decimal, part_s: int, rest_s: int) -> None:
    part, rest = timedelta(seconds=part_s), timedelta(seconds=rest_s)
    shares = share_usd(usd, part, part + rest) + share_usd(usd, rest, part + rest)
    assert usd <= shares <= usd + Decimal("0.000002")


@pytest.mark.parametrize("wrong", ["-1", "NaN", "Infinity"])
def test_no_price_no_cost(wrong: str) -> None:
    price = Decimal(wrong)
    acts: list[Callable[[], Decimal]] = [
        lambda: group_usd(price, 1, 1, 1),
        lambda: extra_usd(Extra(usd_once=price), 1, 1),
        lambda: extra_usd(Extra(usd_per_gib=price), 1, 1),
    ]
    for act in acts:
        with pytest.raises(MegatokError, match=r"is not a price"):
            act()


def test_no_amount_no_cost() -> None:
    acts: list[Callable[[], Decimal]] = [
        lambda: group_usd(Decimal(1), -1, 1, 1),
        lambda: extra_usd(Extra(), 1, 1, gib=-1),
    ]
    for act in acts:
        with pytest.raises(MegatokError, match="cannot be priced"):
            act()
