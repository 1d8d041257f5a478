"""Situations that cost somebody money with another tool, on the real engine, plug-in and local cloud.

One test for each report about money that people made in public; the number is its line in our list of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from infra.clouds import local
from infra.clouds.local.program import call
from infra.teardown import teardown
from money.account import account
from money.ledger import Ledger
from spec.errors import MegatokError, NoCapacity
from spec.home import ledger_address
from tests.chain.rig import Aftermath, Done, Runner, fault, megatok, order, recipe, until

pytestmark = pytest.mark.timeout(400)

OURS = ("from cli.main import main", "pulumi", "infra.provider")


def hold(what: str, at: str) -> None:
    fault("hold", match={"call": what}, at=at)


def held() -> bool:
    return any(rule.get("holding") for rule in call("GET", "/v1/faults"))


def let_go() -> None:
    call("DELETE", "/v1/faults")


def kill_all(aftermath: Aftermath) -> None:
    """Runner, engine and plug-in, at once and without a word."""
    for line in aftermath.processes():
        if any(part in line for part in OURS):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(line.split()[0]), signal.SIGKILL)


def killed(aftermath: Aftermath, *words: str | Path) -> None:
    """A command that is killed with all that it started while a call is held."""
    runner = Runner(*words)
    until(held)
    kill_all(aftermath)
    runner.end()
    let_go()


def standing() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = call("GET", "/v1/nodes", query={"tag": "megatok-run"})
    return found


def test_report_1_process_dies_after_the_create_was_accepted_before_the_record(
    aftermath: Aftermath, tmp_path: Path, run_id: str
) -> None:
    """The machine is found by its token and adopted: not made twice, and not forgotten."""
    up = ("up", recipe(tmp_path), "--id", run_id)
    hold("create", "made")
    killed(aftermath, *up)
    (made,) = standing()
    assert "commit" not in [event.kind for event in Ledger(ledger_address()).events(run_id)]
    assert megatok(*up).rc == 0
    assert [node["id"] for node in standing()] == [made["id"]]
    assert megatok("down", run_id).rc == 0
    aftermath.nothing(run_id, nodes=1)


def test_report_6_interrupted_at_each_step_and_in_recovery_too(
    aftermath: Aftermath, tmp_path: Path, run_id: str
) -> None:
    """Whatever is killed where, what is left has an armed end, and the next command goes on to nothing."""
    steps = (
        (("up", recipe(tmp_path), "--id", run_id), "create", "accepted"),
        (("up", recipe(tmp_path), "--id", run_id), "create", "made"),
        (("down", run_id), "delete", "accepted"),
        (("down", run_id), "delete", "made"),
    )
    for words, what, at in steps:
        if words[0] == "up":  # what the step before left would be adopted, and nothing be created
            megatok("down", run_id)
        hold(what, at)
        killed(aftermath, *words)
        assert all(node["expires_at"] for node in standing())
    end = megatok("down", run_id)
    assert end.rc == 0, end.err
    aftermath.nothing(run_id)


def test_report_13_killed_in_mid_update_stack_locked_and_operations_pending(
    aftermath: Aftermath, tmp_path: Path, run_id: str
) -> None:
    """`down` works all the same, and asks nobody anything."""
    hold("create", "made")
    killed(aftermath, "up", recipe(tmp_path), "--id", run_id)
    state = aftermath.home / "state" / ".pulumi"
    assert list((state / "locks").rglob("*.json"))
    assert json.loads(next((state / "stacks").rglob(f"{run_id}.json")).read_text())["checkpoint"]["latest"][
        "pending_operations"
    ]
    down: Done = megatok("down", run_id)
    assert down.rc == 0, down.err
    assert "all proven gone" in down.out
    aftermath.nothing(run_id, nodes=1)


def money() -> tuple[Decimal, Decimal]:
    """Settled and reserved."""
    now = account(Ledger(ledger_address()).events("run"), "run")
    return now.settled_usd, now.reserved_usd


def kinds() -> list[str]:
    return [event.kind for event in Ledger(ledger_address()).events("run")]


def test_report_2_create_times_out_and_the_machine_exists(aftermath: Aftermath) -> None:
    """It is found by its token and kept: one machine, on record."""
    fault("create_timeout", seconds=0.2)
    order()
    assert {"commit", "armed"} < set(kinds())
    assert len(standing()) == 1
    assert teardown("run", ledger_address()).proven
    assert list(aftermath.bills().values()) == [False]


def test_report_4_cheap_offer_is_gone_and_a_dear_one_is_there(aftermath: Aftermath) -> None:
    """Ten times as dear as planned, by now: refused with both figures, and nothing is made."""
    fault("dearer", times=None)
    with pytest.raises(NoCapacity, match="1.00.*0.10"):
        order()
    assert aftermath.bills() == {}
    assert money() == (Decimal(0), Decimal(0))


def test_report_8_network_is_lost_during_destroy(aftermath: Aftermath) -> None:
    """Unproven, told with the way on, exit 7; and proven once the cloud answers again."""
    order()
    fault("unreachable", times=None)
    lost = teardown("run", ledger_address(), settle_timeout_s=1)
    assert not lost.proven
    assert "megatok down run goes on" in lost.unproven[0]
    assert list(aftermath.bills().values()) == [True]
    let_go()
    assert teardown("run", ledger_address()).proven
    assert list(aftermath.bills().values()) == [False]


def test_report_9_node_whose_bring_up_failed_is_deleted_with_its_machine(
    aftermath: Aftermath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that never boots is given up: it goes, and its reservation is free."""
    hasty = local.LocalCloud(create_limit_s=1)
    monkeypatch.setattr(hasty, "capabilities", replace(hasty.capabilities, create_limit_s=1.0))
    monkeypatch.setattr(local, "CLOUD", hasty)
    fault("boot_never")
    with pytest.raises(MegatokError):
        order()
    assert standing() == []
    assert not any(aftermath.bills().values())
    assert money()[1] == 0
    assert "release" in kinds()


def test_report_10_create_that_failed_costs_nothing(aftermath: Aftermath) -> None:
    fault("no_capacity", times=None)
    with pytest.raises(NoCapacity):
        order()
    assert money() == (Decimal(0), Decimal(0))
    assert kinds().count("release") == kinds().count("reserve") > 0
    assert aftermath.bills() == {}
