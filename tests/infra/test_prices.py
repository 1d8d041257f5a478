"""What a group may cost, and how long its share of the money lets it live."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cloud import Extra
from infra.provider.group import NodeGroups
from money import limits
from money.ledger import Ledger
from plan.price import Tariff, floor_s
from spec.errors import NoCapacity, OverBudget
from spec.home import ledger_address, owner
from tests.infra.group_calls import RUN, kinds, made, money
from tests.infra.memory_cloud import MemoryCloud

DISK = Extra("disk", usd_per_hour=Decimal("0.10"))
FEE = Extra("fee", usd_once=Decimal("0.50"))
EGRESS = Extra("egress", usd_per_gib=Decimal("0.02"))


def lives(memory: MemoryCloud) -> list[float]:
    return [request.lifetime_s for request in memory.created]


def test_worst_case_counts_disks_fees_traffic_and_the_time_of_the_end(groups: NodeGroups, memory: MemoryCloud) -> None:
    memory.extras = (DISK, FEE, EGRESS)
    memory.capabilities = dataclasses.replace(memory.capabilities, kinds=("machine", "disk"), delete_s=360)
    made(groups, transfer_gib=10)
    assert money().reserved_usd + money().settled_usd == Decimal("1.91")  # 1.1 h x (1.00 + 0.10) + 0.50 + 10 x 0.02
    assert money().settled_usd == Decimal("0.70"), "fees and traffic are spent with the create"


@pytest.mark.parametrize(
    ("prices", "currency", "age_days", "limit", "why"),
    [
        ({"near": ""}, "USD", 0, None, "the cloud names no price"),
        ({"near": ""}, "USD", 0, "9", "the cloud names no price"),
        ({"near": "1"}, "EUR", 0, None, "its price is in EUR"),
        ({"near": "1"}, "EUR", 0, "9", "its price is in EUR"),
        ({"near": "1"}, "USD", 8, None, "too old; name max_usd_per_hour"),
        ({"near": "1.5"}, "USD", 0, "1.4", "1.5 USD/h, above max_usd_per_hour 1.4"),
    ],
)
def test_price_that_is_not_known_or_too_dear_is_refused_with_its_own_sentence(
    groups: NodeGroups,
    memory: MemoryCloud,
    prices: dict[str, str],
    currency: str,
    age_days: int,
    limit: str | None,
    why: str,
) -> None:
    memory.prices, memory.currency = prices, currency
    memory.as_of -= timedelta(days=age_days)
    with pytest.raises(NoCapacity, match=why):
        made(groups, max_usd_per_hour=limit)
    assert "reserve" not in kinds()


def test_old_price_counts_as_the_dearest_that_the_recipe_allows(groups: NodeGroups, memory: MemoryCloud) -> None:
    memory.as_of -= timedelta(days=8)
    made(groups, max_usd_per_hour="3")
    assert money().reserved_usd == 3


def test_offer_dearer_than_planned_is_not_taken_silently(groups: NodeGroups, memory: MemoryCloud) -> None:
    memory.prices = {"near": "2.00"}
    with pytest.raises(NoCapacity, match=r"2.00 USD/h, dearer than planned, 1.00; allow it with max_usd_per_hour"):
        made(groups, planned_usd_per_hour="1.00")
    assert not memory.created
    made(groups, planned_usd_per_hour="1.00", max_usd_per_hour="2.00")


def test_dearer_disks_than_planned_are_not_taken_silently(groups: NodeGroups, memory: MemoryCloud) -> None:
    memory.extras = (DISK,)
    with pytest.raises(NoCapacity, match=r"beside the hours \(disk\), dearer than planned"):
        made(groups, planned_extras=[])
    made(groups, planned_extras=[{"kind": "disk", "usd_per_hour": "0.10"}])


def test_lifetime_is_what_the_budget_buys(groups: NodeGroups, memory: MemoryCloud) -> None:
    _, state = made(groups, budget_usd="0.50")
    assert lives(memory) == [1800]
    assert state["life_s"] == pytest.approx(1800, abs=1)
    assert money().reserved_usd == Decimal("0.5")


def test_groups_made_side_by_side_live_equally_long(memory: MemoryCloud) -> None:
    groups = NodeGroups()

    def make(index: int) -> Any:
        return made(groups, index=index, groups=7, budget_usd="3")

    with ThreadPoolExecutor(7) as pool:
        list(pool.map(make, range(7)))
    assert lives(memory) == [1500.0] * 7  # 3/7 USD at 1 USD/h is 1542 s, which is 25 whole minutes


def test_less_than_the_floor_is_over_budget_before_any_call(groups: NodeGroups, memory: MemoryCloud) -> None:
    with pytest.raises(OverBudget, match=r"needs 0.166667 USD .* share is 0.150000 USD, which buys 540 s.*groups 2"):
        made(groups, groups=2, budget_usd="0.30")
    assert not memory.created
    assert made(groups, groups=2, budget_usd="0.30", lifetime_s=540)


def test_lifetime_is_what_the_day_has_left(groups: NodeGroups, memory: MemoryCloud) -> None:
    limits.set_limits(Ledger(ledger_address()), owner(), Decimal("0.25"), None)
    made(groups)
    assert lives(memory) == [900]
    with pytest.raises(OverBudget, match="day and month of owner .* leave 0.000000 USD"):
        made(groups, run="other")


@given(
    price=st.decimals("0.01", "50", places=2),
    disk=st.decimals("0", "1", places=3),
    once=st.decimals("0", "1", places=2),
    usd=st.decimals("0.01", "500", places=2),
    wanted_s=st.floats(1, 1e6),
    step_s=st.sampled_from([1, 60, 3600]),
)
def test_what_is_said_to_be_affordable_is(
    price: Decimal, disk: Decimal, once: Decimal, usd: Decimal, wanted_s: float, step_s: int
) -> None:
    extras: Any = (Extra("disk", usd_per_hour=disk), Extra("fee", usd_once=once))
    tariff = Tariff(price, step_s, delete_s=30.0, extras=extras)
    life_s = tariff.life_s(1, usd, wanted_s)
    assert 0 <= life_s <= wanted_s
    assert life_s == 0 or tariff.worst_usd(1, life_s) <= usd
    assert life_s == wanted_s or tariff.worst_usd(1, life_s + step_s) > usd or life_s + step_s > wanted_s
    assert floor_s(wanted_s) <= wanted_s


def test_runs_with_money_for_some_of_them_start_so_many(memory: MemoryCloud) -> None:
    limits.set_limits(Ledger(ledger_address()), owner(), Decimal("0.35"), None)

    def starts(run: str) -> bool:
        try:
            made(NodeGroups(), run=run, lifetime_s=600, budget_usd="0.17")
        except OverBudget:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        started = list(pool.map(starts, [f"{RUN}{number}" for number in range(8)]))
    assert sum(started) == len(memory.created) == 2
