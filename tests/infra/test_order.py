"""Teardown of more than machines: in order, patiently, and each thing paid to the cloud's own figure."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from infra.cloud import Extra
from infra.provider import end as ending
from infra.provider.group import NodeGroups
from infra.teardown import teardown
from money import budget
from money.ledger import Ledger
from spec import clock
from spec.home import ledger_address
from spec.ledger import Resource
from spec.receipt import Receipt
from tests.infra.group_calls import RUN, events, kinds, made, money, wanted
from tests.infra.memory_cloud import MemoryCloud

DISK = Extra("disk", usd_per_hour=Decimal("0.60"))


@pytest.fixture
def disks(memory: MemoryCloud, monkeypatch: pytest.MonkeyPatch) -> MemoryCloud:
    """Each machine has a disk, which bills 30 s longer and cannot go before it."""
    memory.extras = (DISK,)
    memory.capabilities = replace(memory.capabilities, kinds=("machine", "disk"), billing_step_s=1)
    monkeypatch.setattr(ending, "AGAIN_S", 0.05)
    return memory


def down(*, burned: str = "") -> Receipt:
    """As long after the create as the cloud says that a machine lived."""
    return teardown(RUN, ledger_address(), settle_timeout_s=2, burned=burned)


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory cloud ends its machines 90 s after their start: listings must come after that."""
    monkeypatch.setattr(clock, "now", lambda: datetime.now(UTC) + timedelta(seconds=200))


@pytest.mark.usefixtures("later")
def test_disks_go_after_their_machines_and_are_paid_by_themselves(disks: MemoryCloud) -> None:
    for index in range(2):
        made(NodeGroups(), index=index)
    receipt = down()
    assert (receipt.proven, receipt.unproven) == (True, ())
    assert {(line.resource.kind, line.usd, len(line.absent_at)) for line in receipt.lines} == {
        ("machine", Decimal("0.025"), 2),  # 90 s at 1 USD/h
        ("disk", Decimal("0.02"), 2),  # 120 s at 0.60 USD/h
    }
    assert money().reserved_usd == 0


def test_plain_destroy_ends_them_too(disks: MemoryCloud, groups: NodeGroups) -> None:
    id, state = made(groups)
    groups.delete(id, state, wanted())
    assert not disks.inventory()
    assert kinds().count("settle") == 2
    assert money().reserved_usd == 0


@pytest.mark.usefixtures("later")
def test_delete_that_is_answered_and_does_nothing_is_asked_for_again(
    disks: MemoryCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(NodeGroups())
    delete, lost = disks.delete, iter(range(3))
    monkeypatch.setattr(disks, "delete", lambda one: delete(one) if next(lost, None) is None else None)
    assert down().proven


@pytest.mark.usefixtures("later")
def test_charge_that_nothing_else_knows_is_settled(disks: MemoryCloud) -> None:
    made(NodeGroups())
    disks.charges = {"snapshot-7": Decimal("0.40")}
    receipt = down()
    assert receipt.proven
    assert {line.resource.id: line.usd for line in receipt.lines}["snapshot-7"] == Decimal("0.40")
    assert receipt.burned_usd == Decimal("0.40")


@pytest.mark.usefixtures("later")
def test_ours_is_never_below_the_clouds_own_figure(disks: MemoryCloud) -> None:
    made(NodeGroups())
    disks.charges = {"i-1": Decimal("0.07")}
    receipt = down()
    assert receipt.usd == Decimal("0.09")


@pytest.mark.usefixtures("later")
def test_what_served_nobody_is_burned(disks: MemoryCloud) -> None:
    made(NodeGroups())
    receipt = down(burned="gate failed: nccl is slow")
    assert receipt.burned_usd == receipt.usd == Decimal("0.045")
    assert all("gate failed: nccl is slow" in line.note for line in receipt.lines)


def test_what_cannot_go_keeps_nothing_else_up(disks: MemoryCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    for index in range(2):
        made(NodeGroups(), index=index)
    delete = disks.delete

    def sticky(one: Resource) -> None:
        if one.id != "i-1":
            delete(one)

    monkeypatch.setattr(disks, "delete", sticky)
    receipt = teardown(RUN, ledger_address(), settle_timeout_s=1)
    assert not receipt.proven
    assert {one.id for one in disks.inventory()} == {"i-1", "disk-i-1"}


def test_release_frees_nothing_that_still_stands(disks: MemoryCloud) -> None:
    id, _ = made(NodeGroups())
    before = money().reserved_usd
    budget.release(Ledger(ledger_address()), RUN, id, "given up")
    assert money().reserved_usd == before > 0
    assert events()[-1].kind == "release"
