"""`make bench-up`: 64 local nodes whose cloud needs 5 s for each create. Ends in one line of JSON."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from infra import stack
from infra.clouds.local.program import call
from money.ledger import Ledger
from spec.home import ROOT, ledger_address

NODES = 64
CREATE_S = 5.0
ALLOWED_S = 15.0
RUN = "bench-up"


def main() -> int:
    home = Path(tempfile.mkdtemp(prefix="megatok-bench-"))
    os.environ["MEGATOK_HOME"] = str(home)
    try:
        figures = measure()
    finally:
        stack.destroy(RUN)
        stack.forget(RUN)
        shutil.rmtree(home, ignore_errors=True)
    print(json.dumps(figures))
    return 0 if figures["ratio"] <= 1 and not figures["running_after"] else 1


def measure() -> dict[str, float]:
    """Seconds of each step, and what the cloud's own meter says after the last one."""
    call("POST", "/v1/faults", body={"fault": "create_slow", "times": None, "seconds": CREATE_S})
    settings = stack.StackSettings(
        run=RUN,
        recipe=ROOT / "recipes" / "clusters" / "local-64.yaml",
        budget_usd=Decimal(10),
        lifetime_s=600,
        ledger=ledger_address(),
    )
    up_s = timed("up", lambda: stack.up(settings))
    again_s = timed("up, unchanged", lambda: stack.up(settings))
    destroy_s = timed("destroy", lambda: stack.destroy(RUN))
    running = call("GET", "/v1/bill")["running"]
    events = len(Ledger(ledger_address()).events(RUN))
    return {
        "nodes": NODES,
        "create_s": CREATE_S,
        "up_s": up_s,
        "allowed_s": ALLOWED_S,
        "ratio": round(up_s / ALLOWED_S, 3),
        "unchanged_s": again_s,
        "destroy_s": destroy_s,
        "running_after": running,
        "ledger_events": events,
    }


def timed(name: str, step: Callable[[], object]) -> float:
    began = time.monotonic()
    step()
    seconds = round(time.monotonic() - began, 2)
    print(f"{name}: {seconds} s", file=sys.stderr, flush=True)
    return seconds


if __name__ == "__main__":
    sys.exit(main())
