"""`megatok` commands without their second of imports: forked from a process that has done these already.

The code that runs is the same: `cli.main.main`, in a process and a session of its own. A command's parent is whoever
adopts orphans here, which the one that starts them must have made itself (`adopt`), so that it can wait for them.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cli import audit, down, gate, up
from cli.main import main
from spec.home import ROOT

PR_SET_CHILD_SUBREAPER = 36
LOADED = (audit.COMMAND, down.COMMAND, gate.COMMAND, up.COMMAND)
REAP_S = 0.1
PROC = Path("/proc")


class Command:
    """One command at work, with the manners of a Popen."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, limit_s: float) -> int:
        """subprocess.TimeoutExpired where it does not end in time."""
        give_up_at = time.monotonic() + limit_s
        while (code := self.poll()) is None:
            if time.monotonic() > give_up_at:
                raise subprocess.TimeoutExpired(["megatok"], limit_s)
            time.sleep(0.01)
        return code

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


class Warm:
    """The process that forks; and the reaper of what killed commands leave, as init is elsewhere."""

    def __init__(self) -> None:
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._lock = threading.Lock()
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tools.kill.warm"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
        )
        self._waited = {self._server.pid}
        threading.Thread(target=self._reap, daemon=True).start()

    def start(self, words: tuple[str, ...], env: Mapping[str, str], log: Path) -> Command:
        assert self._server.stdin
        assert self._server.stdout
        with self._lock:
            self._server.stdin.write(json.dumps({"words": words, "env": dict(env), "log": str(log)}).encode() + b"\n")
            self._server.stdin.flush()
            pid = int(self._server.stdout.readline())
            self._waited.add(pid)
        return Command(pid)

    def end(self) -> None:
        """Nothing is started any more; what was started goes on."""
        assert self._server.stdin
        self._server.stdin.close()
        self._server.wait()

    def _reap(self) -> None:
        while True:
            time.sleep(REAP_S)
            with self._lock, contextlib.suppress(OSError):
                for pid in {pid for pid in _children() if _is_dead(pid)} - self._waited:
                    os.waitpid(pid, os.WNOHANG)


def _children() -> set[int]:
    tasks = (PROC / "self" / "task").iterdir()
    return {int(pid) for task in tasks for pid in (task / "children").read_text().split()}


def _is_dead(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].startswith(" Z")
    return False


def serve() -> None:
    """Fork a command for each line, and say its number once it is an orphan; in the forked process, run it."""
    gc.freeze()
    for line in sys.stdin:
        wanted = json.loads(line)
        told, tell = os.pipe()
        if (between := os.fork()) == 0:
            _command(wanted, tell)
        os.waitpid(between, 0)
        os.write(1, os.read(told, 32))
        os.close(told)
        os.close(tell)


def _command(wanted: Mapping[str, Any], tell: int) -> None:
    if pid := os.fork():
        os.write(tell, f"{pid}\n".encode())
        os._exit(0)
    os.setsid()
    os.environ.clear()
    os.environ.update(wanted["env"])
    log = os.open(wanted["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for source, target in ((os.open(os.devnull, os.O_RDONLY), 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.closerange(3, 64)
    sys.exit(main(wanted["words"]))


if __name__ == "__main__":
    serve()
