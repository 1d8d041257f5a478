"""A stop is a stop: whoever asks for it, and whenever, the nodes are given back, and the receipt proves it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest

from spec.inventory import Inventory
from tests.chain.rig import Aftermath, Runner, fault, recipe, until

pytestmark = pytest.mark.timeout(400)

PHASES = ("provision", "prepare", "serve", "measure", "destroy")
MARGIN_S = 1.5
"""Slept on after the nodes' end."""


@pytest.mark.parametrize("phase", PHASES)
def test_ctrl_c_at_a_terminal(aftermath: Aftermath, tmp_path: Path, run_id: str, phase: str) -> None:
    """Pressed twice: the second one does not skip the teardown."""
    if phase == "destroy":
        fault("host_key_changed")  # there sooner, and a stop weighs more than what else went wrong
    runner = Runner("run", recipe(tmp_path), "--id", run_id, terminal=True)
    reach(runner, aftermath, phase)
    runner.press_ctrl_c()
    runner.said("SIGINT: ")
    runner.press_ctrl_c()
    runner.said("SIGINT: the teardown goes on; a stop does not skip it")
    done = runner.end()
    assert done.rc == 8
    assert done.complaint() == f"stopped by SIGINT; go on with: megatok run --resume {run_id}"
    assert aftermath.document(run_id).exit_code == 8
    aftermath.nothing(run_id)


@pytest.mark.parametrize(
    "phase",
    # The others are slow: what a phase does with a stop is tested above, and here that this signal is one.
    [phase if phase == "measure" else pytest.param(phase, marks=pytest.mark.slow) for phase in PHASES],
)
def test_sigterm(aftermath: Aftermath, tmp_path: Path, run_id: str, phase: str) -> None:
    runner = Runner("run", recipe(tmp_path), "--id", run_id)
    reach(runner, aftermath, phase)
    runner.signal(signal.SIGTERM)
    done = runner.end()
    assert done.rc == 8
    assert done.complaint() == f"stopped by SIGTERM; go on with: megatok run --resume {run_id}"
    aftermath.nothing(run_id)


def reach(runner: Runner, aftermath: Aftermath, phase: str) -> None:
    """Wait for the phase; in the first one, until a node is being made."""
    if phase == "provision":
        fault("create_slow", seconds=3)
    runner.said(rf"^\S+ {phase}")
    if phase == "provision":
        until(lambda: any((aftermath.home / "localcloud" / "nodes").glob("*")))


def test_terminal_is_closed(aftermath: Aftermath, tmp_path: Path, run_id: str) -> None:
    runner = Runner("run", recipe(tmp_path), "--id", run_id, terminal=True)
    runner.said("serve dp1")
    runner.hang_up()
    assert runner.process.wait(200) == 8
    aftermath.nothing(run_id, nodes=1)


def test_nobody_reads_its_progress(aftermath: Aftermath, tmp_path: Path, run_id: str) -> None:
    """As with `2>&1 | head -1`: the run goes on to its end."""
    fault("host_key_changed")
    runner = Runner("run", recipe(tmp_path), "--id", run_id)
    runner.said("provision")
    runner.stop_reading()
    assert runner.end().rc == 5
    aftermath.nothing(run_id, nodes=1)


def test_machine_asleep_until_the_nodes_have_ended(aftermath: Aftermath, tmp_path: Path, run_id: str) -> None:
    """Everything stands still, nodes and cloud too, and wakes when their lifetime is over."""
    short = recipe(tmp_path, ("lifetime_s: 600", "lifetime_s: 40"))
    runner = Runner("run", short, "--id", run_id)
    runner.said("serve dp1")
    text = (aftermath.home / "runs" / run_id / "inventory.json").read_text()
    (node,) = Inventory.model_validate_json(text).nodes
    assert node.expires_at
    signal_all(aftermath, signal.SIGSTOP)
    time.sleep(max(0.0, node.expires_at.timestamp() + MARGIN_S - time.time()))
    signal_all(aftermath, signal.SIGCONT)
    done = runner.end()
    assert done.rc == 8
    assert "deadline reached after standing still for" in done.complaint()
    aftermath.nothing(run_id, nodes=1)


def test_deploy_is_stopped(aftermath: Aftermath, run_id: str) -> None:
    words = ("deploy", "local", "--model", "smollm2", "--budget", "1", "--hours", "0.2", "--id", run_id)
    runner = Runner(*words, terminal=True)
    runner.said("serve dp1")
    runner.press_ctrl_c()
    done = runner.end()
    assert done.rc == 8
    assert done.complaint().startswith("stopped by SIGINT")
    aftermath.nothing(run_id, nodes=1)


def test_up_is_stopped(aftermath: Aftermath, tmp_path: Path, run_id: str) -> None:
    fault("create_slow", seconds=3)
    runner = Runner("up", recipe(tmp_path), "--id", run_id)
    until(lambda: any((aftermath.home / "localcloud" / "nodes").glob("*")))
    runner.signal(signal.SIGINT)
    done = runner.end()
    assert done.rc == 8
    assert done.complaint().startswith("stopped by SIGINT")
    aftermath.nothing(run_id)


def signal_all(aftermath: Aftermath, number: signal.Signals) -> None:
    """Nodes, cloud, and all that works on the run; the first to wake may end others."""
    for pid in aftermath.pids():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
