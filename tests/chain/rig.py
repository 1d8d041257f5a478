"""The command line as a process of its own, and witnesses of what it leaves: the cloud's meter, /proc, the receipt."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

from infra.clouds.local.program import call
from infra.provider.group import NodeGroups
from spec.home import ROOT, cache, ledger_address
from spec.receipt import Receipt
from spec.record import RunDocument

T = TypeVar("T")

WAIT_S = 120.0
"""For one step of a run on two busy cores."""
END_S = 200.0
SHELL = 'exec "$0" "$@" <>"$TTY" >&0 2>&0'
"""A session's leader gets the first terminal that it opens; Ctrl-C there reaches its process group."""
HIDE = 'mount --bind /dev/null "$0" && exec "$@"'

SMALL = """\
name: small
title: "One cell"
budget_usd: 0.10
lifetime_s: 600
cluster:
  name: one
  cloud: local
  gpu: cpu
  stand_in: cpu
  node_type: cpu-1
  nodes: 1
  gpus_per_node: 1
  max_usd_per_hour: 0.10
model: smollm2
engine: {name: llamacpp, slots: 2, context_tokens: 256}
workload: {name: tiny, isl_tokens: 32, osl_tokens: 8, requests: 3}
smoke_floor_share: 0.001
sweep:
  - {layout: [DP1xTP1], gateway: [none], concurrency: [1]}
"""
"""A campaign of one cell on the smallest node: its run takes 20 s, and half of that where no cell is reached."""
CELL = "DP1xTP1-none-c1-r1"


def recipe(folder: Path, *changes: tuple[str, str]) -> Path:
    """SMALL as a file, with parts of its text replaced."""
    text = SMALL
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    path = folder / "small.yaml"
    path.write_text(text)
    return path


def until(true: Callable[[], T], limit_s: float = WAIT_S) -> T:
    """The first answer of `true` that holds."""
    give_up_at = time.monotonic() + limit_s
    while time.monotonic() < give_up_at:
        if found := true():
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {limit_s} s")


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    rc: int
    out: str
    err: str

    def complaint(self) -> str:
        """Its one message: the last thing on standard error, and no traceback anywhere."""
        assert "Traceback" not in self.out + self.err, self.err
        head, mark, message = self.err.rpartition("\nmegatok: ")
        assert mark or self.err.startswith("megatok: "), self.err
        assert "\nmegatok: " not in head, self.err
        return (message if mark else self.err.removeprefix("megatok: ")).strip()


class Runner:
    """`megatok` at work: its standard error as it comes, and its end."""

    def __init__(
        self,
        *words: str | Path,
        terminal: bool = False,
        env: Mapping[str, str] | None = None,
        hidden: Path | None = None,
    ) -> None:
        """`hidden`: a program that is not there for this process and all that it starts."""
        argv = [sys.executable, "-c", "from cli.main import main; raise SystemExit(main())", *map(str, words)]
        if hidden:
            argv = ["unshare", "-m", "sh", "-c", HIDE, str(hidden), *argv]
        whole = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
        self._lines: list[str] = []
        self._keys = -1
        self._deaf = threading.Event()
        self._err = -1
        self._out: IO[bytes] | None = None
        if terminal:
            self._open_terminal(argv, whole)
        else:
            self._err, far = os.pipe()
            self.process = subprocess.Popen(
                argv,
                env=whole,
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=far,
            )
            os.close(far)
            self._out = self.process.stdout
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _open_terminal(self, argv: list[str], env: dict[str, str]) -> None:
        self._keys, far = pty.openpty()
        nothing = subprocess.DEVNULL
        self.process = subprocess.Popen(
            ["sh", "-c", SHELL, *argv],
            env={**env, "TTY": os.ttyname(far)},
            start_new_session=True,
            stdin=nothing,
            stdout=nothing,
            stderr=nothing,
        )
        until(lambda: terminal_is_taken(self.process.pid))
        os.close(far)
        self._err = os.dup(self._keys)

    def hang_up(self) -> None:
        """Close the terminal's window."""
        self.stop_reading()
        os.close(self._keys)
        self._keys = -1

    def stop_reading(self) -> None:
        """Its next line of progress meets a broken pipe."""
        self._deaf.set()
        self._reader.join()

    def said(self, pattern: str, limit_s: float = WAIT_S) -> str:
        """The first line so far, or soon, that matches."""
        return until(lambda: self._found(pattern) or self._over(pattern), limit_s)

    def press_ctrl_c(self) -> None:
        os.write(self._keys, b"\x03")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self, limit_s: float = END_S) -> Done:
        """Wait until it has ended by itself."""
        out = self._out.read().decode() if self._out else ""
        rc = self.process.wait(limit_s)
        self._reader.join(10)
        if self._out:
            self._out.close()
        if self._keys >= 0:
            os.close(self._keys)
        return Done(rc, out, "\n".join(self._lines) + "\n")

    def _found(self, pattern: str) -> str:
        return next((line for line in self._lines if re.search(pattern, line)), "")

    def _over(self, pattern: str) -> str:
        if self.process.poll() is not None and not self._found(pattern):
            time.sleep(0.2)
            assert self._found(pattern), f"ended without saying {pattern!r}: {self._lines}"
        return ""

    def _read(self) -> None:
        half = b""
        while not self._deaf.is_set():
            if not select.select([self._err], [], [], 0.1)[0]:
                continue
            try:
                data = os.read(self._err, 1 << 16)
            except OSError:
                break  # a terminal that nobody holds any more
            if not data:
                break
            *lines, half = (half + data).split(b"\n")
            self._lines += [line.decode(errors="replace").rstrip() for line in lines]
        os.close(self._err)


def terminal_is_taken(pid: int) -> bool:
    """Whether this process has a controlling terminal."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[4] != "0"


def megatok(*words: str | Path, env: Mapping[str, str] | None = None, hidden: Path | None = None) -> Done:
    """Run the command line to its end."""
    return Runner(*words, env=env, hidden=hidden).end()


@dataclass(frozen=True)
class Aftermath:
    """What is left of the runs of one MEGATOK_HOME."""

    home: Path

    def bills(self) -> dict[str, bool]:
        """Nodes that were ever up, by id, and whether the meter still counts: the cloud's word, not our ledger's."""
        meter = self.home / "localcloud" / "meter.jsonl"
        lines = [json.loads(line) for line in meter.read_text().splitlines()] if meter.exists() else []
        stopped = {line["id"] for line in lines if line["event"] == "stop"}
        return {line["id"]: line["id"] not in stopped for line in lines if line["event"] == "start"}

    def pids(self) -> list[int]:
        """All that carries this home, also the cloud."""
        return [int(line.split()[0]) for line in self._carriers()]

    def processes(self) -> list[str]:
        """Numbers and command lines of all of it but the cloud, which ends when it is idle."""
        return [line for line in self._carriers() if " -m localcloud --home" not in line]

    def _carriers(self) -> list[str]:
        found = []
        for entry in Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                carried = words + (entry / "environ").read_bytes().decode(errors="replace")
            except (OSError, NotADirectoryError):
                continue
            if entry.name.isdigit() and str(self.home) in carried:
                found.append(f"{entry.name} {words}")
        return found

    def document(self, run: str) -> RunDocument:
        return RunDocument.model_validate_json((self.home / "runs" / run / "document.json").read_text())

    def receipt(self, run: str) -> Receipt:
        return Receipt.model_validate_json((self.home / "runs" / run / "receipt.json").read_text())

    def nothing(self, run: str, *, nodes: int | None = None) -> None:
        """Nothing runs, nothing is billed, and the receipt of `run` proves it; `nodes` were ever up."""
        bills = self.bills()
        assert not any(bills.values()), bills
        assert nodes is None or len(bills) == nodes, bills
        until(lambda: not self.processes(), 10)
        receipt = self.receipt(run)
        assert receipt.proven, receipt
        assert not (ROOT / f"Pulumi.{run}.yaml").exists()
        assert not (self.home / "state" / ".pulumi" / "stacks" / "megatok" / f"{run}.json").exists()

    def never_rented(self) -> None:
        """Nothing was ever made: no node, no ledger entry, no process."""
        assert not self.bills()
        assert not (self.home / "ledger" / "ledger.jsonl").exists()
        assert not self.processes()


def fault(kind: str, **rule: object) -> None:
    """Let the local cloud of this test go wrong."""
    call("POST", "/v1/faults", body={"fault": kind, **rule})


def lacking(source: Path, target: Path, *paths: str) -> None:
    """A folder that is `source` by symbolic links, but for some paths in it."""
    target.mkdir(parents=True)
    for entry in source.iterdir():
        inner = [rest for first, _, rest in (path.partition("/") for path in paths) if first == entry.name]
        if "" in inner:
            continue
        if inner:
            lacking(entry, target / entry.name, *inner)
        else:
            (target / entry.name).symlink_to(entry)


def cache_lacking(target: Path, *patterns: str) -> Path:
    """The shared cache without what matches `patterns`; each must match something."""
    found = {pattern: [str(path.relative_to(cache())) for path in cache().glob(pattern)] for pattern in patterns}
    assert all(found.values()), found
    lacking(cache(), target, *(path for paths in found.values() for path in paths))
    return target


def order(**changes: Any) -> NodeGroups:
    """What the engine does with one group, without the engine; its outcome is in ledger, cloud and meter."""
    groups = NodeGroups()
    wanted = {
        "run": "run", "index": 0, "count": 1, "cloud": "local", "node_type": "cpu-1", "regions": [],
        "planned_usd_per_hour": "0.10", "lifetime_s": 600, "extend_s": 0, "budget_usd": "1", "ledger": ledger_address(),
        "public_key": "ssh-ed25519 AAAA", "key_file": "/key", "hosts": [],
    }  # fmt: skip
    checked = groups.check(wanted | changes)
    assert not checked.failures
    groups.create(checked.inputs, preview=False)
    return groups
