"""Measure: a client runs to its end and its files come home; ended early, it is not left running."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from plan.launch import Launch
from playbooks import launch, measure, serve
from playbooks.measure import Measured
from playbooks.run import Host, on_all
from spec.errors import Interrupted
from spec.inventory import Inventory
from tests.playbooks.conftest import Fleet
from tests.playbooks.servers import bash, facts, inventory

WRITES = "mkdir -p {dir}/artifacts/logs; echo '{}' >{dir}/artifacts/profile_export.jsonl; "
SERVER = bash("server", "sleep 300")


@pytest.fixture
def one(fleet: Fleet) -> Iterator[Inventory]:
    nodes = inventory(fleet.up("run-0"))
    serve.start(nodes, {"run-0": facts()}, [SERVER], {})
    yield nodes
    serve.stop(nodes, ["server", "client"])


def run(nodes: Inventory, client: Launch, into: Path, limit_s: float = 60, **more: threading.Event) -> Measured:
    found = {"run-0": facts()}
    return measure.measure(nodes, found, client, [SERVER], secrets={}, limit_s=limit_s, into=into, **more)


def alive(nodes: Inventory, name: str = "client") -> bool:
    return on_all(nodes.nodes, lambda host: launch.status(host, "run", [name]), limit_s=30)["run-0"][name].alive


def test_its_files_come_home(one: Inventory, tmp_path: Path) -> None:
    done = run(one, bash("client", WRITES + "sleep 1"), tmp_path / "cell")
    assert (done.rc, done.dead, done.note) == (0, (), "")
    assert (tmp_path / "cell" / "profile_export.jsonl").read_text() == "{}\n"
    assert (tmp_path / "cell" / "logs").is_dir()
    assert 0 < (done.ended_at - done.started_at).total_seconds() < 30


def test_a_crash_is_told_by_the_end_of_its_log(one: Inventory, tmp_path: Path) -> None:
    done = run(one, bash("client", "echo out of luck; exit 7"), tmp_path / "cell")
    assert (done.rc, done.note) == (7, "out of luck")
    assert list((tmp_path / "cell").iterdir()) == []


def test_files_of_an_earlier_try_are_not_taken_for_new_ones(one: Inventory, tmp_path: Path) -> None:
    run(one, bash("client", WRITES), tmp_path / "first")
    run(one, bash("client", "exit 1"), tmp_path / "second")
    assert list((tmp_path / "second").iterdir()) == []


def test_a_server_that_dies_ends_it(one: Inventory, tmp_path: Path, fleet: Fleet) -> None:
    leader = int((fleet.folder / "run-0" / launch.folder("run", "server") / "pid").read_text().split()[0])
    threading.Timer(2, os.killpg, (leader, signal.SIGKILL)).start()
    done = run(one, bash("client", WRITES + "sleep 300"), tmp_path / "cell")
    assert (done.rc, done.dead) == (None, ("server",))
    assert (tmp_path / "cell" / "profile_export.jsonl").exists()
    assert not alive(one)


def test_it_ends_at_the_limit(one: Inventory, tmp_path: Path) -> None:
    done = run(one, bash("client", "sleep 300"), tmp_path / "cell", limit_s=1)
    assert (done.rc, done.dead) == (None, ())
    assert not alive(one)


def test_a_cancel_ends_it(one: Inventory, tmp_path: Path) -> None:
    cancel = threading.Event()
    threading.Timer(2, cancel.set).start()
    with pytest.raises(Interrupted):
        run(one, bash("client", "sleep 300"), tmp_path / "cell", cancel=cancel)
    assert not alive(one)


def test_one_that_a_dead_runner_left_at_work_is_ended_and_begun_anew(one: Inventory, tmp_path: Path) -> None:

    def has_begun(host: Host) -> bool:
        return host.run(f"test -e ~/{launch.folder('run', 'client')}/starts", check=False).rc == 0

    tells = "echo >>{dir}/starts; date +%s.%N >{dir}/artifacts/began; cp {dir}/starts {dir}/artifacts; sleep 2"
    client = bash("client", WRITES + tells)
    serve.start(one, {"run-0": facts()}, [client], {})
    while not on_all(one.nodes, has_begun, limit_s=30)["run-0"]:
        time.sleep(0.1)
    before_s = time.time()
    assert run(one, client, tmp_path / "cell").rc == 0
    assert len((tmp_path / "cell" / "starts").read_text().splitlines()) == 2
    assert float((tmp_path / "cell" / "began").read_text()) >= before_s
