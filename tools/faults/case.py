"""One case: `megatok up`, where it shows there `megatok gate`, and `megatok down` under some faults."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from tools.chaos.cloud import CloudSide
from tools.chaos.draw import USD_PER_HOUR, recipe
from tools.faults.table import DONE, LIFETIME_S, TABLE, Fault
from tools.kill.chain import Chain, command_line, wait_until
from tools.kill.hands import Hands
from tools.kill.slices import Line
from tools.kill.warm import Warm

NODES = 3
BUDGET_USD = Decimal(1)

NODE_TYPE = "cpu-1"
DOWNS = 2
"""A teardown that could not ask says 7, and the next one goes on."""
LEAVE_S = 5.0
STEP_USD = USD_PER_HOUR / 3600
MICRO_USD = Decimal("0.000001")
"""Each line of a bill is rounded up to it."""


def play(names: tuple[str, ...], into: Path, warm: Warm) -> Line:
    home = Path(tempfile.mkdtemp(prefix="faults-", dir=into))
    chain, cloud = Chain(home, f"faults-{home.name[-8:].lower().replace('_', 'x')}"), CloudSide(home)
    hands, faults = Hands(chain, warm), [TABLE[name] for name in names]
    cloud.begin([{"fault": name, **TABLE[name].rule} for name in names])
    lifetime_s = min((each.lifetime_s for each in faults), default=LIFETIME_S)
    node_type = max((each.node_type for each in faults), default="") or NODE_TYPE
    hands.recipe.write_text(recipe(NODES, lifetime_s, BUDGET_USD, node_type))
    wrong: list[str] = []
    try:
        wrong += _commands(hands, faults)
        wait_until(lambda: not chain.processes(), LEAVE_S)
        bill, ours = cloud.bill(), _receipt(home / "runs" / chain.run / "receipt.json")
        below, above = _compared(ours, bill)
        wrong += _judged(chain, bill, below, above)
    finally:
        chain.end()
    with contextlib.suppress(FileNotFoundError):
        for path in chain.stack_files():
            shutil.move(path, home / path.name)
    wrong += hands.faults
    if not wrong:
        shutil.rmtree(home)
    return {
        "faults": names, "codes": hands.codes, "wrong": wrong, "machines_left": bill["running"],
        "usd_below": str(below), "usd_above_steps": above, "folder": str(home),
    }  # fmt: skip


def _commands(hands: Hands, faults: list[Fault]) -> Iterator[str]:
    """What is wrong with their exit codes; a pair may end as either of the two does."""
    allowed = DONE.union(*(each.up for each in faults)) if len(faults) != 1 else faults[0].up
    if (code := hands.done("up")) not in allowed:
        yield f"up ends with exit code {code}, not one of {sorted(allowed)}"
    gates = [each.gate for each in faults if each.gate is not None]
    if code == 0 and gates and (gate := hands.done("gate")) not in frozenset().union(*gates):
        yield f"gate ends with exit code {gate}, not one of {sorted(frozenset().union(*gates))}"
    if code := hands.until_proven("down", DOWNS):
        yield f"down ends with exit code {code}"


def _receipt(path: Path) -> Decimal | None:
    return Decimal(str(json.loads(path.read_text())["usd"])) if path.exists() else None


def _compared(ours: Decimal | None, bill: Mapping[str, Any]) -> tuple[Decimal, float]:
    """Dollars by which our total is below the meter's, and billing steps of a node by which it is above."""
    metered = Decimal(bill["usd"])
    below = max(Decimal(0), metered - (ours or Decimal(0)))
    more = max(Decimal(0), (ours or Decimal(0)) - metered - MICRO_USD * len(bill["lines"]))
    return below, round(float(more / STEP_USD), 2)


def _judged(chain: Chain, bill: Mapping[str, Any], below: Decimal, above: float) -> Iterator[str]:
    if bill["running"]:
        yield f"{bill['running']} machines left"
    if below:
        yield f"our total is ${below} below the meter's ${bill['usd']}"
    if above > len(bill["lines"]):
        yield f"our total is {above} billing steps above the meter's, with {len(bill['lines'])} nodes"
    for pid in chain.processes():
        yield f"process left: {pid} {command_line(pid)[:200]}"
