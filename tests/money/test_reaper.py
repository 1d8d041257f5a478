from __future__ import annotations

import socket
from datetime import UTC, datetime, timedelta

import pytest

from money.ledger import Ledger
from money.reaper import beat, fresh
from spec.ledger import Event, Scope

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SCOPES = (Scope(cloud="local", account="a", regions=("here", "there")),)


def beats(address: str, *hours: float) -> tuple[Event, ...]:
    ledger = Ledger(address)
    for one in hours:
        beat(ledger, SCOPES, NOON + timedelta(hours=one))
    assert ledger.runs() == ()
    return ledger.events()


def test_the_latest_that_counts_is_found(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")
    events = beats(address, 1, 2)
    monkeypatch.undo()
    found = fresh(events, "local", "a", "there", NOON)
    assert found is not None
    assert (found.host, found.ended_at, found.scopes) == ("elsewhere", NOON + timedelta(hours=2), SCOPES)
    assert fresh(events, "local", "a", "here", NOON + timedelta(hours=2)) is None
    for place in (("aws", "a", "here"), ("local", "b", "here"), ("local", "a", "nowhere")):
        assert fresh(events, *place, NOON) is None


def test_this_host_does_not_watch_itself(address: str) -> None:
    assert fresh(beats(address, 1), "local", "a", "here", NOON) is None
