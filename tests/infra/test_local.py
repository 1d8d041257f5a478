"""The client of the local cloud: on demand, one program for all, every fault as its class."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from infra.cloud import CreateRequest, Machine
from infra.clouds import cloud
from infra.clouds.local import CLOUD, LocalCloud, program
from spec.errors import CloudError, MegatokError, NoCapacity, NotYetTerminated, QuotaExceeded, Throttled, Unanswered
from spec.ledger import Resource
from tests.infra.conftest import until

PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA test"


def fault(name: str, **rule: Any) -> None:
    program.call("POST", "/v1/faults", body={"fault": name, **rule})


def request(name: str = "run-0", node_type: str = "cpu-1", lifetime_s: float = 60) -> CreateRequest:
    offer = CLOUD.offers(node_type, ["here"])[0]
    return CreateRequest("run", f"{name}-a1", (name,), offer, lifetime_s, PUBLIC_KEY)


def create(name: str = "run-0", **changes: Any) -> Machine:
    return CLOUD.create(request(name, **changes))[0]


def test_it_is_the_cloud_called_local() -> None:
    assert cloud("local") is CLOUD


def test_questions_start_nothing_where_there_never_was_a_node() -> None:
    gone = Resource(cloud="local", region="here", kind="machine", id="n-0")
    answers = (CLOUD.inventory(), CLOUD.find("run-0-a1"), CLOUD.read(gone), CLOUD.billed_usd("run"))
    CLOUD.delete(gone)
    assert answers == ((), (), None, {})
    assert program.running() is None


def test_offers_come_in_the_order_of_regions() -> None:
    assert [offer.region for offer in CLOUD.offers("cpu-2", ["there", "mars", "here"])] == ["there", "here"]
    assert {(offer.usd_per_hour, offer.gpus) for offer in CLOUD.offers("cpu-2", [])} == {(Decimal("0.20"), 2)}
    assert CLOUD.offers("b300-8", []) == ()


def test_life_of_a_machine() -> None:
    made = create()
    assert (made.name, made.run, made.token, made.state, made.gpus) == ("run-0", "run", "run-0-a1", "running", 1)
    assert CLOUD.find("run-0-a1") == (made,)
    assert CLOUD.read(made.resource) == made
    assert [resource.id for resource in CLOUD.inventory("run")] == [made.id]
    assert CLOUD.inventory("other") == ()
    CLOUD.delete(made.resource)
    until(lambda: CLOUD.inventory() == ())
    ended = CLOUD.read(made.resource)
    assert ended is not None
    assert ended.state == "terminated"
    assert ended.ended_at is not None
    assert CLOUD.billed_usd("run")[made.id] > 0
    CLOUD.delete(made.resource)


def test_native_switch_is_armed_and_moves() -> None:
    made = create()
    assert made.expires_at is not None
    (switch,) = CLOUD.switches(made)
    assert (switch.kind, switch.armed, switch.fires_at) == ("native", True, made.expires_at)
    later = made.expires_at + timedelta(seconds=30)
    assert CLOUD.extend(made.id, later) == later
    CLOUD.delete(made.resource)
    with pytest.raises(CloudError, match="has ended"):
        CLOUD.extend(made.id, later)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("no_capacity", NoCapacity),
        ("quota", QuotaExceeded),
        ("throttled", Throttled),
        ("create_timeout", Unanswered),
        ("create_garbage", Unanswered),
    ],
)
def test_fault_of_a_create_is_its_class(name: str, error: type[MegatokError]) -> None:
    wanted = request()
    fault(name)
    with pytest.raises(MegatokError) as caught:
        CLOUD.create(wanted)
    assert type(caught.value) is error
    assert len(CLOUD.find("run-0-a1")) == (error is Unanswered)


def test_create_that_never_answers_is_given_up() -> None:
    wanted = request()
    fault("boot_never")
    with pytest.raises(Unanswered, match="ReadTimeout"):
        LocalCloud(create_limit_s=0.5).create(wanted)
    assert [machine.state for machine in CLOUD.find("run-0-a1")] == ["pending"]


def test_order_that_cannot_be_is_refused() -> None:
    wanted = request()
    with pytest.raises(CloudError, match="mars"):
        CLOUD.create(replace(wanted, offer=replace(wanted.offer, region="mars")))


def test_refused_delete_can_be_tried_again() -> None:
    made = create()
    fault("delete_refused")
    with pytest.raises(NotYetTerminated):
        CLOUD.delete(made.resource)
    CLOUD.delete(made.resource)


def test_two_starters_get_one_program() -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: program.started(), range(8)))
    assert len(set(found)) == 1


def test_killed_program_is_started_again_with_its_nodes() -> None:
    made = create()
    endpoint = program.running()
    assert endpoint is not None
    os.kill(endpoint.pid, signal.SIGKILL)
    until(lambda: program.running() is None)
    assert CLOUD.read(made.resource) == made
    assert program.started().pid != endpoint.pid


def test_endpoint_left_behind_is_not_believed(home: Path) -> None:
    """Neither that of a dead program nor one whose port and pid now belong to somebody else."""
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        left = {"url": f"http://127.0.0.1:{stranger.getsockname()[1]}", "token": "x", "pid": os.getpid()}
        (home / "localcloud").mkdir()
        (home / "localcloud" / "endpoint.json").write_text(json.dumps(left))
        assert CLOUD.offers("cpu-1", ["here"])
        stranger.setblocking(False)
        with pytest.raises(BlockingIOError):
            stranger.accept()


def test_program_that_cannot_start_says_why(home: Path) -> None:
    (home / "localcloud").mkdir()
    (home / "localcloud" / "nodes").write_text("in the way")
    with pytest.raises(Unanswered, match=r"exit code 1.*localcloud\.log"):
        CLOUD.offers("cpu-1", [])


@pytest.mark.slow
def test_64_creates_of_5_s_run_at_once() -> None:
    wanted = [request(f"run-{index}") for index in range(64)]
    fault("create_slow", seconds=5, times=None)
    began = time.monotonic()
    with ThreadPoolExecutor(64) as pool:
        list(pool.map(CLOUD.create, wanted))
    assert time.monotonic() - began < 12
    assert program.call("GET", "/v1/bill")["running"] == 64
