"""Whether this machine stood still: asleep, suspended, or stopped as a whole. Figures from then are worth nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

STEP_S = 1.0
"""Clocks that differ by less were only set."""
STALL_S = 10.0
"""A rest that took so much longer than asked was no rest: nothing ran."""

Clocks = tuple[float, float, float]
"""Time of day, time since boot, and time awake since boot."""


def _clocks() -> Clocks:
    boot = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # macOS counts no sleep
    return time.time(), time.clock_gettime(boot), time.monotonic()


def _stalled_s(late_s: float) -> float:
    return late_s if late_s > STALL_S else 0.0


def _slept_s(before: Clocks, now: Clocks) -> float:
    day_s, boot_s, awake_s = (after - earlier for earlier, after in zip(before, now))
    slept_s = max(day_s, boot_s) - awake_s
    return slept_s if slept_s > STEP_S else 0.0


class Clock:
    """Adds up the time that went by while this machine, or this process with all else, did not."""

    def __init__(self, clocks: Callable[[], Clocks] = _clocks) -> None:
        self.lost_s = 0.0
        self._clocks = clocks
        self._last = clocks()

    def rest(self, seconds: float, cancel: threading.Event) -> bool:
        """Wait, and count what was lost since the last rest; True once cancelled."""
        *_, began_s = self._clocks()
        cancelled = cancel.wait(seconds)
        now = self._clocks()
        self.lost_s += _stalled_s(now[2] - began_s - seconds) or _slept_s(self._last, now)
        self._last = now
        return cancelled
