"""When a run must end early: signals, the deadline, a machine that slept through it."""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from types import FrameType

from spec import clock
from spec.errors import Interrupted, MegatokError

TICK_S = 0.5
ASLEEP_S = 30.0
"""A tick that comes this late means that the machine, or this process, stood still."""


class Stop:
    """Set once, by the first reason; every blocking call of a run waits on `event`."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.event = threading.Event()
        self.reason = ""
        self.tearing_down = False
        self._say = say
        # A signal may come while its thread holds the lock of `event` or of standard error: its handler takes neither.
        self._signals: queue.SimpleQueue[str] = queue.SimpleQueue()

    def ask(self, reason: str) -> None:
        """End the run. Once it is being torn down, this only says that the teardown goes on: it is never skipped."""
        first = not self.event.is_set()
        if first:
            self.reason = reason
            self.event.set()
        if first and not self.tearing_down:
            self._say(f"{reason}: stopping, then tearing down")
        else:
            self._say(f"{reason}: the teardown goes on; a stop does not skip it")

    def check(self) -> None:
        """Raises Interrupted once the run must end."""
        if self.event.is_set():
            raise Interrupted(self.reason)

    @contextlib.contextmanager
    def listening(self, deadline: Callable[[], datetime | None]) -> Iterator[None]:
        """Take SIGINT, SIGTERM and SIGHUP, and watch the clock, until the block ends."""

        def handle(number: int, _frame: FrameType | None) -> None:
            self._signals.put(signal.Signals(number).name)

        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.signal(number, handle) for number in numbers}
        done = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(deadline, done), name="stop", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            for number, previous in before.items():
                signal.signal(number, previous)

    def _watch(self, deadline: Callable[[], datetime | None], done: threading.Event) -> None:
        last = time.time()
        while not done.is_set():
            with contextlib.suppress(queue.Empty):
                self.ask(self._signals.get(timeout=TICK_S))
            now, due = time.time(), _due(deadline)
            slept, last = now - last, now
            if self.event.is_set() or self.tearing_down or due is None or clock.now() < due:
                continue
            self.ask("deadline reached" + (f" after standing still for {slept:.0f} s" if slept > ASLEEP_S else ""))


def _due(deadline: Callable[[], datetime | None]) -> datetime | None:
    """None where it cannot be read just now: that must not end the watch."""
    try:
        return deadline()
    except (MegatokError, OSError):
        return None
