"""Set-up on a machine where it may not install: one line to type, exit code 10, nothing changed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
UNFIT = 10


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A PATH of one folder: a shell, a user who is not root, and who may not become it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "bash").symlink_to(shutil.which("bash") or "/bin/bash")
    _program(folder / "id", "echo 1000")
    _program(folder / "sudo", "exit 1")
    return folder


def _program(file: Path, script: str) -> None:
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def _install(programs: Path) -> tuple[int, str]:
    command = [str(ROOT / "tools" / "system-packages"), "nginx", "openssh-server"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env={"PATH": str(programs)})
    return done.returncode, done.stdout + done.stderr


def test_without_rights_it_prints_the_line_to_type(programs: Path) -> None:
    _program(programs / "apt-get", "echo called")
    code, said = _install(programs)
    assert code == UNFIT
    assert said == (
        "missing: nginx openssh-server; type:  sudo apt-get install -y --no-install-recommends nginx openssh-server\n"
    )


def test_on_a_system_without_apt_it_names_what_is_missing(programs: Path) -> None:
    code, said = _install(programs)
    assert code == UNFIT
    assert said.startswith("missing: nginx openssh-server; install them")
