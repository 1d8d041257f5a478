"""What every step on one group shares, and patience with a cloud."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Protocol, TypeVar

from infra.cloud import Cloud
from money.ledger import Ledger
from spec.errors import CloudError
from spec.group import GroupInputs
from spec.ledger import Resource

T = TypeVar("T")

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0
PATIENCE_S = 120.0
"""How long one call is repeated while the cloud says that trying again can help."""


class Standing(Protocol):
    """What a cloud's machine and an inventory's node both tell of a thing that is billed."""

    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def region(self) -> str: ...

    @property
    def usd_per_hour(self) -> Decimal: ...

    @property
    def created_at(self) -> datetime: ...


@dataclass(frozen=True)
class Job:
    """One group in its cloud and its ledger."""

    inputs: GroupInputs
    cloud: Cloud
    ledger: Ledger

    def resource(self, one: Standing) -> Resource:
        return Resource(cloud=self.cloud.name, region=one.region, kind="machine", id=one.id, name=one.name)


@dataclass(frozen=True)
class Owner:
    """The right to create: the epoch of the run that was read when this process began, and the wish to go on."""

    epoch: int
    stop: threading.Event


def patiently(call: Callable[[], T], limit_s: float | None = None) -> T:
    """Call until it answers; an error that trying again cannot help, or that lasts, comes through."""
    ends = time.monotonic() + (PATIENCE_S if limit_s is None else limit_s)
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            return call()
        except CloudError as error:
            if not error.retryable or time.monotonic() + pause_s > ends:
                raise
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def until(ready: Callable[[], T | None], limit_s: float) -> T | None:
    """Ask again and again; None where it is not so within `limit_s`."""
    ends = time.monotonic() + limit_s
    pause_s = FIRST_PAUSE_S
    while (found := ready()) is None and time.monotonic() + pause_s <= ends:
        time.sleep(pause_s)
        pause_s = min(1.5 * pause_s, LONGEST_PAUSE_S)
    return found
