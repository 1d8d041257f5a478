"""Long series of rounds, played side by side and in slices: one line of JSON a round, kept in a file."""

from __future__ import annotations

import json
import resource
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
Line = dict[str, Any]
ASIDE = 12
"""Rounds that may wait for a lifetime's end beside those at work."""
TICK_S = 0.2


class Slice:
    """Rounds that are played now, after those of earlier slices."""

    def __init__(self, state: Path, jobs: int, slice_s: float | None) -> None:
        state.parent.mkdir(parents=True, exist_ok=True)
        self.state = state
        self.done: list[Line] = [json.loads(line) for line in _lines(state)]
        self.busy = threading.Semaphore(jobs)
        """Held by a round at work; not while only the clock acts."""
        self._jobs = jobs
        self._began = time.monotonic()
        self._slice_s = slice_s or float("inf")

    def play(self, wanted: Iterator[T], one: Callable[[T], Line], more: Callable[[], bool]) -> None:
        """As long as `more` says so and time is left; what has begun is ended."""
        with ThreadPoolExecutor(self._jobs + ASIDE) as pool:
            going: set[Future[Line]] = set()
            over = False
            while going or not over:
                over = over or not more() or self.seconds > self._slice_s
                if not over and self._free() and len(going) < self._jobs + ASIDE:
                    over = (item := next(wanted, None)) is None
                    going |= set() if item is None else {pool.submit(one, item)}
                ended, going = wait(going, TICK_S, FIRST_COMPLETED) if going else (set(), going)
                for each in ended:
                    self._keep(each.result())

    @property
    def seconds(self) -> float:
        return round(time.monotonic() - self._began, 1)

    def _free(self) -> bool:
        if free := self.busy.acquire(blocking=False):
            self.busy.release()
        return free

    def _keep(self, line: Line) -> None:
        self.done.append(line)
        with self.state.open("a") as file:
            file.write(json.dumps(line) + "\n")


def _lines(state: Path) -> list[str]:
    return state.read_text().splitlines() if state.exists() else []


def cpu_s() -> float:
    """Of this process and of all that it waited for; one that adopts orphans waits for all that it ever started."""
    uses = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return round(sum(use.ru_utime + use.ru_stime for use in uses), 1)
