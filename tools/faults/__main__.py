"""`make faults`: goes on where its last slice ended, and ends in one line of JSON."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from spec.home import ROOT
from tools.faults.case import play
from tools.faults.table import names
from tools.kill.slices import Line, Slice, cpu_s
from tools.kill.warm import Warm


def cases() -> Iterator[tuple[str, ...]]:
    """None, each alone, each pair."""
    yield ()
    yield from ((name,) for name in names())
    yield from itertools.combinations(names(), 2)


def main() -> int:
    asked = _asked()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    part, warm = Slice(asked.state or ROOT / "build" / "faults.jsonl", asked.jobs, asked.slice_s), Warm()
    played = {tuple(line["faults"]) for line in part.done}
    wanted = [case for case in cases() if case not in played and (not asked.only or set(asked.only) <= set(case))]

    def one(case: tuple[str, ...]) -> Line:
        with part.busy:
            line = play(case, asked.into.resolve(), warm)
        print(_outcome(line), file=sys.stderr, flush=True)
        return line

    part.play(iter(wanted[: asked.cases]), one, lambda: True)
    warm.end()
    figures = told(part.done) | {"seconds": part.seconds, "cpu_s": cpu_s()}
    print(json.dumps(figures))
    return int(bool(figures["failed"]))


def told(done: Sequence[Line]) -> dict[str, Any]:
    failed = [line for line in done if line["wrong"]]
    return {
        "cases": len(done),
        "of": len(list(cases())),
        "failed": [{"faults": line["faults"], "why": line["wrong"], "folder": line["folder"]} for line in failed],
        "machines_left": sum(line["machines_left"] for line in done),
        "usd_below": str(sum((Decimal(line["usd_below"]) for line in done), Decimal(0))),
        "usd_above_steps": max((line["usd_above_steps"] for line in done), default=0),
    }


def _outcome(line: Line) -> str:
    codes = " ".join(f"{name}={code}" for name, code in line["codes"])
    return f"{' + '.join(line['faults']) or 'no fault'}: {codes}; {'; '.join(line['wrong']) or 'clean'}"


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", help="cases with all of these faults")
    parser.add_argument("--cases", type=int, help="so many in this slice")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2, help="cases side by side")
    parser.add_argument("--slice-s", type=float, help="begin no case after so many seconds")
    parser.add_argument("--state", type=Path, help="one line a case; default build/faults.jsonl")
    parser.add_argument("--into", type=Path, default=Path(tempfile.gettempdir()), help="where cases have folders")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
