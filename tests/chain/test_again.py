"""A run that meets an earlier one, a stack that a dead run left, and a disk that is full."""

from __future__ import annotations

import contextlib
import json
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from spec import schemas
from spec.receipt import Receipt
from spec.record import RunDocument
from tests.chain.rig import CELL, Aftermath, Runner, fault, megatok, recipe

pytestmark = pytest.mark.timeout(400)


def test_run_is_started_twice_at_once_and_once_more_when_finished(
    aftermath: Aftermath, tmp_path: Path, run_id: str
) -> None:
    small = recipe(tmp_path)
    first = Runner("run", small, "--id", run_id, "--json")
    first.said("prepare")
    for words in (("run", small, "--id", run_id), ("run", "--resume", run_id), ("up", small, "--id", run_id)):
        second = megatok(*words)
        assert second.rc == 2
        assert second.complaint() in (
            f"run {run_id} exists already; go on with --resume {run_id}, or take another id",
            f"process {first.process.pid} works on run {run_id}; wait, or: megatok stop {run_id}",
        )
    done = first.end()
    assert done.rc == 0
    jsonschema.validate(json.loads(done.out), schemas.schema("run"))
    before = aftermath.document(run_id)
    assert RunDocument.model_validate_json(done.out) == before
    assert [str(record.cell) for record in before.cells if record.valid] == [CELL]
    finished = megatok("run", "--resume", run_id, "--json")
    assert finished.rc == 0
    assert RunDocument.model_validate_json(finished.out) == before
    assert f"run {run_id} is finished already" in finished.err
    assert megatok("run", small, "--id", run_id).rc == 2
    aftermath.nothing(run_id, nodes=1)


def test_stopped_from_another_terminal_and_resumed(aftermath: Aftermath, tmp_path: Path, run_id: str) -> None:
    runner = Runner("run", recipe(tmp_path), "--id", run_id)
    runner.said("serve dp1")
    stopped = megatok("stop", run_id, "--json")
    assert stopped.rc == 0
    assert Receipt.model_validate_json(json.dumps(json.loads(stopped.out)["data"])).proven
    assert runner.end().rc == 8
    aftermath.nothing(run_id, nodes=1)
    resumed = megatok("run", "--resume", run_id)
    assert resumed.rc == 0, resumed.err
    assert [str(record.cell) for record in aftermath.document(run_id).cells if record.valid] == [CELL]
    aftermath.nothing(run_id, nodes=2)


def test_all_but_the_cloud_s_tags_is_lost(aftermath: Aftermath, tmp_path: Path, run_id: str) -> None:
    assert megatok("up", recipe(tmp_path), "--id", run_id).rc == 0
    for lost in ("ledger", "state", "runs"):
        shutil.rmtree(aftermath.home / lost)
    assert run_id in megatok("status").out
    down = megatok("down", run_id, "--json")
    assert down.rc == 0
    assert Receipt.model_validate_json(json.dumps(json.loads(down.out)["data"])).proven
    assert list(aftermath.bills().values()) == [False]
    assert megatok("status").out.strip() == "nothing stands"
    assert megatok("down", "never-was").rc == 2


def test_stack_that_is_locked_and_whose_passphrase_is_lost(aftermath: Aftermath, tmp_path: Path, run_id: str) -> None:
    """A dead run's lock is no hindrance; a live one's and a lost passphrase are told; teardown needs neither."""
    up = ("up", recipe(tmp_path), "--id", run_id)
    assert megatok(*up).rc == 0
    lock(aftermath.home, run_id, pid=dead_pid())
    assert megatok(*up).rc == 0
    assert len(aftermath.bills()) == 1

    with engine_at_work() as pid:
        lock(aftermath.home, run_id, pid=pid)
        locked = megatok(*up)
        assert locked.rc == 2
        assert f"stack {run_id} is being changed by process {pid} of " in locked.complaint()
        assert "wait for it, or stop it" in locked.complaint()

        (aftermath.home / "passphrase").write_text("another one")
        wrong = megatok(*up)
        assert wrong.rc == 2
        assert f"the passphrase is not the one that stack {run_id} was made with" in wrong.complaint()
        assert f"megatok down {run_id}" in wrong.complaint()
        down = megatok("down", run_id)
    assert down.rc == 0, down.err
    assert "all proven gone" in down.out
    aftermath.nothing(run_id, nodes=1)


def test_disk_is_full_while_results_and_reports_are_written(aftermath: Aftermath, tmp_path: Path, run_id: str) -> None:
    disk = aftermath.home / "runs"
    with small_disk(disk):
        runner = Runner("run", recipe(tmp_path), "--id", run_id, "--json")
        runner.said("measure cell 1")
        fill(disk)
        done = runner.end()
    assert done.rc == 1
    assert "cannot write the report" in done.err
    assert "No space left on device" in done.complaint()
    document = RunDocument.model_validate_json(done.out)
    assert document.exit_code == 1
    assert document.receipt and document.receipt.proven
    assert list(aftermath.bills().values()) == [False]
    assert not aftermath.processes()


@pytest.mark.slow  # Pulumi tries for half a minute to write its state; tests/infra/test_teardown.py has the quick one
def test_ledger_cannot_be_written_any_more(aftermath: Aftermath, tmp_path: Path, run_id: str) -> None:
    """Nodes go all the same; that is proven once there is room again."""
    fault("host_key_changed")
    runner = Runner("run", recipe(tmp_path), "--id", run_id)
    runner.said("prepare")
    full = (aftermath.home / "ledger" / "ledger.jsonl").stat().st_size
    resource.prlimit(runner.process.pid, resource.RLIMIT_FSIZE, (full, full))
    done = runner.end()
    assert done.rc == 7
    assert "cannot take a line: File too large" in done.complaint()
    assert f"megatok down {run_id} goes on" in done.complaint()
    assert list(aftermath.bills().values()) == [False]
    down = megatok("down", run_id)
    assert down.rc == 0, down.err
    aftermath.nothing(run_id, nodes=1)


def lock(home: Path, stack: str, *, pid: int) -> None:
    """As Pulumi writes one."""
    folder = home / "state" / ".pulumi" / "locks" / "organization" / "megatok" / stack
    folder.mkdir(parents=True, exist_ok=True)
    told = {"pid": pid, "username": "root", "hostname": socket.gethostname(), "timestamp": "2030-01-01T00:00:00Z"}
    (folder / "0123.json").write_text(json.dumps(told))


def dead_pid() -> int:
    with subprocess.Popen(["true"]) as process:
        process.wait()
        return process.pid


@contextlib.contextmanager
def engine_at_work() -> Iterator[int]:
    """A process that looks like an engine."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)", "pulumi"]) as process:
        try:
            yield process.pid
        finally:
            process.kill()


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    folder.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "none", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root may mount a small disk")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path) -> Path:
    """Until not one byte more goes in."""
    path = disk / "filler"
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    with contextlib.suppress(OSError), path.open("ab", buffering=0) as file:
        while True:
            file.write(b"x")
    return path
