"""Time in which the machine stood still is noticed; time that merely passed is not."""

from __future__ import annotations

import threading

import pytest

from playbooks.clock import Clock, Clocks


def lost_s(*looks: Clocks, rest_s: float = 0.0) -> float:
    """What a clock that shows these looks one after another counts as lost in one rest."""
    shown = iter(looks)
    clock = Clock(lambda: next(shown))
    clock.rest(rest_s, threading.Event())
    return clock.lost_s


@pytest.mark.parametrize(
    ("what", "start", "end", "lost"),
    [
        ("a second passed", (100.0, 50.0, 50.0), (101.0, 51.0, 51.0), 0.0),
        ("asleep for an hour", (100.0, 50.0, 50.0), (3701.0, 3651.0, 51.0), 3600.0),
        ("asleep, on a system that does not count it", (100.0, 50.0, 50.0), (3701.0, 51.0, 51.0), 3600.0),
        ("the clock was set back", (100.0, 50.0, 50.0), (41.0, 51.0, 51.0), 0.0),
        ("stopped as a whole for a minute", (100.0, 50.0, 50.0), (161.0, 111.0, 111.0), 61.0),
    ],
)
def test_lost_time(what: str, start: Clocks, end: Clocks, lost: float) -> None:
    assert lost_s(start, start, end) == lost, what


def test_real_rests_lose_nothing_and_end_on_cancel() -> None:
    clock, cancel = Clock(), threading.Event()
    assert not clock.rest(0.01, cancel)
    cancel.set()
    assert clock.rest(60, cancel)
    assert clock.lost_s == 0
