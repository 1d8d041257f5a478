"""The client of the local cloud: on demand, one program for all, every fault as its class."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from infra import guest
from infra.cloud import TAG_EXPIRES, CreateRequest, Machine
from infra.clouds import cloud
from infra.clouds.local import CLOUD, LocalCloud, program
from spec.errors import CloudError, MegatokError, NoCapacity, NotYetTerminated, QuotaExceeded, Throttled, Unanswered
from spec.ledger import Resource
from tests.infra.conftest import until

PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA test"


def fault(name: str, **rule: Any) -> None:
    program.call("POST", "/v1/faults", body={"fault": name, **rule})


def request(
    name: str = "run-0", node_type: str = "cpu-1", lifetime_s: float = 60, timer: bool = False
) -> CreateRequest:
    """With `timer` the node powers itself off."""
    offer = CLOUD.offers(node_type, ["here"])[0]
    expires_at = CLOUD.now() + timedelta(seconds=lifetime_s)
    script = guest.first_boot(lifetime_s, expires_at, CLOUD.capabilities.expires_command) if timer else ""
    tags = {TAG_EXPIRES: f"{expires_at:%Y-%m-%dT%H:%M:%SZ}"}
    return CreateRequest("run", f"{name}-a1", (name,), offer, lifetime_s, PUBLIC_KEY, user_data=script, tags=tags)


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
    switch, timer = CLOUD.switches(made)
    assert (timer.kind, timer.armed) == ("guest", False)
    assert (switch.kind, switch.armed, switch.fires_at) == ("native", True, made.expires_at)
    later = made.expires_at + timedelta(seconds=30)
    assert CLOUD.extend(made.id, later) == later
    CLOUD.delete(made.resource)
    with pytest.raises(CloudError, match="has ended"):
        CLOUD.extend(made.id, later)


def test_guest_switch_is_armed_and_moves() -> None:
    made = create(timer=True)
    assert made.expires_at is not None
    assert CLOUD.read(made.resource) == made
    timer = CLOUD.switches(made)[1]
    late = timedelta(seconds=guest.SLACK_S)
    assert (timer.kind, timer.armed, timer.fires_at) == ("guest", True, made.expires_at + late)
    CLOUD.extend(made.id, made.expires_at + timedelta(seconds=30))
    (moved,) = CLOUD.find(made.token)
    assert CLOUD.switches(moved)[1].fires_at == made.expires_at + timedelta(seconds=30) + late


@pytest.mark.parametrize("more_s", [0, 3], ids=["as made", "moved"])
def test_guest_timer_ends_a_node_that_its_cloud_does_not_end(more_s: float) -> None:
    wanted = request(lifetime_s=6, timer=True)
    fault("native_dead")
    (made,) = CLOUD.create(wanted)
    assert made.expires_at is not None
    end = CLOUD.extend(made.id, made.expires_at + timedelta(seconds=more_s))
    ended = until(lambda: (item := CLOUD.read(made.resource)) and item.ended_at and item)
    assert timedelta(0) < ended.ended_at - end < timedelta(seconds=guest.SLACK_S + 5)


def test_disk_and_address_are_items_of_their_own() -> None:
    wanted = request(node_type="cpu-1-disk")
    extras = [(extra.kind, extra.usd_per_hour) for extra in wanted.offer.extras]
    assert extras == [("disk", Decimal("0.02")), ("address", Decimal("0.005"))]
    (made,) = CLOUD.create(wanted)
    assert made.expires_at is not None
    items = {item.resource.kind: item for item in CLOUD.inventory("run")}
    assert tuple(items) == CLOUD.capabilities.kinds
    disk = items["disk"]
    assert (disk.name, disk.run, disk.token, disk.state) == ("run-0-disk", "run", made.token, "running")
    with pytest.raises(NotYetTerminated):
        CLOUD.delete(disk.resource)
    later = CLOUD.extend(made.id, made.expires_at + timedelta(seconds=30))
    assert {item.expires_at for item in CLOUD.inventory()} == {later}
    CLOUD.delete(made.resource)
    until(lambda: CLOUD.find(made.token) == ())
    assert set(CLOUD.billed_usd("run")) == {item.id for item in items.values()}
    for item in (disk, items["address"]):
        CLOUD.delete(item.resource)
    assert CLOUD.inventory() == ()
    ended = CLOUD.read(disk.resource)
    assert ended is not None
    assert ended.ended_at is not None


@pytest.mark.parametrize(
    ("name", "usd_per_hour", "currency"),
    [("price_foreign", Decimal("0.10"), "EUR"), ("price_unknown", None, "USD"), ("dearer", Decimal("1.00"), "USD")],
)
def test_price_is_passed_on_as_it_is_told(name: str, usd_per_hour: Decimal | None, currency: str) -> None:
    fault(name)
    found = CLOUD.offers("cpu-1", ["here"])[0]
    assert (found.usd_per_hour, found.currency) == (usd_per_hour, currency)


def test_stale_price_tells_its_age() -> None:
    fault("price_stale")
    assert CLOUD.now() - CLOUD.offers("cpu-1", [])[0].as_of > timedelta(days=300)


def test_offer_that_became_dearer_is_not_taken() -> None:
    wanted = request()
    fault("dearer")
    CLOUD.offers("cpu-1", [])
    with pytest.raises(NoCapacity):
        CLOUD.create(wanted)
    assert CLOUD.inventory() == ()


def test_cloud_that_cannot_be_reached_is_unanswered() -> None:
    create()
    fault("unreachable")
    with pytest.raises(Unanswered):
        CLOUD.inventory()
    assert CLOUD.inventory()


def test_lost_delete_and_stuck_disk_end_in_the_next_try() -> None:
    made = create(node_type="cpu-1-disk")
    fault("delete_lost", match={"kind": "machine"})
    fault("disk_stuck")
    CLOUD.delete(made.resource)
    time.sleep(0.5)
    assert CLOUD.find(made.token) == (made,)
    CLOUD.delete(made.resource)
    until(lambda: CLOUD.find(made.token) == ())
    disk = next(item for item in CLOUD.inventory() if item.resource.kind == "disk")
    with pytest.raises(NotYetTerminated):
        CLOUD.delete(disk.resource)
    CLOUD.delete(disk.resource)
    assert disk not in CLOUD.inventory()


def test_clock_is_the_cloud_s_own() -> None:
    assert CLOUD.scope().regions == ()
    assert program.running() is None
    made = create()
    fault("clock_skew", seconds=-7200)
    seen = CLOUD.read(made.resource)
    assert seen is not None
    assert seen.expires_at is not None
    assert timedelta(0) < seen.expires_at - CLOUD.now() < timedelta(seconds=60)
    assert datetime.now(UTC) - CLOUD.now() > timedelta(hours=1)
    assert CLOUD.scope().regions == ("here", "there")


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
