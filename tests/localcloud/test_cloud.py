"""The calls: orders, listings, tags, tokens, expiry, bill, refusals."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from tests.localcloud.conftest import Program, until


def test_new_node_runs_and_is_billed(program: Program) -> None:
    node = program.create()
    assert node["state"] == "running"
    line = program.bill()["lines"][0]
    assert (line["id"], line["started_at"], line["ended_at"]) == (node["id"], node["started_at"], None)


def test_bill_of_an_ended_node_stands_still(program: Program) -> None:
    node = program.create(node_type="cpu-2")
    program.ask("DELETE", f"/v1/nodes/{node['id']}")
    ended = program.ended(node["id"])
    bill = program.bill()
    up_s = datetime.fromisoformat(ended["ended_at"]) - datetime.fromisoformat(ended["started_at"])
    whole_s = -(-up_s // timedelta(seconds=1))
    assert bill["running"] == 0
    assert Decimal(bill["usd"]) == (Decimal("0.20") * whole_s / 3600).quantize(Decimal("0.000001"), rounding="ROUND_UP")


def test_same_token_is_the_same_node(program: Program) -> None:
    with ThreadPoolExecutor(4) as pool:
        ids = list(pool.map(lambda _: program.create()["id"], range(4)))
    assert len(set(ids)) == 1
    assert program.bill()["running"] == 1


def test_token_of_other_names_is_refused(program: Program) -> None:
    program.create()
    answer = program.ask("POST", "/v1/nodes", program.order("run-1", token="run-0-a1"))
    assert (answer.status_code, answer.json()["error"]) == (400, "bad_request")


def test_group_is_one_order(program: Program) -> None:
    answer = program.ask("POST", "/v1/nodes", program.order(names=["run-0", "run-1"])).json()
    assert [(node["name"], node["state"]) for node in answer] == [("run-0", "running"), ("run-1", "running")]
    ranges = [range(node["ssh_port"], node["ports"]["first"] + node["ports"]["count"]) for node in answer]
    assert not set(ranges[0]) & set(ranges[1])


def test_group_of_which_one_dies_in_creation_is_ended(program: Program) -> None:
    program.fault("boot_never", match={"name": "run-1"})
    with ThreadPoolExecutor(1) as pool:
        order = pool.submit(program.ask, "POST", "/v1/nodes", program.order(names=["run-0", "run-1"]))
        pending = until(lambda: [node for node in program.listing() if node["name"] == "run-1"])
        program.ask("DELETE", f"/v1/nodes/{pending[0]['id']}")
        assert order.result().json()["error"] == "no_capacity"
    until(lambda: program.listing() == [])
    assert program.bill()["running"] == 0


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["run-0", "run-1"]),
        ("?tag=team=red", ["run-0"]),
        ("?tag=team", ["run-0", "run-1"]),
        ("?tag=other", []),
        ("?token=run-1-a1", ["run-1"]),
        ("?token=run-1-a1&tag=team=red", []),
    ],
)
def test_listing_by_tag_and_token(program: Program, query: str, names: list[str]) -> None:
    program.create("run-0")
    program.create("run-1", tags={"team": "blue"})
    assert [node["name"] for node in program.listing(query)] == names


def test_node_ends_at_its_expiry(program: Program) -> None:
    node = program.create(lifetime_s=2)
    ended = program.ended(node["id"])
    assert ended["reason"] == "expired"
    late_s = datetime.fromisoformat(ended["ended_at"]) - datetime.fromisoformat(node["expires_at"])
    assert timedelta(0) <= late_s < timedelta(seconds=2)


def test_moved_expiry_holds(program: Program) -> None:
    node = program.create(lifetime_s=2)
    later = (datetime.fromisoformat(node["expires_at"]) + timedelta(seconds=60)).isoformat()
    moved = program.ask("POST", f"/v1/nodes/{node['id']}/expiry", {"expires_at": later}).json()
    assert moved["expires_at"] == later
    time.sleep(2.5)
    assert program.read(node["id"])["state"] == "running"
    sooner = datetime.now(UTC).isoformat()
    program.ask("POST", f"/v1/nodes/{node['id']}/expiry", {"expires_at": sooner})
    assert program.ended(node["id"])["reason"] == "expired"


def test_delete_of_an_ended_node_is_fine(program: Program) -> None:
    node = program.create()
    for _ in range(2):
        assert program.ask("DELETE", f"/v1/nodes/{node['id']}").status_code == 202
        program.ended(node["id"])


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/v1/nodes/n-0", None, 404, "not_found"),
        ("DELETE", "/v1/nodes/n-0", None, 404, "not_found"),
        ("GET", "/v1/nothing", None, 404, "not_found"),
        ("POST", "/v1/nodes", {"names": ["a"]}, 400, "bad_request"),
        ("POST", "/v1/faults", {"fault": "rain"}, 400, "bad_request"),
        ("POST", "/v1/faults", {"storm": 1}, 400, "bad_request"),
    ],
)
def test_refusals(program: Program, method: str, path: str, body: object, status: int, code: str) -> None:
    answer = program.ask(method, path, body)
    assert (answer.status_code, answer.json()["error"]) == (status, code)


@pytest.mark.parametrize("changes", [{"region": "mars"}, {"node_type": "b300-8"}, {"lifetime_s": 0}, {"names": []}])
def test_order_that_cannot_be(program: Program, changes: dict[str, object]) -> None:
    assert program.ask("POST", "/v1/nodes", program.order() | changes).json()["error"] == "bad_request"


def test_capacity_is_limited(program: Program) -> None:
    names = [f"run-{index}" for index in range(161)]
    assert program.ask("POST", "/v1/nodes", program.order(names=names)).json()["error"] == "no_capacity"


def test_wrong_token_is_denied(program: Program) -> None:
    assert program.ask("GET", "/v1/nodes", token="wrong").status_code == 401


def test_clock_is_finer_than_a_second(program: Program) -> None:
    told = [datetime.fromisoformat(program.ask("GET", "/v1/clock").json()["now"]) for _ in range(3)]
    assert any(at.microsecond for at in told)
    assert abs(told[-1] - datetime.now(UTC)) < timedelta(seconds=2)


def test_account_is_the_cloud_s_for_good(program: Program) -> None:
    told = program.ask("GET", "/v1/account").json()
    assert told["regions"] == ["here", "there"]
    program.kill()
    program.start()
    assert program.ask("GET", "/v1/account").json() == told
