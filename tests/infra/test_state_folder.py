"""Locks that a killed Pulumi has left: only the dead ones of this machine go."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from infra.engine.folder import StateFolder
from tests.infra.conftest import until

STACK = "s"


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    found = StateFolder.of(tmp_path.as_uri())
    assert found
    return found


def lock(folder: StateFolder, pid: int, host: str = "") -> Path:
    """As Pulumi writes it."""
    file = folder.path / "locks" / "organization" / "megatok" / STACK / f"{pid}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "pid": pid,
        "username": "me",
        "hostname": host or socket.gethostname(),
        "timestamp": "2026-11-30T00:00:00Z",
    }
    file.write_text(json.dumps(content))
    return file


@pytest.fixture
def dead() -> int:
    """Number of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_a_dead_process_of_this_machine_holds_nothing(folder: StateFolder, dead: int) -> None:
    file = lock(folder, dead)
    assert folder.unlock(STACK) == ()
    assert not file.exists()


def test_a_number_that_another_program_has_now_holds_nothing(folder: StateFolder) -> None:
    file = lock(folder, os.getpid())
    assert folder.unlock(STACK) == ()
    assert not file.exists()


def test_a_living_pulumi_keeps_its_lock(folder: StateFolder, tmp_path: Path) -> None:
    sleep = shutil.which("sleep")
    assert sleep
    engine = tmp_path / "pulumi"
    engine.symlink_to(sleep)
    with subprocess.Popen([engine, "60"]) as process:
        until(lambda: b"pulumi" in Path(f"/proc/{process.pid}/cmdline").read_bytes())  # empty for a moment
        file = lock(folder, process.pid)
        held = folder.unlock(STACK)
        process.kill()
    assert [one.pid for one in held] == [process.pid]
    assert file.exists()


def test_another_machine_is_asked_for_nothing(folder: StateFolder, dead: int) -> None:
    lock(folder, dead, "elsewhere")
    assert [one.host for one in folder.unlock(STACK)] == ["elsewhere"]


def test_a_lock_that_cannot_be_read_stays(folder: StateFolder, dead: int) -> None:
    file = lock(folder, dead)
    file.write_text("{")
    folder.unlock(STACK)
    assert file.exists()


def test_forgetting_one_stack_leaves_the_other(folder: StateFolder, dead: int) -> None:
    stacks = folder.path / "stacks" / "megatok"
    stacks.mkdir(parents=True)
    for name in ("s.json", "s.json.bak", "s2.json"):
        (stacks / name).touch()
    lock(folder, dead)
    folder.forget(STACK)
    assert folder.stacks() == ("s2",)
    assert not list(folder.path.glob("**/s.json*"))
    assert folder.locks(STACK) == ()


def test_a_bucket_is_no_folder() -> None:
    assert StateFolder.of("s3://bucket") is None
