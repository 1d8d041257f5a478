#!/usr/bin/env python3
"""Kill runner, engine or plug-in of `megatok run` at random moments, and see that one `megatok down` is enough.

    make kill KILLS=30 SEED=1      one line of JSON at the end; a round that failed keeps its folder

Each round has a MEGATOK_HOME of its own, the real chain, engine and plug-in, and a local cloud of its own. What is
true is read from the cloud's meter and from /proc, never from what our own programs say. Linux only.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PROC = Path("/proc")
RUN = "killed"
VICTIMS = ("runner", "engine", "plug-in")
COMMANDS_WAIT_S = 240.0
"""Longest that a runner may take to its end, or `megatok down`; else it hangs."""
LEAVE_S = 2.0
"""For the last processes to leave /proc after their parent has answered."""
POLL_S = 0.002
USD_PER_HOUR = Decimal("0.20")
BILLING_STEP_S = 1
CHOSEN_BILLED = 0.75
"""So often a moment is taken at which a node is up in most runs."""

FILES = {
    "phase": f"runs/{RUN}/progress.log",
    "ledger": "ledger/ledger.jsonl",
    "request": "localcloud/localcloud.log",
    "meter": "localcloud/meter.jsonl",
}


@dataclass(frozen=True)
class Moment:
    """`delay_s` after the `nth` line that matches `pattern` in one of FILES."""

    phase: str
    file: str
    pattern: str
    billed: bool
    spread_s: float
    nth: int = 1
    delay_s: float = 0.0


MOMENTS = (
    Moment("provision", "phase", r"\] provision", billed=False, spread_s=1.5),
    Moment("provision", "ledger", '"kind":"open"', billed=False, spread_s=0.05),
    Moment("provision", "ledger", '"kind":"reserve"', billed=False, spread_s=0.02),
    Moment("provision", "ledger", '"kind":"intent"', billed=False, spread_s=0.1),
    Moment("provision", "request", "POST /v1/nodes", billed=False, spread_s=0.1),
    Moment("provision", "meter", '"start"', billed=True, spread_s=0.5),
    Moment("provision", "ledger", '"kind":"commit"', billed=True, spread_s=0.5),
    Moment("provision", "ledger", '"kind":"armed"', billed=True, spread_s=1.0),
    Moment("prepare", "phase", r"nodes up", billed=True, spread_s=0.5),
    Moment("prepare", "phase", r"\] prepare", billed=True, spread_s=1.0),
    Moment("serve", "phase", r"\] serve", billed=True, spread_s=1.0),
    Moment("serve", "phase", r"\] smoke", billed=True, spread_s=1.0),
    Moment("measure", "phase", r"\] measure", billed=True, spread_s=10.0),
    Moment("measure", "phase", r"\] stop", billed=True, spread_s=0.5),
    Moment("measure", "phase", r"\] collect", billed=True, spread_s=0.5),
    Moment("destroy", "phase", r"\] destroy", billed=True, spread_s=0.8),
    Moment("destroy", "request", "DELETE /v1/nodes", billed=True, spread_s=0.02),
    Moment("destroy", "meter", '"stop"', billed=False, spread_s=0.05),
    Moment("destroy", "ledger", '"kind":"settle"', billed=False, spread_s=0.5),
    Moment("destroy", "ledger", '"kind":"fence"', billed=False, spread_s=0.1),
    Moment("destroy", "ledger", '"kind":"sighting"', billed=False, spread_s=0.2),
    Moment("destroy", "ledger", '"kind":"close"', billed=False, spread_s=0.3),
)
RUNNER_ALONE = ('"kind":"fence"', '"kind":"sighting"', '"kind":"close"')
"""Written when the stack is destroyed: no engine is there any more."""


@dataclass(frozen=True)
class Round:
    """One kill, drawn whole from its seed, so that the round can be played again."""

    seed: str
    victim: str
    moment: Moment
    nodes: int
    layout: str
    gateway: str
    requests: int
    faults: tuple[Mapping[str, Any], ...]
    wait_s: float
    """Until the user acts, after a runner was killed."""
    resume: bool
    """The user goes on with the run, instead of ending it."""

    def recipe(self) -> str:
        wanted = {
            "name": "kill",
            "title": "a run that is killed",
            "budget_usd": 1,
            "lifetime_s": 900,
            "cluster": {
                "name": "kill", "cloud": "local", "gpu": "cpu", "stand_in": "cpu", "node_type": "cpu-2",
                "nodes": self.nodes, "gpus_per_node": 2, "max_usd_per_hour": float(USD_PER_HOUR),
            },
            "model": "smollm2",
            "engine": {"name": "llamacpp", "slots": 2, "context_tokens": 512},
            "workload": {"name": "tiny", "isl_tokens": 16, "osl_tokens": 8, "requests": self.requests},
            "sweep": [{"layout": [self.layout], "gateway": [self.gateway], "concurrency": [1]}],
            "repeats": 1,
        }  # fmt: skip
        return json.dumps(wanted, indent=1)  # JSON is YAML


def drawn(seed: int, number: int) -> Round:
    """Victims take turns, phases too; all else is left to chance."""
    rng = random.Random(f"{seed}/{number}")
    victim = VICTIMS[number % len(VICTIMS)]
    open_to = [
        m for m in MOMENTS if victim == "runner" or (m.phase in _ENGINE_PHASES and m.pattern not in RUNNER_ALONE)
    ]
    phases = sorted({m.phase for m in open_to})
    phase = phases[number // len(VICTIMS) % len(phases)]
    billed = rng.random() < CHOSEN_BILLED
    moment = rng.choice([m for m in open_to if m.phase == phase and m.billed in (billed, phase not in _ENGINE_PHASES)])
    nodes = rng.choice((1, 2, 2))
    layout = rng.choice(("DP1xTP1", "DP1xTP2") if nodes == 1 else ("DP2xTP1", "DP2xTP2"))
    several = moment.pattern[0] == '"' and nodes == 2
    return Round(
        seed=f"{seed}/{number}",
        victim=victim,
        moment=Moment(**asdict(moment) | {"nth": rng.choice((1, 2)) if several else 1,
                                          "delay_s": round(rng.uniform(0, moment.spread_s), 3)}),
        nodes=nodes,
        layout=layout,
        gateway=rng.choice(("none", "nginx")),
        requests=rng.choice((2, 4, 6)),
        faults=tuple(_faults(rng, nodes)),
        wait_s=rng.choice((0.0, 0.0, round(rng.uniform(0, 4), 1))),
        resume=rng.random() < 0.25,
    )  # fmt: skip


_ENGINE_PHASES = ("provision", "destroy")


def _faults(rng: random.Random, nodes: int) -> Iterator[Mapping[str, Any]]:
    """A cloud that takes its time, so that one node bills while the engine still works; and one that is contrary."""
    if rng.random() < 0.6:
        yield {"fault": "create_slow", "match": {"name": f"*-{nodes - 1}"}, "seconds": round(rng.uniform(0.3, 3), 1)}
    if rng.random() < 0.3:
        yield {"fault": rng.choice(("delete_refused", "throttled")), "times": rng.choice((1, 2))}
    if rng.random() < 0.2:
        yield {"fault": "create_timeout", "match": {"name": "*-0"}, "seconds": 0.3}


@dataclass
class Found:
    """What a round came to."""

    round: Round
    billed: bool = False
    killed_at: float = 0.0
    zero_s: float | None = None
    machines_left: int = 0
    processes_left: int = 0
    ports_left: int = 0
    codes: dict[str, int] = field(default_factory=dict)
    """Exit code by command."""
    faults: list[str] = field(default_factory=list)
    folder: str = ""


class Chain:
    """One round's home, and the processes that belong to it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        named = {key: value for key, value in os.environ.items() if not key.startswith("MEGATOK_HOME")}
        self.env = named | {"MEGATOK_HOME": str(home)}

    def start(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        """A command of ours; what it says goes to NAME.log."""
        begin = "import sys; from cli.main import main; sys.exit(main())"
        with (self.home / f"{name}.log").open("wb") as log:
            argv = [sys.executable, "-c", begin, *words]
            return subprocess.Popen(argv, cwd=ROOT, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def happened(self, moment: Moment) -> bool:
        with contextlib.suppress(FileNotFoundError):
            lines = (self.home / FILES[moment.file]).read_text(errors="replace").splitlines()
            return sum(bool(re.search(moment.pattern, line)) for line in lines) >= moment.nth
        return False

    def bills(self) -> dict[str, tuple[float, float | None]]:
        """When each node began and ended, by the meter."""
        times: dict[str, tuple[float, float | None]] = {}
        with contextlib.suppress(FileNotFoundError):
            for line in (self.home / FILES["meter"]).read_text().splitlines():
                event = json.loads(line)
                if event["event"] == "start":
                    times[event["id"]] = event["at"], None
                elif times[event["id"]][1] is None:
                    times[event["id"]] = times[event["id"]][0], event["at"]
        return times

    def running(self) -> int:
        return sum(end is None for _, end in self.bills().values())

    def nodes(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in self.home.glob("localcloud/nodes/*/node.json")]

    def cloud(self) -> int | None:
        """Process of the local cloud."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            pid: int = json.loads((self.home / "localcloud" / "endpoint.json").read_text())["pid"]
            return pid if "localcloud" in command_line(pid) else None
        return None

    def processes(self) -> list[int]:
        """Whatever names this home in its command line or environment, or works in it; but for the local cloud."""
        ours = os.getpid(), self.cloud()
        return [pid for pid in map(int, filter(str.isdigit, os.listdir(PROC))) if pid not in ours and self._owns(pid)]

    def _owns(self, pid: int) -> bool:
        mark = str(self.home).encode()
        folder = PROC / str(pid)
        with contextlib.suppress(OSError):
            if mark in (folder / "cmdline").read_bytes() or mark in (folder / "environ").read_bytes():
                return not (folder / "stat").read_text().rpartition(")")[2].startswith(" Z")
            links = [folder / "cwd", *(folder / "fd").iterdir()]
            return any(os.readlink(link).startswith(str(self.home)) for link in links)
        return False

    def ports(self) -> list[int]:
        """Open ports in the ranges of this home's nodes, less those that another local cloud has taken since."""
        claims = (PROC / "net" / "unix").read_text()
        mine = [node["ssh_port"] for node in self.nodes() if f"@localcloud-ports-{node['ssh_port']}\n" not in claims]
        return sorted(listening() & {port for first in mine if first for port in range(first, first + 25)})

    def end(self) -> None:
        """End the local cloud; also what should not be there any more."""
        if cloud := self.cloud():
            os.kill(cloud, signal.SIGTERM)
            wait_until(lambda: self.cloud() is None, 10)
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in self.processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            wait_until(lambda: not self.processes(), 5)


def listening() -> set[int]:
    tables = [(PROC / "net" / name).read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A"}


def command_line(pid: int) -> str:
    with contextlib.suppress(OSError):
        return (PROC / str(pid) / "cmdline").read_text(errors="replace").replace("\0", " ")
    return ""


def below(pid: int) -> Iterator[int]:
    """Processes under `pid`."""
    with contextlib.suppress(OSError):
        for thread in (PROC / str(pid) / "task").iterdir():
            for child in map(int, (thread / "children").read_text().split()):
                yield child
                yield from below(child)


def wait_until(true: Callable[[], bool], limit_s: float, pause_s: float = 0.05) -> bool:
    give_up_at = time.monotonic() + limit_s
    while not (found := true()) and time.monotonic() < give_up_at:
        time.sleep(pause_s)
    return found


def victim(kind: str, runner: int) -> int | None:
    """The process of that kind under the runner."""
    if kind == "runner":
        return runner
    wanted = {"engine": r"^\S*pulumi --non-interactive", "plug-in": r" -m infra\.provider\b"}[kind]
    return next((pid for pid in below(runner) if re.search(wanted, command_line(pid))), None)


def strike(chain: Chain, one: Round, runner: subprocess.Popen[bytes], found: Found) -> bool:
    """Kill the victim at its moment, or as soon as there is one after it; False where the run was faster."""
    if not wait_until(lambda: chain.happened(one.moment) or runner.poll() is not None, COMMANDS_WAIT_S, POLL_S):
        return False
    time.sleep(one.moment.delay_s)
    while runner.poll() is None:
        if pid := victim(one.victim, runner.pid):
            found.billed, found.killed_at = chain.running() > 0, time.time()
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                return True
        time.sleep(POLL_S)
    return False


def finished(chain: Chain, name: str, process: subprocess.Popen[bytes], found: Found) -> int:
    """Its exit code; one that hangs, or ends with a traceback, is a fault."""
    try:
        found.codes[name] = process.wait(COMMANDS_WAIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        found.codes[name] = process.wait()
        found.faults.append(f"{name} hangs")
    said = (chain.home / f"{name}.log").read_text(errors="replace")
    if "Traceback" in said or "unexpected" in said:
        found.faults.append(f"{name} ends with a traceback")
    return found.codes[name]


def settle(chain: Chain, one: Round, runner: subprocess.Popen[bytes], found: Found) -> None:
    """What a user does: wait for a runner that lives, then at most one `megatok down` or a new `run`."""
    if one.victim == "runner":
        runner.wait()
        time.sleep(one.wait_s)
        again = ("run", "--resume", RUN) if one.resume else ("down", RUN)
    elif finished(chain, "run", runner, found) == 7 or chain.running():
        again = "down", RUN
    else:
        return
    if finished(chain, again[0] + "-again", chain.start(again[0] + "-again", *again), found):
        found.faults.append(f"megatok {' '.join(again)} ends with exit code {found.codes[again[0] + '-again']}")


def judge(chain: Chain, found: Found) -> None:
    """What is left, by the meter and /proc; and whether receipt and money agree with the meter."""
    wait_until(lambda: not chain.processes(), LEAVE_S)
    bills = chain.bills()
    found.machines_left = max(chain.running(), sum(node["ended_at"] is None for node in chain.nodes()))
    left = chain.processes()
    found.processes_left, found.ports_left = len(left), len(chain.ports())
    found.faults += [f"process left: {pid} {command_line(pid)[:200]}" for pid in left]
    found.faults += [f"port left: {port}" for port in chain.ports()]
    found.faults += [f"{found.machines_left} machines left"] * (found.machines_left > 0)
    found.faults += [f"of the stack left: {path}" for path in chain.home.glob("state/.pulumi/*/**/*killed*")]
    if not found.machines_left and not found.round.resume:
        ends = [end for _, end in bills.values() if end is not None]
        found.zero_s = round(max(0.0, max(ends, default=0.0) - found.killed_at), 3)
    found.faults += _wrong_receipt(chain.home / "runs" / RUN / "receipt.json", bills)


def _wrong_receipt(path: Path, bills: Mapping[str, tuple[float, float | None]]) -> Iterator[str]:
    if not path.exists():
        yield "no receipt"
        return
    receipt = json.loads(path.read_text())
    if not receipt["proven"]:
        yield f"not proven: {receipt['unproven']}"
    if missing := bills.keys() - {line["resource"]["id"] for line in receipt["lines"]}:
        yield f"not in the receipt: {sorted(missing)}"
    seconds = sum(math.ceil(round((end or time.time()) - begin, 3)) for begin, end in bills.values())
    metered, step = USD_PER_HOUR * seconds / 3600, USD_PER_HOUR * BILLING_STEP_S / 3600
    if not metered <= Decimal(str(receipt["usd"])) <= metered + (step + Decimal("0.000001")) * len(bills):
        yield f"receipt says ${receipt['usd']}, the meter ${metered:.6f}"


def play(one: Round, into: Path) -> Found | None:
    """One round; None where nothing could be killed in time."""
    home = Path(tempfile.mkdtemp(prefix=f"kill-{one.seed.replace('/', '-')}-", dir=into))
    chain, found = Chain(home), Found(one, folder=str(home))
    (home / "localcloud").mkdir()
    (home / "localcloud" / "faults.json").write_text(json.dumps(one.faults))
    (home / "recipe.yaml").write_text(one.recipe())
    try:
        runner = chain.start("run", "run", str(home / "recipe.yaml"), "--id", RUN)
        struck = strike(chain, one, runner, found)
        settle(chain, one, runner, found)
        judge(chain, found)
    finally:
        chain.end()
    (home / "round.json").write_text(json.dumps(asdict(found), indent=1))
    if not found.faults:
        shutil.rmtree(home)
    return found if struck or found.faults else None


def told(done: list[Found], seconds: float) -> dict[str, Any]:
    """The figures of all rounds."""
    zero = [each.zero_s for each in done if each.zero_s is not None]
    return {
        "kills": len(done),
        "by_victim": {kind: sum(each.round.victim == kind for each in done) for kind in VICTIMS},
        "by_phase": {
            phase: sum(each.round.moment.phase == phase for each in done)
            for phase in dict.fromkeys(moment.phase for moment in MOMENTS)
        },
        "billed_share": round(sum(each.billed for each in done) / max(1, len(done)), 2),
        "machines_left": sum(each.machines_left for each in done),
        "processes_left": sum(each.processes_left for each in done),
        "ports_left": sum(each.ports_left for each in done),
        "failures": [
            {"seed": e.round.seed, "victim": e.round.victim, "why": e.faults, "folder": e.folder}
            for e in done if e.faults
        ],
        "seconds_to_zero_p50": round(statistics.median(zero), 2) if zero else None,
        "seconds_to_zero_max": round(max(zero), 2) if zero else None,
        "seconds": round(seconds, 1),
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=3, help="how many, victims in turns")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="play this one round, the N of the seed S/N, and keep its folder")
    parser.add_argument(
        "--into", type=Path, default=Path(tempfile.gettempdir()), help="where rounds have their folders"
    )
    asked = parser.parse_args()
    began, done, number = time.monotonic(), list[Found](), asked.only or 0
    while len(done) < (1 if asked.only is not None else asked.kills):
        one = drawn(asked.seed, number)
        found = play(one, asked.into.resolve())
        print(f"{one.seed} {one.victim} {one.moment.phase} {one.moment.pattern}+{one.moment.delay_s}s: "
              f"{_outcome(found)}", file=sys.stderr, flush=True)  # fmt: skip
        # A run that was faster than the kill is drawn again, for the same victim.
        number += 1 if found else len(VICTIMS) * asked.kills
        done += [found] if found else []
    print(json.dumps(told(done, time.monotonic() - began)))
    return int(any(each.faults for each in done))


def _outcome(found: Found | None) -> str:
    if found is None:
        return "over before the kill"
    state = "billed" if found.billed else "not billed"
    return f"{state}, {found.codes}, {found.zero_s} s to zero, {'; '.join(found.faults) or 'clean'}"


if __name__ == "__main__":
    sys.exit(main())
