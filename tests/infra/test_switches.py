"""Dead-man switches: all three told of each node, one armed that does not need this machine, and moved with its end."""

from __future__ import annotations

import socket
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from infra.engine.wire import PartialCreate
from infra.provider.group import NodeGroups
from money import reaper
from money.ledger import Ledger
from money.limits import set_limits
from spec import clock
from spec.errors import CloudError, OverBudget
from spec.home import ledger_address, owner
from spec.ledger import Scope
from tests.infra.group_calls import end_of, kinds, longer, made, money, wanted
from tests.infra.memory_cloud import MemoryCloud

HALF_HOUR = timedelta(minutes=30)


@pytest.fixture
def bare(memory: MemoryCloud) -> MemoryCloud:
    """A cloud that ends nothing by itself."""
    memory.capabilities = replace(memory.capabilities, ttl="none")
    memory.arms = False
    return memory


def beat(memory: MemoryCloud, monkeypatch: pytest.MonkeyPatch, *, minutes: float = 30, regions: str = "near") -> None:
    """A heartbeat of another machine."""
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(socket, "gethostname", lambda: "elsewhere")
        scope = Scope(cloud="memory", account="ours", regions=(regions,))
        reaper.beat(Ledger(ledger_address()), [scope], clock.now() + timedelta(minutes=minutes))


def test_all_three_are_told_as_armed_or_not(groups: NodeGroups, memory: MemoryCloud) -> None:
    _, state = made(groups)
    told = {one["kind"]: (one["armed"], one["fires_at"], one["note"]) for one in state["nodes"][0]["switches"]}
    assert told == {
        "native": (True, state["expires_at"], ""),
        "guest": (False, None, "memory has none"),
        "reaper": (False, None, "no fresh heartbeat of another machine in the ledger"),
    }


def test_create_is_refused_where_nothing_would_end_the_node(groups: NodeGroups, bare: MemoryCloud) -> None:
    with pytest.raises(CloudError, match="nothing would end a node on memory in near.*megatok audit --fix from cron"):
        made(groups)
    assert not bare.created
    assert "reserve" not in kinds()


def test_fresh_reaper_is_enough(groups: NodeGroups, bare: MemoryCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    beat(bare, monkeypatch)
    _, state = made(groups)
    (switch,) = (one for one in state["nodes"][0]["switches"] if one["armed"])
    assert (switch["kind"], switch["fires_at"]) == ("reaper", state["expires_at"])
    assert switch["note"].startswith("elsewhere, heard of until ")


@pytest.mark.parametrize(("minutes", "regions"), [(-1, "near"), (30, "far")])
def test_reaper_that_is_silent_or_looks_elsewhere_is_none(
    groups: NodeGroups, bare: MemoryCloud, monkeypatch: pytest.MonkeyPatch, minutes: float, regions: str
) -> None:
    beat(bare, monkeypatch, minutes=minutes, regions=regions)
    with pytest.raises(CloudError, match="nothing would end a node"):
        made(groups)
    assert not bare.created


def test_extension_moves_all_switches_and_is_asked_for_once(groups: NodeGroups, memory: MemoryCloud) -> None:
    memory.capabilities = replace(memory.capabilities, guest_timer=True)
    id, state = made(groups)
    moved = longer(groups, id, state, 1800)
    assert end_of(moved) == end_of(state) + HALF_HOUR
    fires = {one["kind"]: one["fires_at"] for one in moved["nodes"][0]["switches"] if one["armed"]}
    assert fires == {"native": moved["expires_at"], "guest": moved["expires_at"]}
    assert longer(groups, id, moved, 1800) == moved


def test_extension_that_died_before_its_state_was_kept_moves_the_end_once(
    groups: NodeGroups, memory: MemoryCloud
) -> None:
    id, state = made(groups)
    longer(groups, id, state, 1800)
    refreshed = NodeGroups().read(id, state, groups.check(wanted()).inputs)
    assert refreshed is not None
    assert end_of(refreshed) == end_of(state) + HALF_HOUR
    plugin = NodeGroups()
    assert end_of(longer(plugin, id, refreshed, 1800)) == end_of(state) + HALF_HOUR
    assert money().reserved_usd == Decimal("1.5")


def test_extension_that_a_switch_does_not_follow_is_given_back(groups: NodeGroups, memory: MemoryCloud) -> None:
    memory.capabilities = replace(memory.capabilities, guest_timer=True)
    id, state = made(groups)
    old = end_of(state)
    memory.guest_at = lambda _: old
    with pytest.raises(CloudError, match="not all of its dead-man switches say so"):
        longer(groups, id, state, 1800)
    assert memory.machines["i-1"].expires_at == old
    assert money().reserved_usd == Decimal(1)
    assert kinds()[-2:] == ["extend", "unextend"]


def test_extension_that_the_cloud_does_not_make_is_given_back(groups: NodeGroups, memory: MemoryCloud) -> None:
    id, state = made(groups)
    memory.stiff = frozenset({"i-1"})
    with pytest.raises(CloudError, match="was told to live until"):
        longer(groups, id, state, 1800)
    assert money().reserved_usd == Decimal(1)
    memory.stiff = frozenset()
    assert end_of(longer(groups, id, state, 1800)) == end_of(state) + HALF_HOUR


def test_extension_whose_end_is_not_known_keeps_its_money(groups: NodeGroups, memory: MemoryCloud) -> None:
    memory.capabilities = replace(memory.capabilities, guest_timer=True)
    id, state = made(groups)
    memory.guest_at = lambda machine: _freeze(memory, machine.id, end_of(state))
    with pytest.raises(CloudError):
        longer(groups, id, state, 1800)
    assert memory.machines["i-1"].expires_at == end_of(state) + HALF_HOUR
    assert money().reserved_usd == Decimal("1.5")


def test_extension_beyond_the_budget_moves_nothing(groups: NodeGroups, memory: MemoryCloud) -> None:
    id, state = made(groups, budget_usd="1.2")
    with pytest.raises(OverBudget, match=r"needs 0.5\d* USD more .* has 0.2\d* USD free: .*; extend by less"):
        longer(groups, id, state, 1800, budget_usd="1.2")
    assert memory.machines["i-1"].expires_at == end_of(state)


@pytest.mark.parametrize("meanwhile", [False, True])
def test_extension_of_a_node_that_ends_meanwhile_is_given_back(
    groups: NodeGroups, memory: MemoryCloud, meanwhile: bool
) -> None:
    """It ends at the first call, or at the one that moves it back."""
    id, state = made(groups)
    alive = [True] * meanwhile

    def refuse(id: str, expires_at: datetime) -> datetime:
        if not alive:
            memory.delete(memory.machines[id].resource)
            raise CloudError(f"node {id} cannot live longer: it has ended")
        alive.clear()
        raise CloudError("not now")

    memory.extend = refuse  # type: ignore[method-assign]
    with pytest.raises(CloudError, match="not now" if meanwhile else "it has ended"):
        longer(groups, id, state, 1800)
    assert money().reserved_usd == Decimal(1)


@pytest.mark.parametrize("ahead_s", [3601, 36000])
def test_extension_of_what_should_have_ended_sets_nothing_aside(
    groups: NodeGroups, memory: MemoryCloud, ahead_s: float
) -> None:
    id, state = made(groups)
    memory.ahead = timedelta(seconds=ahead_s)
    with pytest.raises(CloudError, match=r"cannot live until .*megatok down r"):
        longer(groups, id, state, 1800)
    assert "extend" not in kinds()


@pytest.mark.parametrize(("unit", "usd"), [("day", (1, None)), ("month", (None, 1))])
def test_extension_beyond_a_limit_names_it(groups: NodeGroups, unit: str, usd: tuple[int | None, int | None]) -> None:
    id, state = made(groups)
    day_usd, month_usd = (None if one is None else Decimal(one) for one in usd)
    set_limits(Ledger(ledger_address()), owner(), day_usd, month_usd)
    with pytest.raises(OverBudget, match=f"in the {unit} .*; extend by less, or raise the limit: .* --{unit} USD$"):
        longer(groups, id, state, 1800)
    assert money().reserved_usd == Decimal(1)


def test_extension_of_what_has_ended_sets_nothing_aside(groups: NodeGroups, memory: MemoryCloud) -> None:
    id, state = made(groups)
    memory.delete(memory.machines["i-1"].resource)
    with pytest.raises(CloudError, match="cannot live longer: it has ended"):
        longer(groups, id, state, 1800)
    assert "extend" not in kinds()


@pytest.mark.parametrize("before_s", [0, 600, 1800])
def test_adopted_node_lives_as_long_as_asked(groups: NodeGroups, memory: MemoryCloud, before_s: float) -> None:
    """Its state was lost before it was extended, after a part of that, or after all of it."""
    id, state = made(groups)
    if before_s:
        longer(groups, id, state, before_s)
    _, adopted = made(NodeGroups(), extend_s=1800)
    assert memory.machines["i-1"].expires_at == end_of(adopted) == end_of(state) + HALF_HOUR
    assert money().reserved_usd == pytest.approx(Decimal("1.5"))  # each amount is rounded up
    assert (adopted["extended_s"], len(memory.created)) == (1800, 1)


def test_adopted_node_that_cannot_live_longer_is_known_as_it_is(groups: NodeGroups, memory: MemoryCloud) -> None:
    id, state = made(groups, budget_usd="1.2")
    with pytest.raises(PartialCreate, match="1.2") as partial:
        made(NodeGroups(), budget_usd="1.2", extend_s=1800)
    assert (partial.value.id, partial.value.state["extended_s"]) == (id, 0)
    assert end_of(partial.value.state) == end_of(state)


def _freeze(memory: MemoryCloud, id: str, old: datetime) -> datetime:
    """From the first look at the timer on the machine's end moves no more."""
    memory.stiff = frozenset({id})
    return old
