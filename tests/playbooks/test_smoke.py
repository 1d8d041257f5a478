"""Smoke: each way in which an answer can be wrong is told, by the client that runs on a node."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from plan.launch import API_KEY, Placement, Replica
from playbooks.smoke import judge, smoke, targets
from spec.inventory import Node
from spec.layout import LayoutShape
from spec.record import Check
from tests.playbooks.servers import facts, free_port, inventory

SERVER = Path(__file__).parent / "fake_openai.py"
KEY = "k3y"
Start = Callable[[str], int]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a server that asks for KEY and answers in one way; its port."""
    processes = []

    def begin(how: str) -> int:
        port = free_port()
        command = [sys.executable, str(SERVER), str(port), how]
        processes.append(subprocess.Popen(command, env={API_KEY: KEY}, stderr=subprocess.DEVNULL))
        _await(port)
        return port

    yield begin
    for process in processes:
        process.kill()
        process.wait()


def _await(port: int) -> None:
    for _ in range(200):
        with suppress(ConnectionError):
            socket.create_connection(("127.0.0.1", port)).close()
            return
        time.sleep(0.05)
    raise AssertionError(f"nothing listens on {port}")


def placed(*ports: int, gateway: str = "none", gateway_port: int = 0) -> Placement:
    return Placement(
        layout=LayoutShape(dp=len(ports)),
        replicas=tuple(Replica(index, 0, (index,), "127.0.0.1", port) for index, port in enumerate(ports)),
        gateway=gateway,
        gateway_node=0,
        gateway_host="127.0.0.1",
        gateway_port=gateway_port,
        gateway_own_port=0,
        client_node=0,
    )


def asked(node: Node, placement: Placement, floor: float = 1.0, key: str | None = KEY) -> tuple[Check, ...]:
    return smoke(inventory(node), {"run-0": facts()}, placement, "smollm2", floor, key)


def test_every_replica_is_asked_directly_and_through_the_gateway(host_node: Node, start: Start) -> None:
    one, two = start("well"), start("well")
    found = asked(host_node, placed(one, two, gateway="nginx", gateway_port=one))
    assert [(check.name, check.outcome) for check in found] == [
        ("replica 0", "pass"),
        ("replica 1", "pass"),
        ("gateway nginx", "pass"),
        ("gateway nginx", "pass"),
    ]


@pytest.mark.parametrize(
    ("how", "detail"),
    [
        ("empty", "the answer is empty"),
        ("short", "31 tokens, not 32"),
        ("disordered", "the stream is not text, its end, and one"),
        ("cut", "the stream is not text, its end, and one"),
        ("buffered", "all came at once"),
        ("slow", "below the floor of 20.0"),
        ("broken", "status 500"),
        ("open", "answers without the key (status 200)"),
    ],
)
def test_a_wrong_answer_is_told(host_node: Node, start: Start, how: str, detail: str) -> None:
    (found,) = asked(host_node, placed(start(how)), floor=20.0)
    assert found.outcome == "fail"
    assert detail in found.detail


def test_a_wrong_key_and_a_silent_port(host_node: Node, start: Start) -> None:
    refused, silent = asked(host_node, placed(start("well"), free_port()), key="wrong")
    assert (refused.outcome, silent.outcome) == ("fail", "fail")
    assert "status 401" in refused.detail
    assert "ConnectionRefusedError" in silent.detail


def test_what_there_was_no_time_for_is_unknown() -> None:
    assert judge("replica 7", {"late": True}, 1.0).outcome == "unknown"


def test_a_direct_layout_has_no_gateway_to_ask() -> None:
    assert [target.name for target in targets(placed(1, 2))] == ["replica 0", "replica 1"]
