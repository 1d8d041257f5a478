"""Two runs against money for one: exactly one of them gets it, however they race."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from money.budget import reserve
from money.ledger import Ledger
from money.limits import set_limits
from spec.errors import OverBudget

ROOT = Path(__file__).resolve().parents[2]
TRIES = 50
ONE, TWO = Decimal(1), Decimal("1.5")
"""What a run needs, and what there is."""


def start(ledger: Ledger, run: str, token: str, owner: str, budget_usd: Decimal) -> bool:
    """Open the run and set its worst case aside; whether it may create."""
    epoch = ledger.open(run, budget_usd, owner=owner)
    try:
        reserve(ledger, run, epoch, token, ONE, datetime.now(UTC) + timedelta(hours=1))
    except OverBudget:
        return False
    return True


def race(address: str, *starts: Callable[[Ledger], bool]) -> int:
    """How many of them got money; each has a handle of its own, and all begin at once."""
    barrier = threading.Barrier(len(starts))

    def run(one: Callable[[Ledger], bool]) -> bool:
        ledger = Ledger(address)
        ledger.events()
        barrier.wait()
        return one(ledger)

    with ThreadPoolExecutor(len(starts)) as pool:
        return sum(pool.map(run, starts))


@pytest.fixture
def places(address: str) -> list[str]:
    """A ledger for each try: reading what earlier tries wrote would take most of the time."""
    return [f"{address}/{number}" for number in range(TRIES)]


def test_two_runs_of_one_owner_and_a_day_for_one(places: list[str]) -> None:
    for place in places:
        set_limits(Ledger(place), "me", TWO, None)
        starts = [lambda ledger, run=run: start(ledger, run, f"{run}-0-a1", "me", Decimal(9)) for run in ("a", "b")]
        assert race(place, *starts) == 1


def test_two_plug_ins_of_one_run_and_a_budget_for_one(places: list[str]) -> None:
    for place in places:
        starts = [lambda ledger, token=f"r-{index}-a1": start(ledger, "r", token, "me", TWO) for index in range(2)]
        assert race(place, *starts) == 1


PROCESS = """
import sys
from tests.money.test_two_at_once import Decimal, Ledger, start

name, address, tries = sys.argv[1], sys.argv[2], int(sys.argv[3])
ledger = Ledger(address)
for number in range(tries):
    print("ready", flush=True)
    sys.stdin.readline()
    run = f"{name}-{number}"
    print(int(start(ledger, run, f"{run}-0-a1", f"owner-{number}", Decimal(9))), flush=True)
"""


def test_two_processes_and_a_day_for_one(address: str) -> None:
    tries = 10
    for number in range(tries):
        set_limits(Ledger(address), f"owner-{number}", TWO, None)
    runners = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, name, address, str(tries)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "ab"
    ]
    for _ in range(tries):
        for runner in runners:
            assert runner.stdout and runner.stdout.readline() == "ready\n"
        for runner in runners:
            assert runner.stdin
            runner.stdin.write("\n")
            runner.stdin.flush()
        assert sorted(runner.stdout.readline() for runner in runners if runner.stdout) == ["0\n", "1\n"]
    assert [runner.communicate(timeout=30) and runner.returncode for runner in runners] == [0, 0]
