from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from money import budget
from money.intents import attempt, open_intents, token
from money.ledger import Ledger
from spec.ledger import Resource

RUN = "my-1-a2"
"""Looks like a token itself."""
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MACHINE = Resource(cloud="local", region="here", kind="machine", id="m")


@pytest.fixture
def ledger(address: str) -> Ledger:
    ledger = Ledger(address)
    ledger.open(RUN, Decimal(10))
    return ledger


def begin(ledger: Ledger, name: str) -> None:
    budget.reserve(ledger, RUN, 1, name, Decimal(1))
    budget.intent(ledger, RUN, 1, name, "create")


def test_the_first_attempt_is_one(ledger: Ledger) -> None:
    assert attempt(ledger.events(), RUN, 0) == (1, False)
    assert token(RUN, 0, 1) == "my-1-a2-0-a1"


def test_an_attempt_goes_on_until_its_outcome_is_settled(ledger: Ledger) -> None:
    name = token(RUN, 0, 1)
    seen = []
    steps: list[Callable[[], None]] = [
        lambda: budget.reserve(ledger, RUN, 1, name, Decimal(1)),
        lambda: budget.intent(ledger, RUN, 1, name, "create"),
        lambda: budget.commit(ledger, RUN, name, (MACHINE,), NOON),
        lambda: budget.settle(ledger, RUN, name, MACHINE, Decimal(1), NOON, NOON),
    ]
    for step in steps:
        step()
        seen.append(attempt(Ledger(ledger.address).events(), RUN, 0))
    assert seen == [(1, False), (1, True), (1, True), (2, False)]


def test_a_released_attempt_is_followed_by_the_next(ledger: Ledger) -> None:
    for number in range(1, 12):
        assert attempt(ledger.events(), RUN, 0) == (number, False)
        begin(ledger, token(RUN, 0, number))
        budget.release(ledger, RUN, token(RUN, 0, number), "no capacity")


def test_groups_and_runs_are_counted_apart(ledger: Ledger) -> None:
    begin(ledger, token(RUN, 1, 3))
    ledger.open("my", Decimal(1))
    assert attempt(ledger.events(), RUN, 1) == (3, True)
    assert [attempt(ledger.events(), *which) for which in ((RUN, 0), (RUN, 11), ("my", 1))] == [(1, False)] * 3


def test_an_intent_is_open_until_its_outcome_is_known(ledger: Ledger) -> None:
    for index in range(3):
        begin(ledger, token(RUN, index, 1))
    budget.intent(ledger, RUN, 1, token(RUN, 1, 1), "adopted")
    budget.commit(ledger, RUN, token(RUN, 0, 1), (MACHINE,), NOON)
    budget.release(ledger, RUN, token(RUN, 2, 1), "none")
    assert [(event.token, event.note) for event in open_intents(ledger.events(), RUN)] == [
        (token(RUN, 1, 1), "adopted")
    ]
