"""What comes in the way of a teardown; `make bench-stop` measures how long it takes with 12 nodes."""

from __future__ import annotations

import os
import signal
import time
from decimal import Decimal
from pathlib import Path

import pytest

from infra.clouds.local.program import running
from money.ledger import Ledger
from money.limits import set_limits
from spec.home import ledger_address, owner
from tests.chain.rig import Aftermath, Runner, fault, megatok, recipe, until

pytestmark = pytest.mark.timeout(400)
TWO = ("nodes: 1", "nodes: 2")
DEAF_S = 3.0


def test_killed_in_its_teardown(aftermath: Aftermath, tmp_path: Path, run_id: str) -> None:
    runner = half_up(aftermath, tmp_path, run_id)
    runner.signal(signal.SIGTERM)
    runner.said(r"^\S+ destroy")
    runner.signal(signal.SIGKILL)
    assert runner.end().rc == -signal.SIGKILL
    assert megatok("down", run_id).rc == 0
    aftermath.nothing(run_id)


def test_another_stop_in_its_teardown(aftermath: Aftermath, tmp_path: Path, run_id: str) -> None:
    runner = half_up(aftermath, tmp_path, run_id)
    runner.signal(signal.SIGINT)
    runner.said(r"^\S+ destroy")
    runner.signal(signal.SIGINT)
    runner.said("SIGINT: the teardown goes on; a stop does not skip it")
    assert runner.end().rc == 8
    aftermath.nothing(run_id)


def test_cloud_does_not_answer_for_a_while(aftermath: Aftermath, tmp_path: Path, run_id: str) -> None:
    runner = half_up(aftermath, tmp_path, run_id)
    cloud = running()
    assert cloud
    runner.signal(signal.SIGTERM)
    os.kill(cloud.pid, signal.SIGSTOP)
    time.sleep(DEAF_S)
    os.kill(cloud.pid, signal.SIGCONT)
    assert runner.end().rc == 8
    aftermath.nothing(run_id)


@pytest.mark.slow  # four minutes of patience with a cloud that says nothing
def test_cloud_never_answers(aftermath: Aftermath, tmp_path: Path, run_id: str) -> None:
    runner = half_up(aftermath, tmp_path, run_id)
    cloud = running()
    assert cloud
    os.kill(cloud.pid, signal.SIGSTOP)
    runner.signal(signal.SIGTERM)
    done = runner.end(380)
    os.kill(cloud.pid, signal.SIGCONT)
    assert done.rc == 7
    assert f"megatok down {run_id}" in done.complaint()
    assert megatok("down", run_id).rc == 0
    aftermath.nothing(run_id)


def test_day_without_room_for_all_nodes_gets_none(aftermath: Aftermath, tmp_path: Path, run_id: str) -> None:
    """Each node may cost 600 s x $0.10/h; the day has room for one and a half, and each may take its share."""
    set_limits(Ledger(ledger_address()), owner(), Decimal("0.025"), None)
    done = megatok("up", recipe(tmp_path, TWO), "--id", run_id)
    assert done.rc == 3
    assert "day" in done.complaint()
    aftermath.nothing(run_id, nodes=0)


def half_up(aftermath: Aftermath, tmp_path: Path, run_id: str) -> Runner:
    """`megatok up` with one of two nodes there, and the other being made."""
    fault("create_slow", match={"name": "*-1"}, seconds=3)
    runner = Runner("up", recipe(tmp_path, TWO), "--id", run_id)
    until(lambda: any(aftermath.bills().values()))
    return runner
