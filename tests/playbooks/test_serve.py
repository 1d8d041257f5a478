"""Serve: started side by side, waited for, and refused with the reason where one does not come up."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from playbooks import launch, remote, serve
from spec.errors import GateFailed
from spec.facts import Facts
from spec.inventory import Inventory
from tests.playbooks.conftest import Fleet
from tests.playbooks.servers import bash, facts, free_port, healthy, inventory


@pytest.fixture
def two(fleet: Fleet) -> Iterator[Inventory]:
    nodes = inventory(fleet.up("run-0"), fleet.up("run-1"))
    yield nodes
    left = inventory(*(node for node in nodes.nodes if node.name in fleet.processes))
    serve.stop(left, ["one", "two"])


FACTS: dict[str, Facts] = {"run-0": facts(), "run-1": facts()}


def pid(fleet: Fleet, node: str, name: str) -> int:
    return int((fleet.folder / node / launch.folder("run", name) / "pid").read_text().split()[0])


def _child(leader: int) -> int:
    """The process that its start script runs."""
    return int(Path(f"/proc/{leader}/task/{leader}/children").read_text().split()[0])


def _await(holds: Callable[[], bool]) -> None:
    for _ in range(50):
        if holds():
            return
        time.sleep(0.1)
    raise AssertionError("not within 5 s")


def test_all_answer_and_a_second_start_changes_nothing(two: Inventory, fleet: Fleet) -> None:
    servers = [healthy("one", free_port()), healthy("two", free_port(), node=1)]
    serve.start(two, FACTS, servers, {})
    first = pid(fleet, "run-1", "two")
    serve.start(two, FACTS, servers, {})
    assert pid(fleet, "run-1", "two") == first
    assert serve.dead(two, servers) == ()


def test_a_killed_server_is_dead_and_a_stopped_one_too(two: Inventory, fleet: Fleet) -> None:
    servers = [healthy("one", free_port()), healthy("two", free_port(), node=1)]
    serve.start(two, FACTS, servers, {})
    os.kill(_child(pid(fleet, "run-0", "one")), signal.SIGKILL)
    _await(lambda: serve.dead(two, servers) == ("one",))
    serve.stop(two, ["one", "two"])
    assert serve.dead(two, servers) == ("one", "two")


def test_one_that_ends_at_once_is_told_with_its_log(two: Inventory) -> None:
    broken = bash("one", "echo no such model; exit 3", port=free_port(), health="/health")
    began = time.monotonic()
    with pytest.raises(GateFailed, match=r"one on run-0: ended with exit code 3\nno such model") as refused:
        serve.start(two, FACTS, [broken, healthy("two", free_port(), node=1)], {})
    assert time.monotonic() - began < 10
    assert "two" not in str(refused.value)


def test_a_fatal_line_ends_the_wait(two: Inventory) -> None:
    stuck = bash(
        "one", "echo '[emerg] bind failed'; sleep 60", health="/health", port=free_port(), fatal=(r"\[emerg\]",)
    )
    with pytest.raises(GateFailed, match=r"will not come up: \[emerg\] bind failed"):
        serve.start(two, FACTS, [stuck], {})


def test_the_wait_ends_after_ready_s(two: Inventory) -> None:
    silent = bash("one", "sleep 60", health="/health", port=free_port(), ready_s=0.5)
    with pytest.raises(GateFailed, match=r"not ready after 0\.5 s, last answer: .*refused"):
        serve.start(two, FACTS, [silent], {})


def test_a_port_that_another_holds_is_refused_before_the_start(two: Inventory, fleet: Fleet) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(GateFailed, match=f"port {port} is taken by another process"):
            serve.start(two, FACTS, [healthy("one", port)], {})
    assert not (fleet.folder / "run-0" / launch.folder("run", "one")).exists()


def test_a_missing_gateway_is_told_with_the_line_that_installs_it(two: Inventory) -> None:
    gateway = replace(healthy("one", free_port()), argv=("haproxy", "-db"))
    with pytest.raises(GateFailed, match="run-0 has no haproxy; install it there with: apt-get install -y haproxy"):
        serve.start(two, FACTS, [gateway], {})


def test_a_config_that_its_own_check_refuses(two: Inventory) -> None:
    refused = replace(healthy("one", free_port()), check=("bash", "-c", "echo line 3: unknown word >&2; exit 1"))
    with pytest.raises(GateFailed, match="check of one's config: exit code 1: line 3: unknown word"):
        serve.start(two, FACTS, [refused], {})


def test_all_of_a_node_that_is_gone_are_dead(two: Inventory, fleet: Fleet) -> None:
    servers = [healthy("one", free_port()), healthy("two", free_port(), node=1)]
    serve.start(two, FACTS, servers, {})
    remote.close_all()
    fleet.down("run-1")
    assert serve.dead(two, servers) == ("two",)
    os.killpg(pid(fleet, "run-1", "two"), signal.SIGKILL)
