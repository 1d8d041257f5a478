"""Stacks for real: Pulumi's engine, our plug-in, the local cloud. Without an engine these tests fail, never skip."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from infra import orphans, stack
from infra.clouds.local import program
from infra.engine import environment
from infra.engine.find import engine_path
from infra.stack import StackSettings
from infra.teardown import take_over
from money.ledger import Ledger
from spec.errors import Interrupted, NoCapacity, OverBudget, RecipeError
from spec.home import ROOT, home, ledger_address
from spec.inventory import Inventory, Node
from tests.infra.conftest import until

pytestmark = pytest.mark.timeout(300)

MINUTE = timedelta(seconds=60)
FOREIGN_HOST = "warning: using pulumi-language-python from $PATH"
"""Said by an engine that has no language host beside it, where somebody has put only `pulumi` on PATH."""


@pytest.fixture
def run() -> Iterator[str]:
    """Name of a stack that no other test has: its config lies in the checkout."""
    name = f"t-{uuid4().hex[:10]}"
    yield name
    stack.forget(name)


def settings(run: str, **changes: Any) -> StackSettings:
    wanted: dict[str, Any] = {
        "run": run,
        "recipe": ROOT / "recipes" / "clusters" / "local-4.yaml",
        "budget_usd": Decimal(1),
        "lifetime_s": 900,
        "ledger": ledger_address(),
        "nodes": 1,
    }
    return StackSettings(**(wanted | changes))


def fault(name: str, **rule: Any) -> None:
    program.call("POST", "/v1/faults", body={"fault": name, **rule})


def running() -> int:
    """Nodes that the cloud's own meter bills now."""
    count: int = program.call("GET", "/v1/bill")["running"]
    return count


def shell(script: str) -> subprocess.CompletedProcess[str]:
    """As a user types it in the checkout."""
    env = os.environ | {"MEGATOK_PYTHON": sys.executable}
    return subprocess.run(
        ["sh", "-c", f". tools/env 2>/dev/null\n{script}"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_cluster_stands_changes_lives_longer_and_goes(run: str) -> None:
    first = stack.up(settings(run, nodes=2))
    assert stack.up(settings(run, nodes=2)) == first
    assert "3 unchanged" in stack.preview(settings(run, nodes=2))

    third = stack.up(settings(run, nodes=3))
    assert third.nodes[:2] == first.nodes
    assert running() == 3

    with pytest.raises(OverBudget):
        stack.extend(run, 36e6)
    assert stack.up(settings(run, nodes=3)) == third

    # As a runner leaves it that died before the engine began: asked for again, it is granted once.
    assert shell(f"pulumi config set --plaintext extend_s 60.0 --stack {run}").returncode == 0
    longer = stack.extend(run, 60)
    assert [(_end(new), new.id) for new in longer.nodes] == [(_end(old) + MINUTE, old.id) for old in third.nodes]
    assert stack.inventory(run) == longer
    assert stack.settings(run).extend_s == 60
    assert run in stack.stacks()

    with pytest.raises(OverBudget):
        stack.extend(run, 36e6)
    assert stack.settings(run).extend_s == 60
    assert stack.up(settings(run, nodes=3, extend_s=60)) == longer

    stack.destroy(run)
    assert running() == 0
    assert [event.kind for event in Ledger(ledger_address()).events(run)].count("settle") == 3
    stack.forget(run)
    assert run not in stack.stacks()
    assert not (ROOT / f"Pulumi.{run}.yaml").exists()
    assert stack.inventory(run) is None
    stack.destroy(run)


def test_extending_without_a_state_rents_nothing(run: str) -> None:
    made = stack.up(settings(run, nodes=1))
    shutil.rmtree(home() / "state")
    with pytest.raises(RecipeError, match="knows of no node that could live longer"):
        stack.extend(run, 60)
    assert running() == 1
    assert stack.up(settings(run, nodes=1)) == made
    stack.destroy(run)


def test_plain_pulumi_does_the_same(run: str) -> None:
    def pulumi(line: str) -> subprocess.CompletedProcess[str]:
        return shell(f"pulumi --non-interactive {line} --stack {run}")

    assert shell(f"pulumi stack init --no-select {run}").returncode == 0
    refused = pulumi("up -y --skip-preview")
    assert refused.returncode != 0
    (line,) = (line for line in refused.stderr.splitlines() if not line.startswith(FOREIGN_HOST))
    assert "is missing configuration values 'megatok:budget_usd', 'megatok:ledger'" in line

    config = settings(run, nodes=2).config()
    assert (
        pulumi("config set-all " + " ".join(f"--plaintext {key}={value}" for key, value in config.items())).returncode
        == 0
    )
    assert pulumi("up -y --skip-preview").returncode == 0
    made = stack.inventory(run)
    assert made
    assert len(made.nodes) == 2
    assert "3 unchanged" in pulumi("preview").stdout
    assert "3 unchanged" in pulumi("refresh -y").stdout
    program.call("DELETE", f"/v1/nodes/{made.nodes[0].id}")
    assert "1 deleted" in pulumi("refresh -y").stdout
    assert "1 created" in pulumi("up -y --skip-preview").stdout
    again = Inventory.model_validate_json(pulumi("stack output inventory --json").stdout)
    assert again.nodes[1] == made.nodes[1]
    assert again.nodes[0].id != made.nodes[0].id
    assert pulumi("destroy -y").returncode == 0
    assert running() == 0


def test_a_killed_engine_is_recovered_from(run: str) -> None:
    """`kill -9` while creates run: the plug-in ends what is in the making; the next `up` goes on, lock or no lock."""
    fault("create_slow", times=None, seconds=4)
    ups = threading.Thread(target=_failing_up, args=(settings(run, nodes=3),))
    ups.start()
    until(lambda: _count(run, "intent") == 3)
    engine = orphans.orphans(Ledger(ledger_address()).events(run), run)
    for process in engine:
        if process.is_engine:
            os.kill(process.pid, signal.SIGKILL)
    ups.join()
    until(lambda: not orphans.orphans(Ledger(ledger_address()).events(run), run))
    assert running() == _count(run, "commit") == 0
    assert _count(run, "release") == 3
    program.call("DELETE", "/v1/faults")

    made = stack.up(settings(run, nodes=3))
    assert running() == len(made.nodes) == 3
    assert {event.token for event in Ledger(ledger_address()).events(run) if event.kind == "commit"} == {
        f"{run}-{n}-a2" for n in range(3)
    }
    assert "pending" not in stack.preview(settings(run, nodes=3))
    stack.destroy(run)
    assert running() == 0


def test_what_a_dead_runner_left_at_work_is_ended_and_gone_on_from(run: str) -> None:
    """The engine of a runner that was killed holds the lock and creates; who takes over need not wait for it."""
    fault("create_slow", times=1, seconds=60)
    wanted = settings(run)
    begin = f"from pathlib import PosixPath; from decimal import Decimal; from infra.stack import *; up({wanted})"
    runner = subprocess.Popen([sys.executable, "-c", begin], cwd=ROOT, stdin=subprocess.DEVNULL)
    until(lambda: _count(run, "intent"))
    runner.kill()
    runner.wait()
    until(lambda: orphans.orphans(Ledger(ledger_address()).events(run), run))
    with pytest.raises(RecipeError, match="is being changed by process"):
        stack.up(wanted)

    take_over(run, ledger_address())
    assert not orphans.orphans(Ledger(ledger_address()).events(run), run)
    for node in program.call("GET", "/v1/nodes"):  # it still boots; nobody need wait a minute for it
        program.call("DELETE", f"/v1/nodes/{node['id']}")
    assert len(stack.up(wanted).nodes) == running() == 1
    stack.destroy(run)
    assert running() == 0


def test_nodes_that_ended_are_made_anew(run: str) -> None:
    """As after a teardown that died half way: the state still tells of them."""
    first = stack.up(settings(run, nodes=2))
    program.call("DELETE", f"/v1/nodes/{first.nodes[0].id}")
    until(lambda: running() == 1)
    again = stack.up(settings(run, nodes=2))
    assert running() == 2
    assert again.nodes[1] == first.nodes[1]
    assert again.nodes[0].id != first.nodes[0].id
    stack.destroy(run)
    assert running() == 0


def test_a_full_cloud_and_a_small_budget_are_told_as_such(run: str) -> None:
    fault("no_capacity", times=None)
    with pytest.raises(NoCapacity, match="no place for 1 x cpu-1 on local"):
        stack.up(settings(run))
    program.call("DELETE", "/v1/faults")
    stack.forget(run)
    other = settings(f"{run}b", budget_usd=Decimal("0.001"))
    with pytest.raises(OverBudget, match=r"needs 0\.\d+ USD in the worst case for 600 s"):
        stack.up(other)
    stack.forget(other.run)
    assert running() == 0


def test_a_cancel_ends_the_engine_and_its_state_stays_good(run: str) -> None:
    fault("create_slow", times=None, seconds=3)
    cancel = threading.Event()
    threading.Thread(target=_set_when_intended, args=(run, cancel)).start()
    with pytest.raises(Interrupted, match="was stopped"):
        stack.up(settings(run), cancel=cancel)
    assert not orphans.orphans(Ledger(ledger_address()).events(run), run)
    stack.destroy(run)
    assert running() == 0


def test_a_lost_passphrase_is_named_and_forgetting_needs_none(
    run: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack.up(settings(run))
    right = (home / "passphrase").read_text()
    (home / "passphrase").write_text("wrong")
    with pytest.raises(RecipeError, match=f"the passphrase is not the one that stack {run} was made with"):
        stack.up(settings(run))
    with pytest.raises(RecipeError, match="megatok down"):
        stack.destroy(run)
    assert stack.settings(run) == settings(run)
    (home / "passphrase").write_text(right)
    stack.destroy(run)
    (home / "passphrase").write_text("wrong")
    stack.forget(run)
    assert stack.stacks() == ()


def test_a_stack_that_is_not_there_is_named() -> None:
    with pytest.raises(RecipeError, match="there is no stack 'nowhere'"):
        stack.settings("nowhere")


def test_a_lock_of_a_dead_process_is_no_obstacle(run: str) -> None:
    stack.up(settings(run))
    engine = subprocess.Popen(
        [engine_path(), "up", "-y", "--skip-preview", "--stack", run],
        cwd=ROOT,
        env=os.environ | environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    locks = home_locks()
    until(lambda: locks and list(locks.rglob("*.json")))
    engine.kill()
    engine.wait()
    assert list(locks.rglob("*.json"))
    stack.destroy(run)
    assert running() == 0


def home_locks() -> Path:
    return Path(os.environ["MEGATOK_HOME"]) / "state" / ".pulumi" / "locks"


def _set_when_intended(run: str, cancel: threading.Event) -> None:
    until(lambda: _count(run, "intent"))
    cancel.set()


def _count(run: str, kind: str) -> int:
    return [str(event.kind) for event in Ledger(ledger_address()).events(run)].count(kind)


def _failing_up(wanted: StackSettings) -> None:
    with pytest.raises(Exception, match=wanted.run):
        stack.up(wanted)


def _end(node: Node) -> datetime:
    assert node.expires_at
    return node.expires_at
