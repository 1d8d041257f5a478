"""`NodeGroup` as the engine calls it, on a cloud in memory and a real ledger."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from infra.cloud import CreateRequest
from infra.engine.wire import UNKNOWN, Difference, PartialCreate
from infra.provider import job as jobs
from infra.provider.group import NodeGroups
from infra.provider.job import until
from money.budget import spend
from money.ledger import Ledger
from spec.errors import (
    CloudError,
    Denied,
    Fenced,
    Interrupted,
    MegatokError,
    NoCapacity,
    NotYetTerminated,
    OverBudget,
    RecipeError,
    Throttled,
    Unanswered,
)
from spec.home import ledger_address
from spec.inventory import Node
from tests.infra.group_calls import RUN, kinds, made, wanted
from tests.infra.memory_cloud import MemoryCloud

TOKEN = "r-0-a1"


@pytest.fixture
def cloud(memory: MemoryCloud) -> MemoryCloud:
    return memory


def inputs(**changes: Any) -> dict[str, Any]:
    """Whole, as the engine keeps them."""
    return wanted(**{"regions": [], "max_usd_per_hour": "2.00", "extend_s": 0, "hosts": [], **changes})


def make(groups: NodeGroups, **changes: Any) -> tuple[str, dict[str, Any]]:
    return made(groups, **inputs(**changes))


def test_a_group_is_reserved_on_record_and_armed(groups: NodeGroups, cloud: MemoryCloud) -> None:
    before: list[str] = []
    cloud.before = lambda _: before.extend(kinds())
    id, state = make(groups)
    node = Node.model_validate_json(_json(state["nodes"][0]))
    assert before == ["open", "reserve", "intent"]
    assert kinds() == [*before, "commit", "armed"]
    assert (id, node.name, node.id, node.key_file) == (TOKEN, "r-0", "i-1", "/key")
    assert cloud.created[0].tags["megatok-run"] == RUN
    assert spend(Ledger(ledger_address()).events(RUN), RUN).reserved_usd == Decimal(1)


def test_a_preview_touches_neither_cloud_nor_ledger(groups: NodeGroups, cloud: MemoryCloud) -> None:
    id, state = groups.create(groups.check(inputs()).inputs, preview=True)
    assert (id, state["nodes"]) == (UNKNOWN, UNKNOWN)
    assert not kinds()
    assert not cloud.created


def test_a_full_place_is_left_for_the_next(groups: NodeGroups, cloud: MemoryCloud) -> None:
    cloud.prices = {"near": "1.00", "far": "1.50"}
    cloud.before = _raising(NoCapacity("full"), region="near")
    id, state = make(groups)
    assert (id, state["region"]) == ("r-0-a2", "far")
    assert spend(Ledger(ledger_address()).events(RUN), RUN).reserved_usd == Decimal("1.5")


def test_a_dearer_place_is_never_taken(groups: NodeGroups, cloud: MemoryCloud) -> None:
    cloud.prices = {"near": "1.00", "far": "2.01"}
    cloud.before = _raising(NoCapacity("full"), region="near")
    with pytest.raises(NoCapacity, match=r"near: full.*far: 2.01 USD/h, above max_usd_per_hour 2.00"):
        make(groups)
    assert [request.offer.region for request in cloud.created] == ["near"]


def test_an_old_price_counts_only_under_a_limit(groups: NodeGroups, cloud: MemoryCloud) -> None:
    cloud.as_of = datetime.now(UTC) - timedelta(days=8)
    with pytest.raises(NoCapacity, match="name max_usd_per_hour"):
        make(groups, max_usd_per_hour=None)
    assert make(groups)[0] == TOKEN


def test_over_budget_calls_no_cloud(groups: NodeGroups, cloud: MemoryCloud) -> None:
    with pytest.raises(OverBudget, match=r"needs 0.166667 USD in the worst case for 600 s, the least.* buys 540 s"):
        make(groups, budget_usd="0.16")
    assert not cloud.created


def test_what_an_unanswered_create_made_is_adopted(groups: NodeGroups, cloud: MemoryCloud) -> None:
    cloud.after = _raising(Unanswered("no answer"))
    _, state = make(groups)
    assert state["nodes"][0]["id"] == "i-1"
    assert "release" not in kinds()


def test_a_create_that_made_nothing_frees_its_money(groups: NodeGroups, cloud: MemoryCloud) -> None:
    cloud.before = _raising(Denied("no rights"))
    with pytest.raises(Denied, match="no rights"):
        make(groups)
    assert spend(Ledger(ledger_address()).events(RUN), RUN).reserved_usd == 0


def test_half_a_group_is_deleted_and_paid(groups: NodeGroups, cloud: MemoryCloud) -> None:
    cloud.makes = lambda name: name == "r-0"
    cloud.after = _raising(Unanswered("no answer"))
    with pytest.raises(Unanswered):
        make(groups, count=2)
    now = spend(Ledger(ledger_address()).events(RUN), RUN)
    assert not cloud.inventory()
    assert (now.reserved_usd, now.settled_usd) == (
        Decimal(0),
        Decimal("0.033334"),
    )  # 90 s at 1 USD/h, by the started minute


def test_a_node_that_nothing_would_end_is_deleted_at_once(groups: NodeGroups, cloud: MemoryCloud) -> None:
    cloud.arms = False
    with pytest.raises(CloudError, match="no dead-man switch"):
        make(groups)
    assert not cloud.inventory()


def test_nothing_needs_to_be_armed_where_nothing_is_billed(groups: NodeGroups, cloud: MemoryCloud) -> None:
    cloud.arms = False
    cloud.capabilities = replace(cloud.capabilities, billed=False)
    make(groups)
    assert spend(Ledger(ledger_address()).events(RUN), RUN).reserved_usd == 0


def test_an_unknown_outcome_stays_with_engine_and_ledger(groups: NodeGroups, cloud: MemoryCloud) -> None:
    cloud.after = _raising(Unanswered("no answer"))
    cloud.dumb = Unanswered("still none")
    with pytest.raises(PartialCreate, match="still none") as partial:
        make(groups)
    assert partial.value.id == TOKEN
    assert spend(Ledger(ledger_address()).events(RUN), RUN).reserved_usd == Decimal(1)
    assert groups.diff(partial.value.state, inputs(), inputs()) == Difference(replaces=("token",))

    cloud.dumb = None
    groups.delete(TOKEN, partial.value.state, inputs())
    now = spend(Ledger(ledger_address()).events(RUN), RUN)
    assert not cloud.inventory()
    assert (now.reserved_usd, now.settled_usd) == (Decimal(0), Decimal("0.033334"))
    assert make(groups)[0] == "r-0-a2"


def test_a_cancelled_plug_in_creates_nothing(groups: NodeGroups, cloud: MemoryCloud) -> None:
    groups.cancel()
    with pytest.raises(Interrupted, match="before r-0-a1"):
        make(groups)
    assert not cloud.created


def test_a_fenced_plug_in_creates_nothing(groups: NodeGroups, cloud: MemoryCloud) -> None:
    checked = groups.check(inputs())
    ledger = Ledger(ledger_address())
    ledger.open(RUN, Decimal(10))
    ledger.fence(RUN)
    with pytest.raises(Fenced):
        groups.create(checked.inputs, preview=False)
    assert not cloud.created


def test_a_run_open_already_keeps_its_epoch(groups: NodeGroups, cloud: MemoryCloud) -> None:
    ledger = Ledger(ledger_address())
    ledger.open(RUN, Decimal(10))
    checked = groups.check(inputs())
    ledger.fence(RUN)
    with pytest.raises(Fenced):
        groups.create(checked.inputs, preview=False)
    assert make(NodeGroups())[0] == TOKEN


@pytest.mark.usefixtures("cloud")
def test_another_budget_for_an_open_run_is_refused() -> None:
    make(NodeGroups())
    with pytest.raises(RecipeError, match="open with budget_usd 10, not 11"):
        make(NodeGroups(), index=1, budget_usd="11")


def test_what_an_orphan_has_made_is_adopted(groups: NodeGroups, cloud: MemoryCloud) -> None:
    first, _ = make(groups)
    second, state = make(NodeGroups())
    assert (first, second, state["nodes"][0]["id"]) == (TOKEN, TOKEN, "i-1")
    assert len(cloud.created) == 1


def test_what_an_orphan_left_half_made_goes_first(groups: NodeGroups, cloud: MemoryCloud) -> None:
    make(groups, count=2)
    cloud.delete(cloud.machines["i-1"].resource)
    id, state = make(NodeGroups(), count=2)
    assert (id, [node["id"] for node in state["nodes"]]) == ("r-0-a2", ["i-3", "i-4"])
    assert {one.id for one in cloud.inventory()} == {"i-3", "i-4"}


def test_a_node_that_ended_by_itself_is_paid_and_made_anew(groups: NodeGroups, cloud: MemoryCloud) -> None:
    make(groups, budget_usd="1.1")
    cloud.delete(cloud.machines["i-1"].resource)
    assert make(NodeGroups(), budget_usd="1.1")[0] == "r-0-a2"
    now = spend(Ledger(ledger_address()).events(RUN), RUN)
    assert (now.reserved_usd, now.settled_usd) == (Decimal(1), Decimal("0.033334"))


def test_what_an_orphan_made_and_nobody_saw_end_is_paid(groups: NodeGroups, cloud: MemoryCloud) -> None:
    """Its maker died between the cloud's answer and the commit; its life is over when somebody looks."""
    cloud.bills = True
    cloud.after = lambda _: sys.exit()
    with pytest.raises(SystemExit):
        make(groups)
    cloud.after = lambda _: None
    cloud.delete(cloud.machines["i-1"].resource)
    assert make(NodeGroups())[0] == "r-0-a2"
    assert spend(Ledger(ledger_address()).events(RUN), RUN).settled_usd == Decimal("0.033334")


def test_a_stop_ends_what_is_being_made(groups: NodeGroups, cloud: MemoryCloud) -> None:
    def slowly(request: CreateRequest) -> None:
        groups.cancel()
        assert until(lambda: cloud.find(request.token) == () or None, 10)
        raise NoCapacity("it was ended while it was made")

    cloud.prices["far"] = "1.00"
    cloud.after = slowly
    with pytest.raises(Interrupted):
        make(groups)
    assert not cloud.inventory()
    assert spend(Ledger(ledger_address()).events(RUN), RUN).reserved_usd == 0


def test_a_refused_delete_is_repeated(groups: NodeGroups, cloud: MemoryCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "PATIENCE_S", 5.0)
    id, state = make(groups)
    cloud.refusals = [NotYetTerminated("busy"), Throttled("slowly")]
    groups.delete(id, state, inputs())
    now = spend(Ledger(ledger_address()).events(RUN), RUN)
    assert not cloud.inventory()
    assert (now.reserved_usd, now.settled_usd) == (Decimal(0), Decimal("0.033334"))


def test_what_the_cloud_has_forgotten_is_deleted(groups: NodeGroups, cloud: MemoryCloud) -> None:
    id, state = make(groups)
    cloud.machines.clear()
    groups.delete(id, state, inputs())
    assert kinds()[-1] == "settle"
    groups.delete(id, state, inputs())
    assert kinds().count("settle") == 1


def test_a_node_gone_in_the_cloud_is_read_as_gone(groups: NodeGroups, cloud: MemoryCloud) -> None:
    id, state = make(groups, count=2)
    assert groups.read(id, state, inputs(count=2)) == state
    cloud.delete(cloud.machines["i-2"].resource)
    assert groups.read(id, state, inputs(count=2)) is None


def test_a_longer_life_is_reserved_then_asked_for_once(groups: NodeGroups, cloud: MemoryCloud) -> None:
    id, state = make(groups)
    longer = groups.check(inputs(extend_s=1800)).inputs
    assert groups.diff(state, groups.check(inputs()).inputs, longer) == Difference(updates=("extend_s",))
    moved = groups.update(id, state, longer, preview=False)
    assert _end(moved) - _end(state) == timedelta(seconds=1800)
    assert cloud.machines["i-1"].expires_at == _end(moved)
    assert spend(Ledger(ledger_address()).events(RUN), RUN).reserved_usd == Decimal("1.5")
    assert groups.diff(moved, longer, longer) == Difference()
    assert groups.update(id, moved, longer, preview=False) == moved


def test_a_life_beyond_the_budget_is_not_extended(groups: NodeGroups, cloud: MemoryCloud) -> None:
    id, state = make(groups, budget_usd="1.2")
    with pytest.raises(OverBudget):
        groups.update(id, state, inputs(budget_usd="1.2", extend_s=1800), preview=False)
    assert cloud.machines["i-1"].expires_at == _end(state)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, Difference()),
        ({"budget_usd": "20"}, Difference()),
        ({"lifetime_s": 60}, Difference()),
        ({"extend_s": 60}, Difference(updates=("extend_s",))),
        ({"node_type": "b200x8", "regions": ["far"]}, Difference(replaces=("node_type", "regions"))),
    ],
)
def test_only_what_matters_is_a_difference(groups: NodeGroups, changes: dict[str, Any], found: Difference) -> None:
    _, state = make(groups)
    assert groups.diff(state, groups.check(inputs()).inputs, groups.check(inputs(**changes)).inputs) == found


@pytest.mark.parametrize(
    ("changes", "property", "why"),
    [
        ({"cloud": "mars"}, "cloud", "unknown cloud 'mars'; there are local"),
        ({"lifetime_s": 0}, "lifetime_s", "greater than 0"),
        ({"budget_usd": "-1"}, "budget_usd", "greater than 0"),
        ({"count": 0}, "count", "greater than 0"),
        ({"ledger": "http://x"}, "ledger", "file:///"),
        ({"colour": "red"}, "colour", "not permitted"),
    ],
)
def test_bad_inputs_are_refused_by_name(groups: NodeGroups, changes: dict[str, Any], property: str, why: str) -> None:
    failures = groups.check(inputs(**changes)).failures
    assert why in failures[property]


def _raising(error: MegatokError, region: str | None = None) -> Callable[[Any], None]:
    def hook(request: Any) -> None:
        if region in (None, request.offer.region):
            raise error

    return hook


def _end(state: Any) -> datetime:
    return datetime.fromisoformat(state["expires_at"])


def _json(value: Any) -> str:
    return json.dumps(value)
