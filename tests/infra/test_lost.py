"""What another process left or a ledger lost: adopted where it fits, else ended; refused where nothing counts it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from infra.audit.mend import mend
from infra.audit.report import audit
from infra.clouds import CLOUDS
from infra.provider.group import NodeGroups
from infra.teardown import teardown
from money import limits
from money.ledger import Ledger
from spec.errors import OverBudget, RecipeError, TeardownUnproven, Unanswered
from spec.home import ledger_address, owner
from tests.infra.group_calls import RUN, events, longer, made, wanted
from tests.infra.memory_cloud import MemoryCloud


def standing(memory: MemoryCloud) -> list[str]:
    return [one.id for one in memory.inventory()]


def ledger_file(home: Path) -> Path:
    return home / "ledger" / "ledger.jsonl"


@pytest.mark.parametrize("run", [RUN, "other"])
def test_lost_ledger_allows_no_create_while_its_machines_stand(memory: MemoryCloud, home: Path, run: str) -> None:
    made(NodeGroups())
    ledger_file(home).unlink()
    with pytest.raises(TeardownUnproven, match=r"machine i-1 of run r on memory.*lost or cut.*megatok audit"):
        made(NodeGroups(), run=run)
    assert standing(memory) == ["i-1"]
    assert not Ledger(ledger_address()).runs()


def test_ledger_that_lost_its_last_lines_allows_none_either(memory: MemoryCloud, home: Path) -> None:
    made(NodeGroups())
    file = ledger_file(home)
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:1]))
    with pytest.raises(TeardownUnproven, match="machine i-1 of run r"):
        made(NodeGroups(), index=1)


def test_lost_ledger_lets_nothing_that_stands_be_kept_or_extended(memory: MemoryCloud, home: Path) -> None:
    plugin = NodeGroups()
    id, state = made(plugin)
    ledger_file(home).unlink()
    refusal = r"machine i-1 of run r on memory.*lost or cut.*megatok audit --fix"
    with pytest.raises(TeardownUnproven, match=refusal):
        plugin.read(id, state, wanted())
    with pytest.raises(TeardownUnproven, match=refusal):
        longer(NodeGroups(), id, state, 60)
    memory.delete(memory.machines["i-1"].resource)
    assert plugin.read(id, state, wanted()) is None


def test_what_another_ledger_counts_is_no_hindrance(memory: MemoryCloud) -> None:
    made(NodeGroups())
    memory.machines["i-1"] = replace(memory.machines["i-1"], ledger="another")
    made(NodeGroups(), run="other")


def test_what_was_ended_by_its_tags_is_counted_in_its_owners_day(memory: MemoryCloud, home: Path) -> None:
    made(NodeGroups())
    ledger_file(home).unlink()
    receipt = teardown(RUN, ledger_address(), settle_timeout_s=0)
    left = limits.left(events(), owner(), memory.now() + timedelta(seconds=90))
    assert receipt.usd == receipt.budget_usd == left.day_used_usd == Decimal("0.033334")
    assert not standing(memory)


def test_run_of_the_same_name_in_another_ledger_is_not_ended(memory: MemoryCloud, tmp_path: Path) -> None:
    made(NodeGroups(), ledger=(tmp_path / "theirs").as_uri())
    receipt = teardown(RUN, ledger_address(), settle_timeout_s=0)
    assert standing(memory) == ["i-1"]
    assert any("is accounted in another ledger" in doubt and "left alone" in doubt for doubt in receipt.unproven)
    assert teardown(RUN, ledger_address(), settle_timeout_s=0, foreign=True).usd
    assert not standing(memory)


def test_machine_that_the_cloud_gives_to_two_runs_of_one_name_is_refused(
    groups: NodeGroups, memory: MemoryCloud
) -> None:
    """Tokens are made of the run's name: a cloud answers a create of the same token with what stands."""
    mine = memory._machine
    memory._machine = lambda request, name: replace(mine(request, name), ledger="another")  # type: ignore[method-assign]
    with pytest.raises(RecipeError, match="somebody else's run is called r: take another name"):
        made(groups)
    assert standing(memory) == ["i-1"]


def test_node_that_is_replaced_is_not_adopted_as_its_successor(memory: MemoryCloud) -> None:
    """The engine died between saying that it deletes and deleting, and its state is lost."""
    made(NodeGroups(), lifetime_s=3600)
    id, state = made(NodeGroups(), node_type="b200x8", max_usd_per_hour="2")
    assert (id, state["nodes"][0]["id"], standing(memory)) == ("r-0-a2", "i-2", ["i-2"])


@pytest.mark.parametrize(
    "change",
    [
        lambda one: {"expires_at": one.created_at},
        lambda one: {"state": "stopping"},
        lambda one: {"resource": one.resource.model_copy(update={"region": "moon"})},
    ],
)
def test_what_is_dying_or_elsewhere_is_not_adopted(
    memory: MemoryCloud, change: Callable[[Any], dict[str, Any]]
) -> None:
    made(NodeGroups(), regions=["near"])
    memory.machines["i-1"] = replace(memory.machines["i-1"], **change(memory.machines["i-1"]))
    id, _ = made(NodeGroups(), regions=["near"])
    assert (id, standing(memory)) == ("r-0-a2", ["i-2"])


def test_node_of_a_recipe_that_moved_to_another_cloud_is_ended_there(
    memory: MemoryCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = MemoryCloud()
    elsewhere.name = "elsewhere"
    made(NodeGroups())
    monkeypatch.setitem(CLOUDS, "elsewhere", "tests.infra.second_memory_cloud")
    monkeypatch.setattr("tests.infra.second_memory_cloud.CLOUD", elsewhere, raising=False)
    id, _ = made(NodeGroups(), cloud="elsewhere")
    assert (id, standing(memory), len(standing(elsewhere))) == ("r-0-a2", [], 1)
    assert [event.usd for event in events() if event.kind == "settle"] == [Decimal("0.033334")]


def test_listing_that_still_shows_a_dying_machine_is_not_believed(memory: MemoryCloud) -> None:
    made(NodeGroups())
    stale = memory.machines["i-1"]
    memory.delete(stale.resource)
    find, seen = memory.find, iter([(stale,), (stale,)])
    memory.find = lambda token: next(seen, None) or find(token)  # type: ignore[method-assign]
    assert made(NodeGroups())[0] == "r-0-a2"


def test_clock_of_ours_that_is_wrong_changes_neither_lifetime_nor_cost(memory: MemoryCloud) -> None:
    for hours in (-2, 2):
        memory.ahead = timedelta(hours=hours)
        run = f"{RUN}{hours + 2}"
        _, state = made(NodeGroups(), run=run)
        assert state["life_s"] == pytest.approx(3600, abs=1)
        assert memory.created[-1].lifetime_s == 3600
        settled = teardown(run, ledger_address(), settle_timeout_s=0)
        assert settled.usd == Decimal("0.033334")
    memory.after = _raise
    assert made(NodeGroups(), run="adopted")[1]["nodes"]


def _raise(_: object) -> None:
    raise Unanswered("no answer")


def test_adopted_run_lives_no_longer(memory: MemoryCloud, groups: NodeGroups, home: Path) -> None:
    """What it had cost before its ledger was lost is not known, so nothing can be shown to be left of its budget."""
    id, state = made(groups)
    shutil.rmtree(home / "ledger")
    mend(audit(ledger_address(), lambda _: False), (), lambda _: False, lambda _: None)
    before = events()
    with pytest.raises(OverBudget, match="adopted .* megatok down r"):
        longer(NodeGroups(), id, state, 60)
    assert events() == before
