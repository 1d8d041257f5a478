from __future__ import annotations

import os
import signal
import time
from datetime import UTC, datetime, timedelta

import pytest

from campaign.stop import Stop
from spec.errors import Interrupted, RecipeError

WAIT_S = 20.0


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def stop(said: list[str]) -> Stop:
    return Stop(said.append)


def heard(said: list[str], count: int) -> list[str]:
    give_up_at = time.monotonic() + WAIT_S
    while len(said) < count and time.monotonic() < give_up_at:
        time.sleep(0.01)
    return said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_and_a_second_one_skips_nothing(stop: Stop, said: list[str], number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with stop.listening(lambda: None):
        os.kill(os.getpid(), number)
        assert stop.event.wait(WAIT_S)
        with pytest.raises(Interrupted, match=number.name):
            stop.check()
        os.kill(os.getpid(), number)
        assert heard(said, 2) == [
            f"{number.name}: stopping, then tearing down",
            f"{number.name}: the teardown goes on; a stop does not skip it",
        ]
    assert signal.getsignal(number) == before


def test_a_signal_during_the_teardown_is_remembered(stop: Stop, said: list[str]) -> None:
    stop.tearing_down = True
    stop.ask("SIGINT")
    assert said == ["SIGINT: the teardown goes on; a stop does not skip it"]
    assert stop.event.is_set()
    assert stop.reason == "SIGINT"


def test_many_signals_at_once_block_nothing(stop: Stop, said: list[str]) -> None:
    with stop.listening(lambda: None):
        for _ in range(200):
            os.kill(os.getpid(), signal.SIGINT)
            stop.event.wait(0.001)
        assert stop.event.is_set()


def test_the_deadline_stops(stop: Stop, said: list[str]) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=0.3)
    with stop.listening(lambda: soon):
        assert not stop.event.is_set()
        assert stop.event.wait(WAIT_S)
    assert stop.reason == "deadline reached"


def test_a_deadline_that_cannot_be_read_does_not_end_the_watch(stop: Stop) -> None:
    def unreadable() -> datetime:
        raise RecipeError("half a file")

    with stop.listening(unreadable):
        time.sleep(0.7)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.event.wait(WAIT_S)
    assert stop.reason == "SIGTERM"


def test_no_deadline_stops_a_teardown(stop: Stop) -> None:
    stop.tearing_down = True
    with stop.listening(lambda: datetime.now(UTC) - timedelta(days=1)):
        time.sleep(0.7)
    assert not stop.event.is_set()
