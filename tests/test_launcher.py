"""`megatok` starts from any folder, and takes its own rooms whatever else is called so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_the_launcher_works_from_another_folder_that_has_rooms_of_its_own(tmp_path: Path) -> None:
    decoy = tmp_path / "a folder"
    for room in ("cli", "spec"):
        (decoy / room).mkdir(parents=True)
        (decoy / room / "__init__.py").write_text("raise SystemExit('the wrong rooms')")
    launcher = decoy / "megatok"
    subprocess.run([ROOT / "tools" / "launcher", launcher, sys.executable], check=True, cwd=decoy)
    done = subprocess.run([launcher, "--version"], check=False, cwd=decoy, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("megatok")
