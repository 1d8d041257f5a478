"""The fault `hold`: a call waits at a point of its way until it is let go."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import httpx
import pytest

from tests.localcloud.conftest import Program, faults, until


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def create(program: Program, pool: ThreadPoolExecutor, name: str = "run-0") -> Future[httpx.Response]:
    return pool.submit(program.ask, "POST", "/v1/nodes", program.order(name))


def holding(program: Program) -> bool:
    return any(rule["holding"] for rule in faults(program))


def test_accepted_order_is_known_and_nothing_is_made(program: Program, pool: ThreadPoolExecutor) -> None:
    program.fault("hold", match={"call": "create"}, at="accepted", id="here")
    order = create(program, pool)
    until(lambda: holding(program))
    assert [node["state"] for node in program.listing()] == ["pending"]
    time.sleep(1.2)
    assert (program.bill()["lines"], order.done()) == ([], False)
    program.ask("DELETE", "/v1/faults/here")
    assert order.result().json()[0]["state"] == "running"
    assert faults(program) == []


def test_made_machine_bills_and_no_answer_is_sent(program: Program, pool: ThreadPoolExecutor) -> None:
    program.fault("hold", match={"call": "create"}, at="made")
    order = create(program, pool)
    until(lambda: holding(program))
    assert [node["state"] for node in program.listing()] == ["running"]
    assert (program.bill()["running"], order.done()) == (1, False)
    program.ask("DELETE", "/v1/faults")
    assert order.result().status_code == 200


def test_answer_is_on_its_way(program: Program, pool: ThreadPoolExecutor) -> None:
    program.fault("hold", match={"call": "create"}, at="answered")
    assert create(program, pool).result().status_code == 200
    until(lambda: holding(program))
    program.ask("DELETE", "/v1/faults")
    assert not holding(program)


def test_the_nth_call_of_any_kind_is_held(program: Program, pool: ThreadPoolExecutor) -> None:
    program.fault("hold", match={"call": "*"}, at="made", nth=3)
    for _ in range(2):
        program.bill()
    asked = pool.submit(program.ask, "GET", "/v1/offers")
    until(lambda: holding(program))
    assert not asked.done()
    program.ask("DELETE", "/v1/faults")
    assert asked.result().status_code == 200


def test_one_rule_is_let_go_alone(program: Program, pool: ThreadPoolExecutor) -> None:
    program.fault("hold", match={"name": "run-0"}, at="accepted", id="first")
    program.fault("hold", match={"name": "run-1"}, at="accepted", id="second")
    first, second = create(program, pool), create(program, pool, "run-1")
    until(lambda: all(rule["holding"] for rule in faults(program)))
    program.ask("DELETE", "/v1/faults/first")
    assert first.result().status_code == 200
    assert [rule["id"] for rule in faults(program) if rule["holding"]] == ["second"]
    program.ask("DELETE", "/v1/faults")
    assert second.result().status_code == 200


def test_hold_ends_by_itself(program: Program) -> None:
    program.fault("hold", match={"call": "bill"}, at="accepted", seconds=0.5)
    began = time.monotonic()
    program.bill()
    assert time.monotonic() - began >= 0.5
    assert faults(program) == []


def test_held_order_can_be_deleted(program: Program, pool: ThreadPoolExecutor) -> None:
    program.fault("hold", match={"call": "create"}, at="accepted")
    order = create(program, pool)
    until(lambda: holding(program))
    (pending,) = program.listing()
    program.ask("DELETE", f"/v1/nodes/{pending['id']}")
    assert program.ended(pending["id"])["started_at"] is None
    assert order.result().json()["error"] == "no_capacity"


def test_count_outlives_the_cloud_and_a_hold_does_not(program: Program) -> None:
    program.fault("hold", match={"call": "bill"}, at="made", nth=3)
    program.bill()
    program.kill()
    program.start()
    program.bill()
    with pytest.raises(httpx.TimeoutException):
        program.ask("GET", "/v1/bill", limit_s=0.3)
    assert holding(program)
    program.kill()
    program.start()
    assert faults(program) == []


@pytest.mark.parametrize("at", ["", "later"])
def test_hold_needs_a_point(program: Program, at: str) -> None:
    answer = program.ask("POST", "/v1/faults", {"fault": "hold", "at": at})
    assert (answer.status_code, answer.json()["error"]) == (400, "bad_request")
