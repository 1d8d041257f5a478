"""The one fan-out: every step on every node goes through `on_all`.

A task is a function of one `Host`. Connects are bounded apart from live commands; each step has a limit that also ends
what it started on the node; one error names every node that failed.
"""

from __future__ import annotations

import resource
import shlex
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from math import ceil
from typing import TypeVar

from playbooks import remote
from playbooks.script import STOPPED, Done, Step, command, new_mark, read, render
from playbooks.talk import Ended, Talk
from spec.errors import ConnectionLost, Interrupted, MegatokError, NodeError
from spec.inventory import Node

__all__ = ["Done", "Host", "Step", "on_all", "require"]

T = TypeVar("T")

KEPT = 500
"""Above so many nodes links are closed after each call: one file descriptor and one thread each."""
POLL_S = 0.1
"""How soon a cancel is seen."""
TAIL_LINES = 5
"""Of a failed step's output, in its error."""


class Host:
    """One node, for one task. All calls block, and raise NodeError; ConnectionLost where the link failed."""

    def __init__(self, node: Node, limit_s: float) -> None:
        self.node = node
        self._limit_s = limit_s
        self._deadline = float("inf")
        self._link = remote.link(node)
        self._talk: Talk | None = None
        self._stopped = threading.Event()

    def run(
        self, script: str, *, limit_s: float = 60.0, env: Mapping[str, str] | None = None, check: bool = True
    ) -> Done:
        """Run a bash script; with `check` an exit code other than 0 is a NodeError. 124: stopped at its limit."""
        (done,) = self.steps((Step("script", script, limit_s),), env=env)
        if check:
            require(done, limit_s)
        return done

    def steps(self, steps: Sequence[Step], *, env: Mapping[str, str] | None = None) -> tuple[Done, ...]:
        """Run `steps` one after another in one round trip, up to the first that fails: the last one returned."""
        mark = new_mark()
        ended = self._run(
            command(steps),
            render(steps, env or {}, mark),
            [step.limit_s for step in steps],
            mark,
        )
        rc = STOPPED if ended.late else ended.rc
        return read(steps, mark, ended.out, ended.err, rc, ended.seconds)

    def put(self, data: bytes, path: str, mode: int = 0o600) -> None:
        """Write a file, whole or not at all; a relative `path` starts at the user's home. Makes its folder."""
        name, part = shlex.quote(path), shlex.quote(f"{path}.part")
        folder = shlex.quote(path.rpartition("/")[0] or ".")
        self._move(
            f"cd && umask 077; mkdir -p {folder} && cat >{part} && [ $(wc -c <{part}) -eq {len(data)} ] "
            f"&& chmod {mode:o} {part} && mv -f {part} {name}",
            data,
        )

    def get(self, path: str) -> bytes:
        """The bytes of a file."""
        return self._move(f"cd && cat {shlex.quote(path)}", b"")

    def connect(self) -> None:
        """Open the link now, where a later command should not pay for it."""
        self._link.channel(self._stopped, self._deadline).close()

    def do(self, task: Callable[[Host], T], *, keep: bool) -> T:
        """Run `task` here; its time starts now. Without `keep` the link is closed after it."""
        self._deadline = time.monotonic() + self._limit_s
        try:
            return task(self)
        finally:
            if not keep:
                self._link.close()

    def stop(self) -> None:
        """From another thread: end what this host does. Its task gets Interrupted."""
        self._stopped.set()
        self._link.hang_up()
        if self._talk:
            self._talk.break_off()

    def _move(self, command: str, data: bytes) -> bytes:
        left_s = max(0.0, self._deadline - time.monotonic())
        ended = self._run(f"exec timeout {ceil(left_s)} sh -c {shlex.quote(command)}", data, [left_s])
        if ended.rc:
            raise NodeError(f"file not moved, exit code {ended.rc}: {_tail(ended.err.decode(errors='replace'))}")
        return ended.out

    def _run(self, command: str, stdin: bytes, limits_s: Sequence[float], mark: str = "") -> Ended:
        try:
            self._talk = Talk(self._link.channel(self._stopped, self._deadline), self._deadline)
            if self._stopped.is_set():
                self._talk.break_off()
            ended = self._talk.run(command, stdin, limits_s, mark)
        except ConnectionLost:
            if self._stopped.is_set():
                raise Interrupted(f"stopped at work on {self.node.name}") from None
            raise
        if self._stopped.is_set():
            raise Interrupted(f"stopped at work on {self.node.name}")
        if ended.late and time.monotonic() >= self._deadline:
            raise NodeError(f"not done within {self._limit_s:g} s; stopped")
        return ended


def on_all(
    nodes: Sequence[Node],
    task: Callable[[Host], T],
    *,
    limit_s: float,
    cancel: threading.Event | None = None,
    live: int = 64,
) -> dict[str, T]:
    """Run `task` for every node, up to `live` at once, and answer by node name.

    `limit_s` is for each node, from the start of its task. Every node is tried whatever happens on the others; then
    one NodeError names those that failed (`failures`), a ConnectionLost where only links did. Interrupted once
    `cancel` is set.
    """
    hosts = [Host(node, limit_s) for node in nodes]
    _allow_files(len(hosts))
    pool = ThreadPoolExecutor(max_workers=max(1, min(live, len(hosts))))
    try:
        futures = {host.node.name: pool.submit(host.do, task, keep=len(hosts) <= KEPT) for host in hosts}
        _wait(futures, cancel)
    finally:
        for host in hosts:
            host.stop()
        pool.shutdown(cancel_futures=True)
    return _results(futures)


def _wait(futures: Mapping[str, Future[T]], cancel: threading.Event | None) -> None:
    left = threading.Semaphore(0)
    for future in futures.values():
        future.add_done_callback(lambda _: left.release())
    for _ in futures:
        while not left.acquire(timeout=POLL_S if cancel else None):
            if cancel and cancel.is_set():
                busy = [name for name, future in futures.items() if not future.done()]
                raise Interrupted(f"stopped at work on {len(busy)} of {len(futures)} nodes: {', '.join(busy)}")


def _results(futures: Mapping[str, Future[T]]) -> dict[str, T]:
    failures: dict[str, MegatokError] = {}
    for name, future in futures.items():
        error = future.exception()
        if isinstance(error, MegatokError):
            failures[name] = error
        elif error:
            raise error
    if failures:
        raise _merged(failures, len(futures))
    return {name: future.result() for name, future in futures.items()}


def _merged(failures: Mapping[str, MegatokError], count: int) -> NodeError:
    """Nodes that failed for the same reason stand together."""
    names: dict[str, list[str]] = {}
    for name, error in failures.items():
        names.setdefault(str(error), []).append(name)
    reasons = "; ".join(f"{', '.join(those)}: {reason}" for reason, those in names.items())
    kind = ConnectionLost if all(isinstance(error, ConnectionLost) for error in failures.values()) else NodeError
    return kind(f"{len(failures)} of {count} nodes failed: {reasons}", failures)


def require(done: Done, limit_s: float) -> None:
    """NodeError where a step failed."""
    if done.rc == STOPPED:
        raise NodeError(f"{done.name} did not end within {limit_s:g} s and was stopped: {_tail(done.err or done.out)}")
    if done.rc:
        raise NodeError(f"{done.name}: exit code {done.rc}: {_tail(done.err or done.out)}")


def _tail(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-TAIL_LINES:])


def _allow_files(links: int) -> None:
    """Raise this process' own limit of open files where it would not do; many systems start at 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * links + 256
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
