"""`NodeGroup` on the local cloud: what the plug-in sets aside and settles, against the cloud's own bill."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from infra.clouds.local import CLOUD, program
from infra.provider.group import NodeGroups
from infra.teardown import teardown
from spec import clock
from spec.errors import NoCapacity
from spec.home import ledger_address
from spec.receipt import Receipt
from tests.infra.conftest import until
from tests.infra.group_calls import RUN, end_of, events, longer, made, money

BEYOND_DELETION_S = 10.0
"""From the wish to the proof, beyond what the cloud itself takes."""


@pytest.fixture
def local(key_file: Path) -> dict[str, Any]:
    """Inputs of a node of the local cloud, with a disk and an address."""
    return {"cloud": "local", "node_type": "cpu-1-disk", "public_key": key_file.with_suffix(".pub").read_text()}


def fault(name: str, **rule: Any) -> None:
    program.call("POST", "/v1/faults", body={"fault": name, **rule})


def bill() -> Any:
    return program.call("GET", "/v1/bill")


def assert_paid(receipt: Receipt) -> None:
    """Proven, nothing runs, and ours is the meter's."""
    assert (receipt.proven, receipt.unproven) == (True, ())
    assert bill()["running"] == 0
    assert receipt.usd == Decimal(bill()["usd"]) > 0
    assert money().reserved_usd == 0


def down() -> Receipt:
    return teardown(RUN, ledger_address(), settle_timeout_s=30)


def test_disk_and_address_are_reserved_switched_and_paid(local: dict[str, Any]) -> None:
    _, state = made(NodeGroups(), **local)
    assert money().reserved_usd == Decimal("0.125522")  # an hour and 15 s of machine, disk and address, each rounded up
    told = {one["kind"]: one["armed"] for one in state["nodes"][0]["switches"]}
    assert told == {"native": True, "guest": True, "reaper": False}
    receipt = down()
    assert_paid(receipt)
    assert {line.resource.kind for line in receipt.lines} == {"machine", "disk", "address"}


def test_life_that_ends_by_itself_costs_no_more_than_was_set_aside(local: dict[str, Any]) -> None:
    made(NodeGroups(), **local, lifetime_s=2)
    before = money().reserved_usd
    until(lambda: not CLOUD.inventory())
    receipt = down()
    assert_paid(receipt)
    assert receipt.usd <= before


def test_dearer_offer_is_never_taken_silently(local: dict[str, Any]) -> None:
    fault("dearer", times=None)
    with pytest.raises(NoCapacity, match="dearer than planned, 0.10"):
        made(NodeGroups(), **local, planned_usd_per_hour="0.10")
    assert not bill()["lines"]


@pytest.mark.parametrize("name", ["price_stale", "price_foreign", "price_unknown"])
def test_price_that_is_not_known_is_refused(local: dict[str, Any], name: str) -> None:
    fault(name, times=None)
    with pytest.raises(NoCapacity, match="no place for 1 x cpu-1-disk on local"):
        made(NodeGroups(), **local)
    assert not bill()["lines"]


def test_longer_life_is_armed_in_all_switches(local: dict[str, Any]) -> None:
    plugin = NodeGroups()
    id, state = made(plugin, **local)
    moved = longer(plugin, id, state, 600, **local)
    assert end_of(moved) == end_of(state) + timedelta(seconds=600)
    ends = {item.expires_at for item in CLOUD.inventory()}
    assert ends == {end_of(moved)}
    assert_paid(down())


@pytest.mark.parametrize("hours", [-2, 2])
def test_clock_of_ours_two_hours_off_changes_no_life_and_no_cost(
    local: dict[str, Any], monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    monkeypatch.setenv(clock.OFFSET, str(hours * 3600))
    _, state = made(NodeGroups(), **local, lifetime_s=900)
    assert state["life_s"] == pytest.approx(900, abs=1)
    assert abs(end_of(state) - CLOUD.now() - timedelta(seconds=900)) < timedelta(seconds=10)
    assert_paid(down())


@pytest.mark.parametrize("name", ["delete_lost", "delete_refused", "disk_stuck", "throttled", "unreachable"])
def test_contrary_cloud_is_outlasted(local: dict[str, Any], name: str) -> None:
    made(NodeGroups(), **local)
    fault(name, times=3)
    assert_paid(down())


def test_what_a_create_without_an_answer_made_is_adopted_with_its_disk(local: dict[str, Any]) -> None:
    fault("create_timeout")
    made(NodeGroups(), **local)
    (commit,) = (event for event in events() if event.kind == "commit")
    assert {one.kind for one in commit.resources} == {"machine", "disk", "address"}
    assert_paid(down())


@pytest.mark.timeout(120)
def test_twelve_nodes_are_proven_gone_soon_after_the_cloud_has_ended_them(local: dict[str, Any]) -> None:
    plugin = NodeGroups()
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda index: made(plugin, **local, index=index, groups=12), range(12)))
    began, asked_at = time.monotonic(), CLOUD.now()
    receipt = down()
    took_s = time.monotonic() - began
    assert_paid(receipt)
    ended = max(line.deleted_at for line in receipt.lines if line.deleted_at)
    deletion_s = (ended - asked_at).total_seconds()
    assert took_s - deletion_s < BEYOND_DELETION_S
