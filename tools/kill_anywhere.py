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
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from tools.kill import receipt
from tools.kill.chain import Chain, command_line, process_of, wait_until
from tools.kill.rounds import USD_PER_HOUR, VICTIMS, Round, drawn

COMMANDS_WAIT_S = 240.0
"""Longest that a runner may take to its end, or `megatok down`; else it hangs."""
LEAVE_S = 2.0
"""For the last processes to leave /proc after their parent has answered."""
POLL_S = 0.002
BILLING_STEP_S = 1


@dataclass
class Found:
    """What a round came to."""

    round: Round
    phase: str = ""
    """Where the kill fell."""
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


def strike(chain: Chain, one: Round, runner: subprocess.Popen[bytes], found: Found) -> bool:
    """Kill the victim at its moment, or as soon as there is one after it; False where the run was faster."""
    if not wait_until(lambda: chain.happened(one.moment) or runner.poll() is not None, COMMANDS_WAIT_S, POLL_S):
        return False
    time.sleep(one.moment.delay_s)
    while runner.poll() is None:
        if pid := process_of(one.victim, runner.pid):
            found.phase, found.billed, found.killed_at = chain.phase(), chain.running() > 0, time.time()
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
        again = ("run", "--resume", chain.run) if one.resume else ("down", chain.run)
    elif finished(chain, "run", runner, found) == 7 or chain.running():
        again = "down", chain.run
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
    found.faults += [f"left: {path}" for path in (*chain.stack_files(), *chain.disks())]
    if not found.machines_left and not found.round.resume:
        ends = [end for _, end in bills.values() if end is not None]
        found.zero_s = round(max(0.0, max(ends, default=0.0) - found.killed_at), 3)
    seconds = sum(math.ceil(round((end or time.time()) - begin, 3)) for begin, end in bills.values())
    metered, step = USD_PER_HOUR * seconds / 3600, USD_PER_HOUR * BILLING_STEP_S / 3600
    most_usd = metered + (step + Decimal("0.000001")) * len(bills)
    found.faults += receipt.faults(chain, bills, metered, most_usd)


def play(one: Round, into: Path, *, keep: bool) -> Found | None:
    """One round; None where nothing could be killed in time."""
    home = Path(tempfile.mkdtemp(prefix=f"kill-{one.seed.replace('/', '-')}-", dir=into))
    chain, found = Chain(home, f"kill-{one.seed.replace('/', '-')}-{os.getpid()}"), Found(one, folder=str(home))
    (home / "localcloud").mkdir()
    (home / "localcloud" / "faults.json").write_text(json.dumps(one.faults))
    (home / "recipe.yaml").write_text(one.recipe())
    try:
        runner = chain.start("run", "run", str(home / "recipe.yaml"), "--id", chain.run)
        struck = strike(chain, one, runner, found)
        settle(chain, one, runner, found)
        judge(chain, found)
    finally:
        chain.end()
    (home / "round.json").write_text(json.dumps(asdict(found), indent=1))
    if not (keep or found.faults):
        shutil.rmtree(home)
    return found if struck or found.faults else None


def told(done: list[Found], seconds: float) -> dict[str, Any]:
    """The figures of all rounds."""
    zero = [each.zero_s for each in done if each.zero_s is not None]
    return {
        "kills": len(done),
        "by_victim": dict(Counter(each.round.victim for each in done)),
        "by_phase": dict(Counter(each.phase for each in done)),
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
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # as on Ctrl-C, the round that is on is ended
    began, done, number = time.monotonic(), list[Found](), asked.only or 0
    while len(done) < (1 if asked.only is not None else asked.kills):
        one = drawn(asked.seed, number)
        found = play(one, asked.into.resolve(), keep=asked.only is not None)
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
    wrong = "; ".join(found.faults) or "clean"
    return f"killed in {found.phase}, {state}, {found.codes}, {found.zero_s} s to zero, {wrong}"


if __name__ == "__main__":
    sys.exit(main())
