"""Teardown from ledger and tags alone: whatever died where, the receipt proves that nothing is left."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from infra import orphans
from infra.cloud import CreateRequest, Machine
from infra.clouds.local import CLOUD, program
from infra.clouds.ssh import CLOUD as SSH
from infra.teardown import teardown
from money import budget
from money.ledger import Ledger
from spec.errors import Fenced
from spec.home import ROOT, ledger_address
from spec.ledger import Resource
from spec.receipt import Receipt
from spec.recipe import SshHost
from tests.infra.conftest import until

RUN = "run"


def fault(name: str, **rule: Any) -> None:
    program.call("POST", "/v1/faults", body={"fault": name, **rule})


class Plugin:
    """What the plug-in does up to each point at which it may die."""

    def __init__(self, public_key: str = "ssh-ed25519 AAAA unused") -> None:
        self.ledger = Ledger(ledger_address())
        self.epoch = self.ledger.open(RUN, Decimal(1))
        self.offer = CLOUD.offers("cpu-1", ["here"])[0]
        self.public_key = public_key

    def intend(self, index: int = 0) -> CreateRequest:
        token, name = f"{RUN}-{index}-a1", f"{RUN}-{index}"
        budget.reserve(self.ledger, RUN, self.epoch, token, Decimal("0.01"))
        unborn = Resource(cloud="local", region="here", kind="machine", id="", name=name)
        budget.intent(self.ledger, RUN, self.epoch, token, "local here cpu-1", (unborn,))
        return CreateRequest(RUN, token, (name,), self.offer, 60, self.public_key)

    def create(self, index: int = 0) -> Machine:
        return CLOUD.create(self.intend(index))[0]

    def commit(self, index: int = 0) -> Machine:
        made = self.create(index)
        budget.commit(self.ledger, RUN, made.token, (made.resource,), made.started_at)
        return made


@pytest.fixture
def plugin() -> Plugin:
    return Plugin()


def down(limit_s: float = 30) -> Receipt:
    return teardown(RUN, ledger_address(), settle_timeout_s=limit_s)


def assert_nothing_left(receipt: Receipt) -> None:
    """Proven, and so it is by the meter, to the last millionth of a dollar."""
    bill = program.call("GET", "/v1/bill")
    assert (receipt.proven, receipt.unproven) == (True, ())
    assert bill["running"] == 0
    assert receipt.usd == (receipt.cloud_usd or 0)
    assert receipt.usd == Decimal(bill["usd"])
    assert CLOUD.inventory() == ()
    spent = budget.spend(Ledger(ledger_address()).events(), RUN)
    assert (spent.reserved_usd, spent.settled_usd) == (Decimal(0), receipt.usd)


def test_committed_node_is_deleted_paid_and_proven(plugin: Plugin) -> None:
    made = plugin.commit()
    receipt = down()
    assert_nothing_left(receipt)
    (line,) = receipt.lines
    assert (line.resource.id, line.proven, len(line.absent_at)) == (made.id, True, 2)
    assert receipt.simulated


def test_node_known_only_by_its_intent_is_found(plugin: Plugin) -> None:
    made = plugin.create()
    receipt = down()
    assert_nothing_left(receipt)
    assert [line.resource.id for line in receipt.lines] == [made.id]


def test_node_known_only_by_its_tag_is_found(plugin: Plugin) -> None:
    CLOUD.create(CreateRequest(RUN, "by-hand", ("run-9",), plugin.offer, 60, plugin.public_key))
    receipt = down()
    assert_nothing_left(receipt)
    assert receipt.burned_usd == receipt.usd > 0
    assert receipt.simulated


def test_lost_ledger_is_no_hindrance(plugin: Plugin, tmp_path: Path) -> None:
    made = plugin.commit()
    receipt = teardown(RUN, (tmp_path / "new").as_uri())
    assert (receipt.proven, [line.resource.id for line in receipt.lines]) == (True, [made.id])


def test_ledger_that_takes_no_line_keeps_no_node_up(plugin: Plugin, home: Path) -> None:
    plugin.commit()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((home / "ledger" / "ledger.jsonl").stat().st_size, before[1]))
    try:
        receipt = down()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not receipt.proven
    assert "cannot take a line: File too large" in receipt.unproven[0]
    assert CLOUD.inventory() == ()
    assert_nothing_left(down())


def test_intent_that_made_nothing_is_released(plugin: Plugin) -> None:
    plugin.intend()
    receipt = down()
    assert_nothing_left(receipt)
    assert receipt.lines == ()


def test_create_that_the_cloud_still_works_on_is_ended(plugin: Plugin) -> None:
    fault("create_slow", seconds=30)
    wanted = plugin.intend()
    with ThreadPoolExecutor(1) as pool:
        create = pool.submit(CLOUD.create, wanted)
        until(lambda: CLOUD.find(wanted.token))
        assert_nothing_left(down())
        assert create.exception() is not None


def test_node_that_ended_by_itself_is_still_paid(plugin: Plugin) -> None:
    """Committed or not: one that no listing shows any more is known from the bill."""
    fault("die", seconds=0.1, times=2)
    made = [plugin.commit(0), plugin.create(1)]
    until(lambda: CLOUD.inventory() == ())
    receipt = down()
    assert_nothing_left(receipt)
    assert {line.resource.id for line in receipt.lines} == {one.id for one in made}


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("delete_refused", {"times": 2}),
        ("throttled", {"times": 6}),
        ("eventual", {"seconds": 1.5}),
    ],
)
def test_patience(plugin: Plugin, name: str, rule: dict[str, Any]) -> None:
    if name == "eventual":  # strikes when a node is ordered
        fault(name, **rule)
    plugin.commit()
    if name != "eventual":
        fault(name, **rule)
    assert_nothing_left(down())


def test_refused_for_ever_is_unproven_and_goes_on_later(plugin: Plugin) -> None:
    made = plugin.commit()
    fault("delete_refused", times=None)
    receipt = down(limit_s=1.5)
    assert not receipt.proven
    assert any(made.id in doubt and "in use" in doubt and "megatok down run" in doubt for doubt in receipt.unproven)
    program.call("DELETE", "/v1/faults")
    assert_nothing_left(down())


def test_cloud_that_cannot_be_asked_is_unproven(plugin: Plugin, home: Path) -> None:
    plugin.commit()
    endpoint = program.running()
    assert endpoint
    os.kill(endpoint.pid, signal.SIGKILL)
    until(lambda: program.running() is None)
    meter = home / "localcloud" / "meter.jsonl"
    kept = meter.read_text()
    meter.write_text("not a meter\n")
    receipt = down(limit_s=0)
    assert not receipt.proven
    assert any(doubt.startswith("cloud local: ") for doubt in receipt.unproven)
    meter.write_text(kept)
    assert_nothing_left(down())


def test_second_teardown_says_the_same(plugin: Plugin) -> None:
    plugin.commit()
    first, second = down(), down()
    assert_nothing_left(second)
    assert [line.usd for line in first.lines] == [line.usd for line in second.lines]


def test_older_owner_creates_nothing_more(plugin: Plugin) -> None:
    down()
    with pytest.raises(Fenced):
        plugin.intend(1)


def test_other_runs_stay(plugin: Plugin) -> None:
    plugin.commit()
    other = CLOUD.create(CreateRequest("other", "other-0-a1", ("other-0",), plugin.offer, 60, plugin.public_key))
    assert down().proven
    assert CLOUD.find("other-0-a1") == other


def test_owned_hosts_are_let_go_and_cost_nothing(key_file: Path) -> None:
    plugin = Plugin(key_file.with_suffix(".pub").read_text())
    (node,) = CLOUD.create(CreateRequest("hosts", "hosts-0-a1", ("hosts-0",), plugin.offer, 60, plugin.public_key))
    host = SshHost(
        address=node.host,
        port=node.ssh_port,
        user=node.user,
        key_file=str(key_file),
        host_key=node.host_key,
        usd_per_hour=Decimal(3),
    )
    budget.reserve(plugin.ledger, RUN, plugin.epoch, f"{RUN}-0-a1", Decimal(0))
    unborn = Resource(cloud="ssh", region="own", kind="machine", id="", name=f"{RUN}-0")
    budget.intent(plugin.ledger, RUN, plugin.epoch, f"{RUN}-0-a1", "ssh own host", (unborn,))
    offer = SSH.offers("host", [])[0]
    SSH.create(CreateRequest(RUN, f"{RUN}-0-a1", (f"{RUN}-0",), offer, 60, "", hosts=(host,)))
    receipt = down()
    assert (receipt.proven, receipt.usd, receipt.simulated) == (True, Decimal(0), False)
    assert receipt.cloud_usd is None
    assert SSH.inventory() == ()


def test_many_nodes_go_side_by_side(plugin: Plugin) -> None:
    with ThreadPoolExecutor(64) as pool:
        list(pool.map(plugin.commit, range(24)))
    began = time.monotonic()
    assert_nothing_left(down(limit_s=60))
    assert time.monotonic() - began < 30


ENGINE = """import subprocess, sys, time
plugin = subprocess.Popen(sys.argv[1], stdout=subprocess.PIPE)
plugin.stdout.readline()
print(plugin.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def engine(home: Path) -> Any:
    """A stand-in for the engine with our real plug-in below it; the engine's and the plug-in's number."""
    process = subprocess.Popen(
        ["pulumi", "-c", ENGINE, str(ROOT / "infra/provider/pulumi-resource-megatok"), "--stack", RUN],
        executable=sys.executable,
        env=os.environ | {"MEGATOK_PYTHON": sys.executable},
        stdout=subprocess.PIPE,
    )
    assert process.stdout
    yield process.pid, int(process.stdout.readline())
    process.kill()
    process.wait()
    process.stdout.close()


def test_engine_and_plugin_of_a_dead_run_are_ended(plugin: Plugin, engine: tuple[int, int]) -> None:
    assert {one.pid for one in orphans.orphans((), RUN)} == {engine[0]}
    plugin.commit()
    events = [event.model_copy(update={"pid": engine[1]}) for event in plugin.ledger.events(RUN)]
    found = orphans.orphans(events, RUN)
    assert [one.pid for one in found] == list(engine)
    orphans.end(found)
    assert orphans.orphans(events, RUN) == ()
    assert orphans.look(engine[1]) is None


def test_one_that_heeds_no_signal_is_gone_all_the_same(
    engine: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orphans, "GRACE_S", 0.1)
    stubborn = [found for pid in engine if (found := orphans.look(pid))]
    for pid in engine:
        os.kill(pid, signal.SIGSTOP)
    orphans.end(stubborn)
    assert not any(one.lives for one in stubborn)


def test_strangers_are_left_alone(
    plugin: Plugin, engine: tuple[int, int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another run's engine, another home's, another machine's events, and a later process of the same number."""
    plugin.commit()
    event = plugin.ledger.events(RUN)[-1].model_copy(update={"pid": engine[1]})
    elsewhere = event.model_copy(update={"host": "elsewhere"})
    before_it = event.model_copy(update={"at": datetime(2020, 1, 1, tzinfo=UTC)})
    ours = event.model_copy(update={"pid": os.getpid()})
    assert orphans.orphans((event,), "other") == ()
    monkeypatch.setenv("MEGATOK_HOME", str(tmp_path))
    assert orphans.orphans((elsewhere, before_it, ours), RUN) == ()
