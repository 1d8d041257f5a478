"""Ledger events: money before and after it is spent. `docs/schemas/event.json`."""

from __future__ import annotations

import json
from typing import Final, Literal

from pydantic import AwareDatetime, ValidationError

from spec.base import Natural, Price, Seq, Spec, Usd, first_fault

VERSION: Final = 2
"""Of the lines that this program writes; it reads 1 as well, which knew no owner, limit or heartbeat."""

EventKind = Literal[
    "open",  # a run of `owner` begins, or goes on after its close: usd is its budget
    "fence",  # a newer owner: older epochs may create nothing more
    "reserve",  # usd set aside under token, worst case; it may bill from started_at to ended_at at the latest
    "intent",  # about to call create with token; written before the call
    "commit",  # the create is known to have made `resources`, from started_at on
    "release",  # the attempt is given up: free again is what is not held by something it made
    "armed",  # a dead-man switch is confirmed: it ends `resources` at ended_at
    "extend",  # a lifetime is about to be moved to ended_at: usd more is set aside under token
    "unextend",  # it was not moved: what was set aside for ended_at is free again
    "settle",  # the resource is gone: usd is what it cost by the cloud's own times
    "sighting",  # a listing asked for at `at` lacked `resources`
    "close",  # the run ends: nothing more is reserved
    "limit",  # of no run: what all runs of `owner` together may cost in a UTC day and month
    "heartbeat",  # of no run: a reaper on `host` watches `scopes`, and counts until ended_at
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
    version: Literal[1, 2] = VERSION
    seq: Natural
    at: AwareDatetime
    run: str
    """Empty where the event is about an owner or a reaper."""
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
    owner: str = ""
    """Whose day and month the run counts in."""
    day_usd: Price | None = None
    month_usd: Price | None = None
    scopes: Seq[Scope] = ()
    previous: str = ""
    """SHA-256 of the line before, so that a changed past shows."""


class NewerVersion(ValueError):
    """The line was written by a newer program than this."""


def read(line: bytes) -> Event:
    """The event that a line holds; ValueError says in short what is wrong with one that is none."""
    try:
        return Event.model_validate_json(line)
    except ValidationError as error:
        if (version := _version(line)) > VERSION:
            raise NewerVersion(f"it is of version {version}, this program reads up to {VERSION}") from None
        raise ValueError(first_fault(error)) from None


def _version(line: bytes) -> int:
    """The version that a line says it has; 0 where it says none."""
    try:
        version = json.loads(line)["version"]
    except (ValueError, TypeError, KeyError):
        return 0
    return version if type(version) is int else 0
