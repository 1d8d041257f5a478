"""Ledger events: money before and after it is spent. `docs/schemas/event.json`."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, ValidationError

from spec.base import Natural, Seq, Spec, Usd

EventKind = Literal[
    "open",  # a run begins, or goes on after its close: usd is its budget
    "fence",  # a newer owner: older epochs may create nothing more
    "reserve",  # usd set aside under token, worst case
    "intent",  # about to call create with token; written before the call
    "commit",  # the create is known to have made `resources`, from started_at on
    "release",  # the attempt is given up: free again is what is not held by something it made
    "armed",  # a dead-man switch is confirmed: it ends `resources` at ended_at
    "extend",  # a lifetime was moved: usd more is set aside under token
    "settle",  # the resource is gone: usd is what it cost by the cloud's own times
    "sighting",  # a listing asked for at `at` lacked `resources`
    "close",  # the run ends: nothing more is reserved
]


class Resource(Spec):
    """One billable thing of a cloud."""

    cloud: str
    region: str
    kind: str
    """machine, disk, address, key, ..."""
    id: str
    name: str = ""


class Scope(Spec):
    """What one credential sees of a cloud: where a reaper looks."""

    cloud: str
    account: str
    regions: Seq[str] = ()


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


def read(line: bytes) -> Event:
    """The event that a line holds; ValueError says in short what is wrong with one that is none."""
    try:
        return Event.model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))} {first['msg']}".strip()) from None
