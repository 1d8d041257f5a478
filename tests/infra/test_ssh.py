"""Hosts that exist, here nodes of the local cloud: claimed by one run at a time, left as they were."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from infra.cloud import CreateRequest, Machine
from infra.clouds import cloud
from infra.clouds.local import CLOUD as LOCAL
from infra.clouds.ssh import CLOUD, link
from plan.launch import Launch
from playbooks import launch
from playbooks.run import Host, on_all
from spec.errors import CloudError, Denied, MegatokError, NoCapacity, RecipeError, Unanswered
from spec.inventory import Node
from spec.recipe import SshHost
from tests.infra.conftest import until

Existing = Callable[..., SshHost]
OTHER_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ4Yk5mB1Vv1Zrj5mJt0Zp0fJQm1vC4cQ5w0J8b1n2k3"


@pytest.fixture
def existing(key_file: Path) -> Existing:
    """Makes a host that exists already."""
    offer = LOCAL.offers("cpu-1", ["here"])[0]
    public = key_file.with_suffix(".pub").read_text()

    def make(name: str = "host-0") -> SshHost:
        (node,) = LOCAL.create(CreateRequest("hosts", f"hosts-{name}", (name,), offer, 120, public))
        return SshHost(
            address=node.host,
            port=node.ssh_port,
            user=node.user,
            key_file=str(key_file),
            host_key=node.host_key,
            usd_per_hour=Decimal("0.05"),
        )

    return make


def request(*hosts: SshHost, run: str = "run", attempt: int = 1, lifetime_s: float = 60) -> CreateRequest:
    names = tuple(f"{run}-{index}" for index in range(len(hosts)))
    offer = CLOUD.offers("host", [])[0]
    return CreateRequest(run, f"{run}-0-a{attempt}", names, offer, lifetime_s, "unused", hosts=hosts, gpus=2)


def claim(host: SshHost, **changes: object) -> Machine:
    return CLOUD.create(request(host, **changes))[0]  # type: ignore[arg-type]


def node(machine: Machine) -> Node:
    """As the plug-in tells playbooks of it."""
    return Node(
        name=machine.name,
        id=machine.id,
        index=0,
        cloud="ssh",
        region=machine.resource.region,
        node_type=machine.node_type,
        gpus=machine.gpus,
        host=machine.host,
        ssh_port=machine.ssh_port,
        user=machine.user,
        key_file=machine.key_file,
        host_key=machine.host_key,
        ports=machine.ports,
        created_at=machine.created_at,
        expires_at=machine.expires_at,
        usd_per_hour=machine.usd_per_hour,
    )


def start(machine: Machine, *argv: str) -> None:
    def task(host: Host) -> None:
        launch.start(host, machine.run, Launch("server", 0, "", argv), {}, {})

    on_all([node(machine)], task, limit_s=30)


def found(pattern: str) -> str:
    return subprocess.run(["pgrep", "-f", pattern], capture_output=True, text=True, check=False).stdout


def test_it_is_the_cloud_called_ssh() -> None:
    assert cloud("ssh") is CLOUD


def test_offer_costs_nothing() -> None:
    (offer,) = CLOUD.offers("host", [])
    assert (offer.region, offer.usd_per_hour) == ("own", Decimal(0))
    assert CLOUD.offers("host", ["mars"]) == ()


def test_life_of_a_claim(existing: Existing, key_file: Path) -> None:
    host = existing()
    made = claim(host)
    assert (made.name, made.state, made.gpus, made.key_file) == ("run-0", "running", 2, str(key_file))
    assert made.usd_per_hour == Decimal("0.05")
    assert CLOUD.find("run-0-a1") == (made,)
    assert CLOUD.read(made.resource) == made
    assert [resource.id for resource in CLOUD.inventory("run")] == [made.id]
    assert CLOUD.inventory("other") == ()
    CLOUD.delete(made.resource)
    assert CLOUD.inventory() == ()
    ended = CLOUD.read(made.resource)
    assert ended is not None
    assert ended.state == "terminated"
    assert ended.ended_at is not None
    assert link.run(host, "ls -A") == ""
    CLOUD.delete(made.resource)


def test_same_token_is_the_same_claim(existing: Existing) -> None:
    host = existing()
    assert claim(host) == claim(host)


def test_host_held_by_a_live_run_is_refused(existing: Existing) -> None:
    host = existing()
    first = claim(host)
    with pytest.raises(NoCapacity, match="held by run 'run'"):
        claim(host, run="other")
    assert CLOUD.find("other-0-a1") == ()
    CLOUD.delete(first.resource)
    claim(host, run="other")


def test_of_two_runs_one_gets_the_host(existing: Existing) -> None:
    host = existing()

    def try_it(run: str) -> bool:
        try:
            return bool(claim(host, run=run))
        except NoCapacity:
            return False

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(try_it, ["a", "b", "c", "d"])) == [False, False, False, True]


def test_host_of_an_expired_run_is_taken_over_clean(existing: Existing) -> None:
    host = existing()
    old = claim(host, lifetime_s=0.1)
    seconds = f"7{host.port}"
    start(old, "sleep", seconds)
    taken = claim(host, run="other")
    assert taken.state == "running"
    assert found(f"^sleep {seconds}") == ""
    CLOUD.delete(old.resource)
    assert link.run(host, "cat .megatok-run/claim").count('"run":"other"') == 1


def test_group_takes_a_host_for_each_name(existing: Existing) -> None:
    machines = CLOUD.create(request(existing("host-0"), existing("host-1")))
    assert [machine.name for machine in machines] == ["run-0", "run-1"]
    assert machines[0].ports != machines[1].ports
    assert len(CLOUD.find("run-0-a1")) == 2


def test_other_number_of_hosts_than_names_is_refused(existing: Existing) -> None:
    with pytest.raises(RecipeError, match="1 nodes need as many hosts"):
        CLOUD.create(replace(request(existing()), hosts=()))


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"host_key": OTHER_KEY}, Denied, "pins"),
        ({"host_key": "ssh-ed25519 nonsense"}, RecipeError, "host_key"),
        ({"user": "nobody-of-that-name"}, Denied, "refuses the key"),
        ({"key_file": "/no/such/key"}, RecipeError, "key_file /no/such/key"),
        ({"port": 9}, NoCapacity, "does not answer"),
    ],
)
def test_host_that_cannot_be_used_leaves_no_claim(
    existing: Existing, changes: dict[str, object], error: type[MegatokError], says: str
) -> None:
    host = existing()
    with pytest.raises(MegatokError, match=says) as caught:
        claim(host.model_copy(update=changes))
    assert type(caught.value) is error
    assert CLOUD.inventory() == ()
    assert link.run(host, "ls -A") == ""


@pytest.mark.parametrize(
    "argv",
    [
        ("sleep", "{s}"),
        ("sh", "-c", "setsid sleep {s} & sleep {s}"),
        ("sh", "-c", "trap '' TERM; sleep {s} & wait; sleep {s}"),
    ],
    ids=["plain", "a session of its own", "deaf to TERM"],
)
def test_delete_ends_what_was_started_and_nothing_else(existing: Existing, argv: tuple[str, ...]) -> None:
    host = existing()
    link.run(host, f"mkdir other; echo kept >other/file; setsid sleep 8{host.port} </dev/null >/dev/null 2>&1 &")
    made = claim(host)
    start(made, *(part.format(s=f"7{host.port}") for part in argv))
    until(lambda: found(f"^sleep 7{host.port}"))
    CLOUD.delete(made.resource)
    assert found(f"^sleep 7{host.port}") == ""
    assert found(f"^sleep 8{host.port}") != ""
    assert link.run(host, "ls -A; cat other/file").split() == ["other", "kept"]


def test_host_that_is_away_at_the_end_is_not_let_go(existing: Existing) -> None:
    made = claim(existing())
    (host,) = LOCAL.find("hosts-host-0")
    LOCAL.delete(host.resource)
    until(lambda: LOCAL.inventory() == ())
    with pytest.raises(Unanswered):
        CLOUD.delete(made.resource)
    assert [resource.id for resource in CLOUD.inventory("run")] == [made.id]


def test_claim_can_be_extended_while_it_is_held(existing: Existing) -> None:
    host = existing()
    made = claim(host, lifetime_s=0.1)
    later = datetime.now(UTC) + timedelta(seconds=60)
    assert CLOUD.extend(made.id, later) == later
    with pytest.raises(NoCapacity):
        claim(host, run="other")
    CLOUD.delete(made.resource)
    with pytest.raises(CloudError, match="no run holds"):
        CLOUD.extend(made.id, later)


def test_lost_claim_cannot_be_extended(existing: Existing) -> None:
    host = existing()
    made = claim(host, lifetime_s=0.1)
    claim(host, run="other")
    with pytest.raises(CloudError, match="not held"):
        CLOUD.extend(made.id, datetime.now(UTC) + timedelta(seconds=60))


def test_nothing_is_billed_and_nothing_armed(existing: Existing) -> None:
    made = claim(existing())
    assert CLOUD.billed_usd("run") == {}
    assert [(switch.kind, switch.armed) for switch in CLOUD.switches(made)] == [("none", False)]
    assert CLOUD.capabilities.billed is False
