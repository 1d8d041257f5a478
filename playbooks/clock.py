"""Whether this machine stood still: asleep, suspended, or stopped as a whole. Figures from then are worth nothing."""

from __future__ import annotations

import threading
import time

STEP_S = 1.0
"""Clocks that differ by less were only set."""
STALL_S = 10.0
"""A rest that took so much longer than asked was no rest: nothing ran."""


def _clocks() -> tuple[float, float, float]:
    """Time of day, time since boot, and time awake since boot."""
    boot = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # macOS counts no sleep
    return time.time(), time.clock_gettime(boot), time.monotonic()


class Clock:
    """Adds up the time that went by while this machine, or this process with all else, did not."""

    def __init__(self) -> None:
        self.lost_s = 0.0
        self._last = _clocks()

    def rest(self, seconds: float, cancel: threading.Event) -> bool:
        """Wait, and count what was lost since the last rest; True once cancelled."""
        began_s = time.monotonic()
        cancelled = cancel.wait(seconds)
        late_s = time.monotonic() - began_s - seconds
        self.lost_s += late_s if late_s > STALL_S else self._slept_s()
        self._last = _clocks()
        return cancelled

    def _slept_s(self) -> float:
        day_s, boot_s, awake_s = (now - before for before, now in zip(self._last, _clocks()))
        slept_s = max(day_s, boot_s) - awake_s
        return slept_s if slept_s > STEP_S else 0.0
