"""The audit: what clouds bill against the ledger, and what it may put right. On a cloud in memory and a real ledger."""

from __future__ import annotations

import socket
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from infra.audit import report as reporting
from infra.audit.mend import beat
from infra.cloud import Extra
from infra.clouds import CLOUDS
from infra.teardown import teardown
from money import budget, reaper
from money.account import account
from money.ledger import Ledger
from money.limits import left, set_limits
from money.periods import FOREVER
from spec import clock
from spec.errors import Denied, MegatokError, NotConfigured, OverBudget, RecipeError
from spec.home import ledger_address, owner
from spec.ledger import Event, Scope
from tests.infra import memory_cloud
from tests.infra.audit_calls import expire, fix, intend, look, make, rent, standing, verdicts
from tests.infra.memory_cloud import MemoryCloud


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> MemoryCloud:
    fresh = MemoryCloud()
    monkeypatch.setattr(fresh, "now", lambda: clock.now() + timedelta(minutes=2))  # its machines end 90 s old
    for name in tuple(CLOUDS):
        monkeypatch.delitem(CLOUDS, name)
    monkeypatch.setitem(CLOUDS, "memory", "tests.infra.memory_cloud")
    monkeypatch.setattr(memory_cloud, "CLOUD", fresh)
    return fresh


@pytest.fixture
def ledger(cloud: MemoryCloud) -> Ledger:
    return Ledger(ledger_address())


def test_what_stands_by_right_is_only_told(cloud: MemoryCloud, ledger: Ledger) -> None:
    made = rent(cloud, ledger, "run")
    lines = len(ledger.events())
    work, after = fix()
    assert verdicts(look()) == verdicts(after) == {made.id: "by right"}
    assert (work.done, work.doubts, after.unproven) == ({}, [], ())
    assert len(ledger.events()) == lines


def test_verdicts(cloud: MemoryCloud, ledger: Ledger) -> None:
    expired, closed, half = (rent(cloud, ledger, run) for run in ("expired", "closed", "half"))
    expire(cloud, expired)
    budget.close(ledger, "closed", "torn down")
    given_up = rent(cloud, ledger, "half", 1)
    budget.release(ledger, "half", given_up.token, "no capacity")
    strange = make(cloud, "half", 2)
    lost, foreign = make(cloud, "lost"), make(cloud, "foreign", mark="theirs")
    found = look()
    assert verdicts(found) == {
        expired.id: "expired",
        closed.id: "closed",
        half.id: "by right",
        given_up.id: "closed",
        strange.id: "unknown",
        lost.id: "unknown",
        foreign.id: "foreign ledger",
    }
    assert len(found.unproven) == 5
    assert standing(cloud) == set(verdicts(found))


def test_fix_ends_what_is_over_and_nothing_else(cloud: MemoryCloud, ledger: Ledger) -> None:
    """An expired thing goes, its run goes on; a closed run goes as a whole; another ledger's things are not ours."""
    old, young = rent(cloud, ledger, "run"), rent(cloud, ledger, "run", 1)
    expire(cloud, old)
    closed = rent(cloud, ledger, "closed")
    budget.close(ledger, "closed", "torn down")
    foreign = make(cloud, "foreign", mark="theirs")
    work, after = fix()
    assert standing(cloud) == {young.id, foreign.id}
    assert work.done[old.id] == work.done[closed.id] == "deleted, proven gone"
    assert (work.doubts, after.unproven) == ([], ())
    now = account(ledger.events(), "run")
    assert now.is_open
    assert now.settled_usd == Decimal("0.033334")
    assert len([event for event in ledger.events("run") if event.kind == "sighting"]) == 2


@pytest.mark.parametrize("by", ["run", "id"])
def test_fix_ends_what_is_named_also_of_another_ledger(cloud: MemoryCloud, ledger: Ledger, by: str) -> None:
    ours, foreign = rent(cloud, ledger, "ours"), make(cloud, "foreign", mark="theirs")
    work, after = fix(*(one.run if by == "run" else one.id for one in (ours, foreign)))
    assert standing(cloud) == set()
    assert (work.doubts, after.unproven) == ([], ())
    assert account(ledger.events(), "ours").reserved_usd == 0


def test_unknown_thing_is_adopted_and_then_bound_like_any_other(cloud: MemoryCloud, ledger: Ledger) -> None:
    """All of the ledger is lost: the worst case of what stands is set aside again, and later settled below it."""
    made = [make(cloud, "lost", index) for index in (0, 1)]
    work, after = fix()
    assert [work.done[one.id] for one in made] == ["adopted", "adopted"]
    assert (set(verdicts(after).values()), after.unproven) == ({"by right"}, ())
    assert standing(cloud) == {one.id for one in made}
    spent = budget.spend(ledger.events(), "lost")
    assert spent.budget_usd == spent.reserved_usd == Decimal("2.00")
    assert {event.note for event in ledger.events("lost") if event.kind == "armed"} == {"native"}
    receipt = teardown("lost", ledger_address())
    assert receipt.proven
    assert receipt.usd == 2 * Decimal("0.033334")


def test_what_a_dead_create_made_is_adopted_under_its_reservation(cloud: MemoryCloud, ledger: Ledger) -> None:
    intend(ledger, "run")
    made = make(cloud, "run")
    assert verdicts(look(owned="run")) == {made.id: "by right"}
    assert verdicts(look()) == {made.id: "unknown"}
    fix()
    assert verdicts(look()) == {made.id: "by right"}
    assert budget.spend(ledger.events(), "run").reserved_usd == 1


def test_adoption_that_passes_the_budget_is_set_aside_and_told_again_and_again(
    cloud: MemoryCloud, ledger: Ledger
) -> None:
    epoch = ledger.open("run", Decimal("0.5"))
    made = make(cloud, "run")
    work, after = fix()
    assert work.done == {made.id: "adopted, over budget"}
    assert verdicts(after) == {made.id: "by right"}
    assert budget.spend(ledger.events(), "run").free_usd == Decimal("-0.5")
    (told,) = after.over_budget
    assert told.startswith("budget of run 'run': 1.000000 USD settled or set aside, limit 0.5;")
    assert told.endswith("megatok down run")
    assert fix()[1].over_budget == look().over_budget == look().about([made.id]).over_budget == (told,)
    with pytest.raises(OverBudget):
        budget.reserve(ledger, "run", epoch, "run-1-a1", Decimal("0.1"))
    teardown("run", ledger_address())
    assert look().over == {}


def test_adoption_of_a_lost_run_counts_in_the_day_of_its_owner(cloud: MemoryCloud, ledger: Ledger) -> None:
    set_limits(ledger, owner(), Decimal("1.5"), None)
    made = [make(cloud, "lost", index) for index in (0, 1)]
    work, after = fix()
    assert [work.done[one.id] for one in made] == ["adopted, over budget"] * 2
    assert left(ledger.events(), owner(), clock.now()).day_used_usd == 2
    (told,) = after.over_budget
    assert f"budget of owner {owner()!r} in the day" in told
    assert fix()[1].over_budget == (told,)
    epoch = ledger.open("other", Decimal(5), owner=owner())
    with pytest.raises(OverBudget, match="in the day"):
        budget.reserve(ledger, "other", epoch, "other-0-a1", Decimal("0.1"))


def test_what_shows_up_late_of_an_adopted_attempt_is_set_aside_too(cloud: MemoryCloud, ledger: Ledger) -> None:
    make(cloud, "lost")
    fix()
    late = make(cloud, "lost")
    assert verdicts(look())[late.id] == "unknown"
    fix()
    assert budget.spend(ledger.events(), "lost").reserved_usd == 2


def test_what_is_on_record_with_nothing_set_aside_is_adopted(cloud: MemoryCloud, ledger: Ledger) -> None:
    """A round that died in the middle of adopting it."""
    ledger.open("run", Decimal(5))
    made = make(cloud, "run")
    budget.commit(ledger, "run", made.token, (made.resource,), made.started_at)
    assert verdicts(look()) == {made.id: "unknown"}
    fix()
    assert budget.spend(ledger.events(), "run").reserved_usd == 1


def test_dead_run_is_settled_and_closed_but_not_one_at_work(cloud: MemoryCloud, ledger: Ledger) -> None:
    gone = rent(cloud, ledger, "dead")
    cloud.delete(gone.resource)
    intend(ledger, "dead", 1)
    ledger.open("alive", Decimal(1))
    assert len(look(owned="alive").unproven) == 1
    work, after = fix(owned="alive")
    assert work.done["dead"] == "settled and closed"
    dead = account(ledger.events(), "dead")
    assert (dead.is_open, dead.reserved_usd, dead.settled_usd) == (False, Decimal(0), Decimal("0.033334"))
    assert account(ledger.events(), "alive").is_open
    assert [(one.run, one.busy) for one in after.hollow] == [("alive", True)]
    assert after.unproven == ()


def test_run_of_another_machine_is_at_work_until_it_falls_silent(
    cloud: MemoryCloud, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.open("run", Decimal(1))
    monkeypatch.setattr(socket, "gethostname", lambda: "another")
    assert [one.busy for one in look().hollow] == [True]
    monkeypatch.setattr(reporting, "ELSEWHERE", timedelta(0))
    assert [one.busy for one in look().hollow] == [False]


def test_dead_create_that_made_nothing_is_given_up_while_its_run_stands(cloud: MemoryCloud, ledger: Ledger) -> None:
    made = rent(cloud, ledger, "run")
    token = intend(ledger, "run", 1)
    assert [event.token for event in look().intents] == [token]
    work, after = fix()
    assert work.done == {token: "made nothing, released"}
    assert standing(cloud) == {made.id}
    assert (after.unproven, budget.spend(ledger.events(), "run").reserved_usd) == ((), Decimal(1))


def test_thing_that_would_not_go_is_unproven(
    cloud: MemoryCloud, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = rent(cloud, ledger, "run")
    expire(cloud, made)
    cloud.refusals = [Denied("no right to delete")] * 1000
    monkeypatch.setattr("infra.audit.mend.LIMIT_S", 0.0)
    work, after = fix()
    assert work.done == {made.id: "NOT proven gone"}
    assert "no right to delete; megatok audit --fix goes on" in work.doubts[0]
    assert len(after.unproven) == 1


def refuse(error: MegatokError) -> None:
    raise error


def test_cloud_that_does_not_answer_is_unproven_and_not_watched(
    cloud: MemoryCloud, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    rent(cloud, ledger, "run")
    monkeypatch.setattr(cloud, "inventory", lambda run=None: refuse(Denied("key expired")))
    found = look()
    assert found.unproven == ("cloud memory does not answer: key expired",)
    assert found.hollow == ()
    (until,) = found.dark.values()
    assert until == FOREVER  # nothing told an end when it was reserved
    assert beat(found, 10) == ()
    assert found.about(["whatever"]).unproven == found.unproven


def test_cloud_without_credentials_is_no_doubt_but_for_a_run_that_names_it(
    cloud: MemoryCloud, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloud, "scope", lambda: refuse(NotConfigured("no key for memory")))
    assert look().unproven == ()
    intend(ledger, "run")
    assert any("run run may hold something on memory" in doubt for doubt in look().unproven)


def beside(cloud: MemoryCloud) -> None:
    cloud.capabilities = replace(cloud.capabilities, kinds=("machine", "disk", "address"))
    cloud.extras = (Extra("disk", Decimal("0.1")), Extra("address", Decimal("0.01")))


@pytest.mark.parametrize("known", [True, False])
def test_machine_that_is_named_takes_its_disk_and_address_along(
    cloud: MemoryCloud, ledger: Ledger, known: bool
) -> None:
    beside(cloud)
    one, other = (rent(cloud, ledger, "run", index) if known else make(cloud, "run", index) for index in (0, 1))
    work, after = fix(one.id)
    assert standing(cloud) == {other.id, f"disk-{other.id}", f"address-{other.id}"}
    assert work.done[f"disk-{one.id}"] == work.done[f"address-{one.id}"] == "deleted, proven gone"
    assert after.unproven == ()


def test_ledger_that_cannot_be_read_leaves_tags_and_clocks(cloud: MemoryCloud, ledger: Ledger, home: Path) -> None:
    """Nothing is adopted and nothing written; what is over or named goes."""
    beside(cloud)
    old, named, young = (rent(cloud, ledger, run) for run in ("old", "named", "young"))
    foreign = make(cloud, "foreign", mark="theirs")
    expire(cloud, old)
    path = home / "ledger" / "ledger.jsonl"
    path.write_bytes(b"{" + path.read_bytes())
    before = path.read_bytes()
    assert {one.why for one in look().findings if one.item.id == young.id} == {"the ledger cannot be read"}
    work, after = fix(named.id, "nobody")
    assert path.read_bytes() == before
    assert {old.id, named.id, f"disk-{named.id}", f"address-{named.id}"}.isdisjoint(standing(cloud))
    assert {young.id, f"disk-{young.id}", foreign.id} <= standing(cloud)
    assert verdicts(after)[young.id] == "not known"
    assert work.done[old.id] == work.done[f"disk-{named.id}"] == "deleted, gone; not settled"
    assert "nobody: nothing of that name is seen" in work.doubts[0]
    assert "mend the ledger" in work.doubts[-1]
    assert "line 1 of the ledger" in after.unproven[0]


def test_only_what_is_named(cloud: MemoryCloud, ledger: Ledger) -> None:
    one, _ = rent(cloud, ledger, "one"), rent(cloud, ledger, "two")
    assert list(verdicts(look().about(["one"]))) == list(verdicts(look().about([one.id]))) == [one.id]
    with pytest.raises(RecipeError, match="nothing is called three"):
        look().about(["one", "three"])


def test_heartbeat_names_what_is_watched_and_counts_for_three_rounds(
    cloud: MemoryCloud, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert beat(look(), 10) == (Scope(cloud="memory", account="ours", regions=("near",)),)
    now = clock.now()

    def heard(minutes: float, region: str = "near") -> Event | None:
        return reaper.fresh(ledger.events(), "memory", "ours", region, now + timedelta(minutes=minutes))

    assert heard(0) is None  # of this very host, which may be what dies
    monkeypatch.setattr(socket, "gethostname", lambda: "another")
    assert heard(29)
    assert heard(31) is None
    assert heard(0, "far") is None


def test_teardown_asks_only_clouds_that_this_machine_may_use(
    cloud: MemoryCloud, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no event names one; a run that is known to be there stays unproven."""
    monkeypatch.setattr(cloud, "scope", lambda: refuse(NotConfigured("no key for memory")))
    monkeypatch.setattr(cloud, "inventory", lambda run=None: refuse(NotConfigured("no key for memory")))
    assert teardown("elsewhere", ledger_address()).proven
    intend(ledger, "here")
    (doubt, *_) = teardown("here", ledger_address(), settle_timeout_s=0).unproven
    assert "cloud memory: no key for memory" in doubt
