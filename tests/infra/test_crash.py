"""A cloud whose module crashes, as on an answer of another shape than it knows: it stops nothing but itself."""

from __future__ import annotations

from datetime import timedelta

import pytest

from infra.clouds import CLOUDS
from infra.teardown import teardown
from money.ledger import Ledger
from spec import clock
from spec.home import ledger_address
from tests.infra import second_memory_cloud
from tests.infra.audit_calls import expire, fix, make, rent, standing
from tests.infra.memory_cloud import MemoryCloud


@pytest.fixture
def cloud(memory: MemoryCloud, monkeypatch: pytest.MonkeyPatch) -> MemoryCloud:
    monkeypatch.setattr(memory, "now", lambda: clock.now() + timedelta(minutes=2))  # its machines end 90 s old
    return memory


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> MemoryCloud:
    fresh = MemoryCloud()
    monkeypatch.setitem(CLOUDS, "broken", "tests.infra.second_memory_cloud")
    monkeypatch.setattr(second_memory_cloud, "CLOUD", fresh)
    return fresh


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(ledger_address())


def crash(*_: object) -> None:
    raise KeyError("id")


CRASHED = "no answer that can be used: KeyError: 'id'"


@pytest.mark.parametrize("call", ["scope", "inventory", "now"])
def test_cloud_whose_module_crashes_keeps_no_other_from_being_mended(
    cloud: MemoryCloud, broken: MemoryCloud, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    monkeypatch.setattr(broken, call, crash)
    old, lost = rent(cloud, ledger, "run"), make(cloud, "lost")
    expire(cloud, old)
    work, after = fix()
    assert work.done[old.id] == "deleted, proven gone"
    assert work.done[lost.id] == "adopted"
    assert after.unproven == (f"cloud broken does not answer: {CRASHED}",)


def test_crash_over_one_run_keeps_no_other_from_being_mended(
    cloud: MemoryCloud, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, bad, good = rent(cloud, ledger, "old"), make(cloud, "bad"), make(cloud, "good")
    expire(cloud, old)
    switches = cloud.switches
    monkeypatch.setattr(cloud, "switches", lambda one: crash() if one.id == bad.id else switches(one))
    monkeypatch.setattr(cloud, "read", crash)
    monkeypatch.setattr("infra.audit.mend.LIMIT_S", 0.0)
    work, _ = fix()
    assert work.done == {old.id: "NOT proven gone", good.id: "adopted"}
    assert f"run bad cannot be adopted: {CRASHED}; end it with: megatok down bad" in work.doubts
    assert "cloud memory: KeyError: 'id'; megatok audit --fix goes on" in work.doubts


def test_teardown_of_a_lost_run_is_unproven_where_a_cloud_crashes(
    cloud: MemoryCloud, broken: MemoryCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broken, "scope", crash)
    monkeypatch.setattr(broken, "inventory", crash)
    make(cloud, "lost")
    (doubt,) = teardown("lost", ledger_address()).unproven
    assert "cloud broken: KeyError: 'id'" in doubt
    assert standing(cloud) == set()
