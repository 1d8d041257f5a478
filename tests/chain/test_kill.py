"""One kill of each of runner, engine and plug-in while a node bills; `make kill KILLS=30 SEED=n` does it at length."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from spec.home import ROOT

SEED = "120"
"""Its first three kills fall into `provision`: the shortest rounds."""


@pytest.mark.timeout(400)
def test_whoever_is_killed_nothing_is_left(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tools.kill_anywhere", "--kills", "3", "--seed", SEED, "--into", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    assert found["failures"] == []
    assert found["by_victim"] == {"runner": 1, "engine": 1, "plug-in": 1}
    assert done.returncode == found["machines_left"] == found["processes_left"] == found["ports_left"] == 0
