"""40 kills at random moments of `megatok up` and of what follows; `make chaos KILLS=1000 SEED=n` does it at length."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from localcloud.faults import FAULTS
from spec.home import ROOT
from tools.chaos.draw import drawn
from tools.faults.table import names

SEED = "7"


@pytest.mark.timeout(900)
def test_nothing_is_left_and_nothing_over_the_budget(tmp_path: Path) -> None:
    where = ("--into", str(tmp_path), "--state", str(tmp_path / "chaos.jsonl"))
    command = [sys.executable, "-m", "tools.chaos", "--kills", "40", "--seed", SEED, "--jobs", "2", *where]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    assert found["failures"] == []
    assert found["kills"] >= 40
    assert (done.returncode, found["machines_left"], found["usd_over"]) == (0, 0, "0")


def test_a_seed_replays() -> None:
    assert [drawn(1, number) for number in range(50)] == [drawn(1, number) for number in range(50)]
    assert drawn(1, 0) != drawn(2, 0)


def test_a_fifth_of_rounds_has_a_tight_budget() -> None:
    assert 0.15 < sum(drawn(1, number).tight for number in range(500)) / 500 < 0.25


def test_every_fault_of_the_cloud_is_tried() -> None:
    assert set(names()) == FAULTS.keys()
