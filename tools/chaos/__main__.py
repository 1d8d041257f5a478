"""`make chaos KILLS=1000 SEED=1`: goes on where the seed's last slice ended, and ends in one line of JSON.

Truth is the local cloud's own meter and /proc. Linux only.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from spec.home import ROOT
from tools.chaos.draw import drawn
from tools.chaos.play import Found, Play
from tools.chaos.tally import told
from tools.kill.warm import Warm

ASIDE = 12
"""Rounds that may wait for lifetimes beside those at work."""


@dataclass
class Slice:
    """Rounds of one seed that are played now, after those of earlier slices."""

    asked: argparse.Namespace
    state: Path
    warm: Warm
    done: list[dict[str, Any]]

    def kills(self) -> int:
        return sum(len(each["kills"]) for each in self.done)

    def numbers(self) -> Iterator[int]:
        played = {each["round"] for each in self.done}
        return (number for number in itertools.count(self.asked.first) if number not in played)

    def play(self) -> None:
        """JOBS rounds at work at once, until there are enough kills or the time is over; what has begun is ended."""
        busy, numbers = threading.Semaphore(self.asked.jobs), self.numbers()
        ends_at = time.monotonic() + (self.asked.slice_s or float("inf"))
        with ThreadPoolExecutor(self.asked.jobs + ASIDE) as pool:
            going: set[Future[Found]] = set()
            while going or self._more(ends_at):
                while self._more(ends_at) and self._free(busy) and len(going) < self.asked.jobs + ASIDE:
                    going.add(pool.submit(self._one, next(numbers), busy))
                    time.sleep(0.2)
                ended, going = wait(going, timeout=0.2, return_when=FIRST_COMPLETED)
                for each in ended:
                    self._keep(each.result())

    def _more(self, ends_at: float) -> bool:
        return self.kills() < self.asked.kills and time.monotonic() < ends_at

    def _free(self, busy: threading.Semaphore) -> bool:
        if free := busy.acquire(blocking=False):
            busy.release()
        return free

    def _one(self, number: int, busy: threading.Semaphore) -> Found:
        one = drawn(self.asked.seed, number)
        return Play(one, number, self.asked.into.resolve(), self.warm).play(busy, keep=self.asked.keep)

    def _keep(self, found: Found) -> None:
        line = asdict(found)
        with self.state.open("a") as file:
            file.write(json.dumps(line) + "\n")
        self.done.append(json.loads(json.dumps(line)))
        where = ", ".join(f"{'+'.join(kill.victims)} at {kill.where} {kill.nth}" for kill in found.kills) or "no kill"
        print(
            f"{found.seed} {found.nodes} nodes: {where}; {found.recovery} {found.codes}; {found.seconds} s: "
            f"{'; '.join(found.faults) or 'clean'}",
            file=sys.stderr,
            flush=True,
        )


def main() -> int:
    asked = _asked()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    state = asked.state or ROOT / "build" / f"chaos-{asked.seed}.jsonl"
    state.parent.mkdir(parents=True, exist_ok=True)
    lines = state.read_text().splitlines() if state.exists() else []
    began, part = time.monotonic(), Slice(asked, state, Warm(), [json.loads(line) for line in lines])
    before = part.kills()
    part.play()
    part.warm.end()
    figures = told(part.done) | {
        "slice": {
            "kills": part.kills() - before,
            "seconds": round(time.monotonic() - began, 1),
            "cpu_s": round(_cpu_s(), 1),
        }
    }
    print(json.dumps(figures))
    return int(bool(figures["failures"]))


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=40, help="of all slices of this seed together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first round to play")
    parser.add_argument("--cloud", choices=["local"], default="local")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2, help="rounds side by side")
    parser.add_argument("--slice-s", type=float, help="begin no round after so many seconds")
    parser.add_argument("--state", type=Path, help="one line a round; default build/chaos-SEED.jsonl")
    parser.add_argument("--keep", action="store_true", help="keep the folders of all rounds, not only of bad ones")
    parser.add_argument("--into", type=Path, default=Path(tempfile.gettempdir()), help="where rounds have folders")
    return parser.parse_args()


def _cpu_s() -> float:
    """Of this process and of all that it started: it adopts, and so waits for, what killed commands leave."""
    uses = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in uses)


if __name__ == "__main__":
    sys.exit(main())
