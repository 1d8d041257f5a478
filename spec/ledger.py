"""Ledger events: money before and after it is spent. `docs/schemas/event.json`."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime

from spec.base import Natural, Seq, Spec, Usd

EventKind = Literal[
    "open",  # a run begins: budget_usd, lifetime_s
    "fence",  # a newer owner: older epochs may create nothing more
    "reserve",  # usd set aside under token, worst case
    "intent",  # about to call create with token; written before the call
    "commit",  # the create is known to have made `resources`
    "release",  # the create is known to have made nothing: the reservation is free again
    "armed",  # a dead-man switch is confirmed
    "extend",  # a lifetime was moved: usd more is set aside under token
    "settle",  # the resource is gone: usd is what it cost by the cloud's own times
    "sighting",  # a listing was made in which `resources` are absent
    "close",  # the receipt is written
]


class Resource(Spec):
    """One billable thing of a cloud."""

    cloud: str
    region: str
    kind: str
    """machine, disk, address, key, ..."""
    id: str
    name: str = ""


class Event(Spec):
    version: Literal[1] = 1
    seq: Natural
    at: AwareDatetime
    run: str
    epoch: Natural
    kind: EventKind
    token: str = ""
    usd: Usd | None = None
    resources: Seq[Resource] = ()
    note: str = ""
    pid: int = 0
    """Process that wrote it; with `host` it tells a live owner from a dead one."""
    host: str = ""
    started_at: AwareDatetime | None = None
    ended_at: AwareDatetime | None = None
    previous: str = ""
    """SHA-256 of the line before, so that a changed past shows."""
