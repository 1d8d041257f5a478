"""Each fault, as a client meets it."""

from __future__ import annotations

import socket
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import httpx
import paramiko
import pytest

from tests.localcloud.conftest import Program, faults, until


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [("no_capacity", 409, "no_capacity"), ("quota", 403, "quota_exceeded"), ("throttled", 429, "throttled")],
)
def test_create_refused_once(program: Program, fault: str, status: int, code: str) -> None:
    program.fault(fault, match={"call": "create"} if fault == "throttled" else {"region": "here"})
    answer = program.ask("POST", "/v1/nodes", program.order())
    assert (answer.status_code, answer.json()["error"]) == (status, code)
    assert program.bill()["lines"] == []
    program.create()


def test_fault_that_matches_another_place_does_not_strike(program: Program) -> None:
    program.fault("no_capacity", match={"region": "there"}, times=None)
    program.create()


def test_create_slow(program: Program) -> None:
    program.fault("create_slow", seconds=1.0)
    began = time.monotonic()
    program.create()
    assert time.monotonic() - began >= 1.0


def test_slow_create_can_be_deleted_meanwhile(program: Program) -> None:
    program.fault("create_slow", seconds=30)
    with pytest.raises(httpx.TimeoutException):
        program.ask("POST", "/v1/nodes", program.order(), limit_s=0.3)
    (pending,) = program.listing()
    assert pending["state"] == "pending"
    program.ask("DELETE", f"/v1/nodes/{pending['id']}")
    assert program.ended(pending["id"])["started_at"] is None
    assert program.bill()["lines"] == []


def test_create_timeout_made_the_machine(program: Program) -> None:
    program.fault("create_timeout")
    with pytest.raises(httpx.RemoteProtocolError):
        program.create()
    assert [node["state"] for node in program.listing("?token=run-0-a1")] == ["running"]


def test_create_garbage_made_the_machine(program: Program) -> None:
    program.fault("create_garbage")
    with pytest.raises(ValueError):
        program.ask("POST", "/v1/nodes", program.order()).json()
    assert len(program.listing("?token=run-0-a1")) == 1


def test_delete_refused_twice(program: Program) -> None:
    node = program.create()
    program.fault("delete_refused", times=2, match={"name": "run-0"})
    answers = [program.ask("DELETE", f"/v1/nodes/{node['id']}").status_code for _ in range(3)]
    assert answers == [409, 409, 202]
    program.ended(node["id"])


def test_ssh_silent(program: Program) -> None:
    program.fault("ssh_silent")
    node = program.create()
    with socket.create_connection((node["host"], node["ssh_port"])) as connection:
        connection.settimeout(0.5)
        with pytest.raises(TimeoutError):
            connection.recv(1)


def test_host_key_changed(program: Program) -> None:
    program.fault("host_key_changed")
    node = program.create()
    with pytest.raises(paramiko.BadHostKeyException):
        program.ssh(node)


def test_eventual_hides_the_new_and_shows_the_gone(program: Program) -> None:
    program.fault("eventual", seconds=1.5)
    node = program.create()
    assert program.listing() == []
    until(program.listing)
    program.ask("DELETE", f"/v1/nodes/{node['id']}")
    program.ended(node["id"])
    assert [seen["id"] for seen in program.listing()] == [node["id"]]
    until(lambda: program.listing() == [])


@pytest.mark.parametrize(("fault", "reason"), [("spot_notice", "spot"), ("die", "died")])
def test_node_ends_by_itself(program: Program, fault: str, reason: str) -> None:
    program.fault(fault, seconds=1.0)
    node = program.create()
    status, _, _ = program.run(node, "cat SPOT-NOTICE")
    assert (status == 0) == (fault == "spot_notice")
    assert program.ended(node["id"])["reason"] == reason


def test_boot_never_stays_pending_until_deleted(program: Program) -> None:
    program.fault("boot_never")
    with pytest.raises(httpx.TimeoutException):
        program.ask("POST", "/v1/nodes", program.order(), limit_s=0.5)
    (node,) = program.listing()
    assert node["state"] == "pending"
    program.ask("DELETE", f"/v1/nodes/{node['id']}")
    program.ended(node["id"])
    assert program.bill()["lines"] == []


def test_boot_never_ends_at_its_expiry(program: Program) -> None:
    program.fault("boot_never")
    with pytest.raises(httpx.TimeoutException):
        program.ask("POST", "/v1/nodes", program.order(lifetime_s=1), limit_s=0.5)
    until(lambda: program.listing() == [])


def test_faults_are_listed_and_cleared(program: Program) -> None:
    program.fault("die", seconds=3, times=None)
    (rule,) = faults(program)
    assert rule.items() >= {"fault": "die", "times": None, "match": {}, "seconds": 3, "holding": False}.items()
    program.ask("DELETE", "/v1/faults")
    assert program.ask("GET", "/v1/faults").json() == []


def test_unreachable_for_some_calls(program: Program) -> None:
    program.fault("unreachable", times=2)
    for _ in range(2):
        with pytest.raises(httpx.RemoteProtocolError):
            program.create()
    assert program.listing() == []


def test_unreachable_for_some_time_also_across_a_restart(program: Program) -> None:
    program.fault("unreachable", seconds=4)
    began = time.monotonic()
    program.kill()
    program.start()
    assert len(faults(program)) == 1
    with pytest.raises(httpx.RemoteProtocolError):
        program.listing()
    time.sleep(max(0, began + 4.5 - time.monotonic()))
    assert program.listing() == []


def test_delete_lost(program: Program) -> None:
    node = program.create()
    program.fault("delete_lost")
    assert program.ask("DELETE", f"/v1/nodes/{node['id']}").status_code == 202
    time.sleep(1)
    assert program.read(node["id"])["state"] == "running"


def test_clock_skew_moves_all_times_and_no_bill(program: Program) -> None:
    node = program.create(lifetime_s=60)
    program.fault("clock_skew", seconds=7200)
    ahead = timedelta(seconds=7200)
    now = datetime.fromisoformat(program.ask("GET", "/v1/clock").json()["now"])
    assert abs(now - datetime.now(UTC) - ahead) < timedelta(seconds=5)
    seen = program.read(node["id"])
    assert datetime.fromisoformat(seen["expires_at"]) - datetime.fromisoformat(node["expires_at"]) == ahead
    bill = program.bill()
    assert datetime.fromisoformat(bill["lines"][0]["started_at"]) > datetime.now(UTC) + timedelta(hours=1)
    assert Decimal(bill["usd"]) < Decimal("0.01")
    later = (datetime.fromisoformat(seen["expires_at"]) + timedelta(seconds=30)).isoformat()
    assert program.ask("POST", f"/v1/nodes/{node['id']}/expiry", {"expires_at": later}).json()["expires_at"] == later
    program.ask("DELETE", "/v1/faults")
    assert datetime.fromisoformat(program.read(node["id"])["expires_at"]) == datetime.fromisoformat(later) - ahead
