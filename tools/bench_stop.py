"""`make bench-stop`: 12 local nodes, and from whatever ends their run to the proof that nothing stands.

Reported as both: the whole time, and what of it is beyond the cloud's own for one node, from a delete that it has taken
to that node's end by the meter. Ends in one line of JSON.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from money.ledger import Ledger
from money.limits import set_limits
from spec.home import owner
from tools.chaos.cloud import CloudSide
from tools.chaos.draw import USD_PER_HOUR, recipe
from tools.kill.chain import Chain, process_of, wait_until
from tools.kill.hands import Hands
from tools.kill.warm import Command, Warm

NODES = 12
ALLOWED_S = 10.0
LIFETIME_S = 300
WAIT_S = 90.0
DEAF_S = 20.0
"""For which the cloud answers nobody."""
LAST = f"*-{NODES - 1}"


class Stage:
    """One run of 12 nodes, and what is seen of it."""

    def __init__(self, warm: Warm) -> None:
        home = Path(tempfile.mkdtemp(prefix="bench-stop-"))
        self.chain, self.cloud = Chain(home, f"bench-{home.name[-8:].lower().replace('_', 'x')}"), CloudSide(home)
        self.hands = Hands(self.chain, warm)
        self.folder = home / "runs" / self.chain.run

    def begin(self, command: str, faults: list[Mapping[str, Any]], lifetime_s: int) -> Command:
        self.cloud.begin(faults)
        self.hands.recipe.write_text(recipe(NODES, lifetime_s, Decimal(1)))
        return self.hands.start(command)

    def said(self, pattern: str, file: str = "progress.log") -> float:
        """When the run's log first holds it."""
        path = self.folder / file
        if not wait_until(lambda: path.exists() and bool(re.search(pattern, path.read_text())), WAIT_S, 0.005):
            raise SystemExit(f"the run never said {pattern!r}; see {path}")
        return time.time()

    def up(self, nodes: int) -> None:
        if not wait_until(lambda: self.cloud.running() >= nodes, WAIT_S, 0.01):
            raise SystemExit(f"no {nodes} nodes came up; see {self.chain.home}")

    def proven_at(self) -> float | None:
        path = self.folder / "receipt.json"
        return path.stat().st_mtime if path.exists() and json.loads(path.read_text())["proven"] else None

    def deletion_s(self) -> float:
        """The cloud's own time for its slowest node."""
        asked: dict[str, float] = {}
        for line in (self.cloud.folder / "localcloud.log").read_text().splitlines():
            if found := re.match(r"(\S+ \S+) INFO DELETE /v1/nodes/(\S+)", line):
                asked.setdefault(found[2], datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp())
        ends = {id: end for id, (_, end) in self.chain.bills().items() if end is not None}
        return max((ends[id] - at for id, at in asked.items() if at < ends.get(id, 0)), default=0.0)

    def end(self) -> None:
        self.chain.end()
        shutil.rmtree(self.chain.home)


Act = Callable[[Stage, Command], float]
"""Lets it happen, and says when that was."""


@dataclass(frozen=True)
class Case:
    act: Act
    code: int
    command: str = "up"
    faults: tuple[Mapping[str, Any], ...] = ()
    lifetime_s: int = LIFETIME_S
    day_share: float | None = None
    """Day's limit, as a share of the worst case of all nodes."""


SLOW = {"fault": "create_slow", "match": {"name": LAST}, "seconds": 20}
MUTE = {"fault": "ssh_silent", "match": {"name": LAST}}


def signalled(*numbers: signal.Signals) -> Act:
    """While all nodes but one are up; each further signal comes a second later."""

    def act(stage: Stage, command: Command) -> float:
        stage.up(NODES - 1)
        at = time.time()
        for number in numbers:
            os.kill(command.pid, number)
            time.sleep(1 if len(numbers) > 1 else 0)
        return at

    return act


def in_prepare(stage: Stage, command: Command) -> float:
    stage.said(r"\] prepare")
    time.sleep(1)
    at = time.time()
    os.kill(command.pid, signal.SIGINT)
    return at


def again_in_teardown(stage: Stage, command: Command) -> float:
    at = signalled(signal.SIGINT)(stage, command)
    stage.said(r"\] destroy")
    os.kill(command.pid, signal.SIGINT)
    return at


def at_deadline(stage: Stage, _command: Command) -> float:
    stage.said("nodes up")
    nodes = json.loads((stage.folder / "inventory.json").read_text())["nodes"]
    margin_s = min(60.0, 0.05 * stage_lifetime_s(stage))
    return min(datetime.fromisoformat(node["expires_at"]).timestamp() for node in nodes) - margin_s


def stage_lifetime_s(stage: Stage) -> float:
    return float(json.loads(stage.hands.recipe.read_text())["lifetime_s"])


def engine_says(error: str) -> Act:
    return lambda stage, _command: stage.said(error, "logs/provision.log")


def run_says(error: str) -> Act:
    return lambda stage, _command: stage.said(error)


def engine_dies_in_destroy(stage: Stage, command: Command) -> float:
    at = signalled(signal.SIGTERM)(stage, command)
    stage.said(r"\] destroy")
    wait_until(lambda: process_of("plug-in", command.pid) is not None, WAIT_S, 0.005)
    if pid := process_of("engine", command.pid):
        os.kill(pid, signal.SIGKILL)
    return at


def killed_in_teardown(stage: Stage, command: Command) -> float:
    """Then `megatok down`: counted from there."""
    signalled(signal.SIGTERM)(stage, command)
    stage.said(r"\] destroy")
    time.sleep(0.5)
    command.kill()
    stage.hands.finished("up", command)
    at = time.time()
    stage.hands.done("down")
    return at


def deaf(stage: Stage, command: Command) -> float:
    """The cloud answers nobody while the run is stopped; counted from when it does again."""
    signalled(signal.SIGTERM)(stage, command)
    cloud = stage.chain.cloud()
    assert cloud
    os.kill(cloud, signal.SIGSTOP)
    time.sleep(DEAF_S)
    os.kill(cloud, signal.SIGCONT)
    return time.time()


def deaf_until_given_up(stage: Stage, command: Command) -> float:
    """Until the command gives up, with exit code 7; counted from the `megatok down` after the cloud is back."""
    stage.up(NODES - 1)
    cloud = stage.chain.cloud()
    assert cloud
    os.kill(cloud, signal.SIGSTOP)
    os.kill(command.pid, signal.SIGTERM)
    wait_until(lambda: command.poll() is not None, 600)
    stage.hands.finished("up", command)
    os.kill(cloud, signal.SIGCONT)
    at = time.time()
    stage.hands.done("down")
    return at


CASES: Mapping[str, Case] = {
    "SIGTERM": Case(signalled(signal.SIGTERM), 8, faults=(SLOW,)),
    "SIGINT": Case(signalled(signal.SIGINT), 8, faults=(SLOW,)),
    "SIGINT twice": Case(signalled(signal.SIGINT, signal.SIGINT), 8, faults=(SLOW,)),
    "SIGINT, and one in teardown": Case(again_in_teardown, 8, faults=(SLOW,)),
    "SIGINT in prepare": Case(in_prepare, 8, command="run", faults=(MUTE,)),
    "deadline": Case(at_deadline, 8, command="run", faults=(MUTE,), lifetime_s=30),
    "budget": Case(engine_says("OverBudget"), 3, day_share=0.7),
    "error in provision": Case(
        engine_says("NoCapacity"), 4, faults=({"fault": "no_capacity", "match": {"name": LAST}, "times": None},)
    ),
    "error in prepare": Case(
        run_says("GateFailed"), 5, command="run", faults=({"fault": "host_key_changed", "match": {"name": LAST}},)
    ),
    "engine killed in teardown": Case(engine_dies_in_destroy, 8, faults=(SLOW,)),
    "SIGKILL in teardown, then down": Case(killed_in_teardown, -9, faults=(SLOW,)),
    "cloud unreachable for 20 s": Case(deaf, 8, faults=(SLOW,)),
    "cloud unreachable, exit 7, then down": Case(deaf_until_given_up, 7, faults=(SLOW,)),
}


def measure(name: str, case: Case, warm: Warm) -> dict[str, Any]:
    stage = Stage(warm)
    try:
        if case.day_share is not None:
            worst = NODES * USD_PER_HOUR * case.lifetime_s / 3600
            ledger = Ledger((stage.chain.home / "ledger").as_uri())
            set_limits(ledger, owner(), (worst * Decimal(str(case.day_share))).quantize(Decimal("0.0001")), None)
        command = stage.begin(case.command, list(case.faults), case.lifetime_s)
        at = case.act(stage, command)
        if not stage.hands.codes:
            stage.hands.finished(case.command, command)
        proven_at, cloud_s = stage.proven_at(), stage.deletion_s()
        total_s = (proven_at or time.time()) - at
        return {
            "total_s": round(total_s, 2),
            "cloud_s": round(cloud_s, 2),
            "beyond_s": round(total_s - cloud_s, 2),
            "code": stage.hands.codes[0][1],
            "right": bool(proven_at) and stage.hands.codes[0][1] == case.code and not stage.cloud.running(),
        }
    finally:
        stage.end()


def main() -> int:
    began, warm, found = datetime.now(UTC), Warm(), dict[str, dict[str, Any]]()
    for name in sys.argv[1:] or CASES:
        found[name] = measure(name, CASES[name], warm)
        print(f"{name}: {found[name]}", file=sys.stderr, flush=True)
    warm.end()
    worst_s = max(each["beyond_s"] for each in found.values())
    figures = {
        "nodes": NODES,
        "cases": found,
        "worst_beyond_s": worst_s,
        "allowed_s": ALLOWED_S,
        "ratio": round(worst_s / ALLOWED_S, 3),
        "wrong": [name for name, each in found.items() if not each["right"]],
        "seconds": round((datetime.now(UTC) - began).total_seconds(), 1),
    }
    print(json.dumps(figures))
    return int(worst_s > ALLOWED_S or bool(figures["wrong"]))


if __name__ == "__main__":
    sys.exit(main())
