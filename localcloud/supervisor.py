"""The process that one node hangs on, started as `python -I -S supervisor.py FOLDER LOCK PORTS`: small, quick to start.

It adopts every orphan of the node (Linux child subreaper), writes the meter, and ends all of it: on SIGTERM, at the
expiry, or when the SSH server ends. It needs no living cloud for that.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import sys
import time
from typing import Any

PR_SET_CHILD_SUBREAPER = 36
SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD}
STOPS = {signal.SIGTERM, signal.SIGINT}
HEARTBEAT_S = 1.0
NEVER_S = float("inf")
STARTING_S = 0.005  # between two looks for the server's pid file
MARKER = "MEGATOK_NODE"


def now_s() -> float:
    """Wall-clock time, so that a machine which slept past an expiry ends its nodes; in whole milliseconds."""
    return round(time.time(), 3)


def append(meter: str, line: dict[str, Any]) -> None:
    """One line, one write, on disk before it returns; several processes append to the same file."""
    fd = os.open(meter, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(fd, (json.dumps(line) + "\n").encode())
        os.fsync(fd)
    finally:
        os.close(fd)


def slurp(path: str) -> bytes:
    """What `path` holds; empty where it is gone or not ours to read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def descendants(pid: int) -> list[int]:
    """Processes below `pid`, parents first."""
    found: list[int] = []
    for thread in tasks(pid):
        for child in slurp(f"/proc/{pid}/task/{thread}/children").split():
            found += [int(child), *descendants(int(child))]
    return found


def tasks(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def marked(node: str) -> list[int]:
    """Processes that carry the node's mark, wherever they hang; of the SSH servers (which overwrite their environment)
    those that name the node's config."""
    mark = f"{MARKER}={node}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        titled = slurp(f"/proc/{entry}/cmdline")
        if mark in slurp(f"/proc/{entry}/environ").split(b"\0") or (
            titled.startswith(b"sshd: ") and f"/{node}/sshd_config".encode() in titled
        ):
            found.append(int(entry))
    return found


def kill(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def end_children() -> None:
    """Kill until no child is left; as a subreaper this process is the parent of every orphan below it."""
    while True:
        kill(descendants(os.getpid()))
        if not reap_all():
            return
        signal.sigtimedwait({signal.SIGCHLD}, 0.02)


def reap_all() -> bool:
    """Reap who has ended; whether children are left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def end_marked(node: str) -> bool:
    """Kill whatever carries the mark, with all below it, until nothing does; whether there was anything."""
    any_found = False
    while roots := marked(node):
        any_found = True
        kill([pid for root in roots for pid in (root, *descendants(root))])
        time.sleep(0.02)
    return any_found


class Supervisor:
    """One node's life, from its server's start to the last line of its bill."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        with open(f"{folder}/supervisor.json", encoding="utf-8") as file:
            self.plan: dict[str, Any] = json.load(file)
        self.node: str = self.plan["id"]
        self.started_at = 0.0
        self.server = 0
        self.silent: socket.socket | None = None

    def run(self) -> None:
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        self.serve()
        reason = self.watch()
        self.end(reason)

    def serve(self) -> None:
        """Start the SSH server, or stand mute in its place."""
        if self.plan["silent"]:
            self.silent = socket.create_server(("127.0.0.1", self.plan["ssh_port"]), backlog=128)
            return
        self.server = self.spawn(self.plan["server"], "sshd.log")

    def first_boot(self) -> None:
        """Run what the order brought along, once, in the node's home."""
        script = f"{self.folder}/user_data"
        if os.path.getsize(script):
            self.spawn(["/bin/sh", "-c", 'cd "$HOME" && exec /bin/sh "$0"', script], "boot.log")

    def spawn(self, argv: list[str], log: str) -> int:
        """Start a process of the node; its number."""
        fd = os.open(f"{self.folder}/{log}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        pid = os.posix_spawn(
            argv[0],
            argv,
            self.plan["env"],
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, 1), (os.POSIX_SPAWN_DUP2, fd, 2)],
            setsigmask=[],
            setsigdef=SIGNALS,
        )
        os.close(fd)
        return pid

    def watch(self) -> str:
        """Wait until there is a reason to end, and say which."""
        while True:
            if not self.started_at and (self.silent or os.path.exists(f"{self.folder}/sshd.pid")):
                self.start_bill()
                self.first_boot()
            os.utime(f"{self.folder}/lock")
            if os.path.exists(f"{self.folder}/poweroff"):
                return "powered off"
            left_s, reason = self.left()
            if left_s <= 0:
                return reason
            pause_s = min(HEARTBEAT_S if self.started_at else STARTING_S, left_s)
            caught = signal.sigtimedwait(SIGNALS, pause_s)
            if caught is not None and caught.si_signo in STOPS:
                return "deleted"
            if caught is not None and caught.si_signo == signal.SIGCHLD and self.server_ended():
                return "powered off"

    def left(self) -> tuple[float, str]:
        """Seconds to live, and what comes then. The expiry is read again each time: it may have been moved."""
        ends = [(float(slurp(f"{self.folder}/expires_at")) if self.plan["expires"] else NEVER_S, "expired")]
        if self.started_at and self.plan["dies_after_s"] is not None:
            ends.append((self.started_at + self.plan["dies_after_s"], self.plan["dies_of"]))
        at, reason = min(ends)
        return at - time.time(), reason

    def server_ended(self) -> bool:
        """Reap whoever has ended; whether the SSH server was among them."""
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return self.server != 0
            if pid == 0:
                return False
            if pid == self.server:
                return True

    def start_bill(self) -> None:
        self.started_at = now_s()
        append(self.plan["meter"], {**self.plan["start"], "event": "start", "at": self.started_at})

    def end(self, reason: str) -> None:
        """End all that runs, drop the node's disk, and close its bill at the moment when the last process was gone."""
        if self.silent:
            self.silent.close()
        end_children()
        end_marked(self.node)
        ended_at = now_s()
        disks = [f"{self.folder}/home", self.plan["env"]["TMPDIR"]]
        rm = os.posix_spawn("/bin/rm", ["rm", "-rf", "--", *disks], {})
        os.waitpid(rm, 0)
        if self.started_at:
            append(self.plan["meter"], {"event": "stop", "id": self.node, "at": ended_at, "reason": reason})


def main() -> None:
    """The two descriptors, the node's lock and its claim on ports, are held for life and by this process alone."""
    lock, ports = int(sys.argv[2]), int(sys.argv[3])
    os.set_inheritable(lock, False)
    os.set_inheritable(ports, False)
    os.write(lock, str(os.getpid()).encode())
    Supervisor(sys.argv[1]).run()


if __name__ == "__main__":
    main()
