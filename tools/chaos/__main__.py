"""`make chaos KILLS=1000 SEED=1`: goes on where the seed's last slice ended, and ends in one line of JSON.

Truth is the local cloud's own meter and /proc. Linux only.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from spec.home import ROOT
from tools.chaos.draw import drawn
from tools.chaos.play import Play
from tools.chaos.tally import outcome, told
from tools.kill.slices import Line, Slice, cpu_s
from tools.kill.warm import Warm


def main() -> int:
    asked = _asked()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    part = Slice(asked.state or ROOT / "build" / f"chaos-{asked.seed}.jsonl", asked.jobs, asked.slice_s)
    before, warm = kills(part), Warm()

    def one(number: int) -> Line:
        play = Play(drawn(asked.seed, number), number, asked.into.resolve(), warm)
        line = asdict(play.play(part.busy, keep=asked.keep))
        print(outcome(line), file=sys.stderr, flush=True)
        return line

    played = {line["round"] for line in part.done}
    numbers = (number for number in itertools.count(asked.first) if number not in played)
    part.play(numbers, one, lambda: kills(part) < asked.kills)
    warm.end()
    now = {"kills": kills(part) - before, "seconds": part.seconds, "cpu_s": cpu_s()}
    figures = told(part.done) | {"slice": now}
    print(json.dumps(figures))
    return int(bool(figures["failures"]))


def kills(part: Slice) -> int:
    return sum(len(line["kills"]) for line in part.done)


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


if __name__ == "__main__":
    sys.exit(main())
