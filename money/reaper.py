"""Heartbeats of reapers: a machine elsewhere that ends what has outlived its time says here what it watches."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from datetime import datetime

from money.ledger import Draft, Ledger
from spec.ledger import Event, Scope


def beat(ledger: Ledger, scopes: Sequence[Scope], until: datetime) -> None:
    """Say that this host looked through all of `scopes`, and comes back before `until`."""
    ledger.append("", lambda _: Draft("heartbeat", scopes=tuple(scopes), ended_at=until))


def fresh(events: Sequence[Event], cloud: str, account: str, region: str, now: datetime) -> Event | None:
    """The latest heartbeat that still counts and names the place; of another host, as this one may be what dies."""
    for event in reversed(events):
        if event.kind != "heartbeat" or event.host == socket.gethostname() or event.ended_at is None:
            continue
        names = ((one.cloud, one.account) == (cloud, account) and region in one.regions for one in event.scopes)
        if event.ended_at > now and any(names):
            return event
    return None
