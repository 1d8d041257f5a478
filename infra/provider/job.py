"""What every step on one group shares, and patience with a cloud."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from infra.cloud import Cloud, Item
from money.ledger import Ledger
from spec.errors import CloudError
from spec.group import GroupInputs
from spec.home import ledger_mark
from spec.inventory import Node
from spec.ledger import Resource

T = TypeVar("T")
AnItem = TypeVar("AnItem", bound=Item)

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 1.0
PATIENCE_S = 120.0
"""How long one call is repeated while the cloud says that trying again can help."""


@dataclass(frozen=True)
class Job:
    """One group in its cloud and its ledger."""

    inputs: GroupInputs
    cloud: Cloud
    ledger: Ledger

    @property
    def mark(self) -> str:
        return ledger_mark(self.inputs.ledger)

    def ours(self, items: Iterable[AnItem]) -> tuple[AnItem, ...]:
        """Without what a run of the same name has, in somebody else's ledger: not ours to use or to end."""
        return tuple(item for item in items if item.is_of(self.mark))

    def machine(self, node: Node, token: str) -> Item:
        """A node that was made under `token`, as the cloud knows it; as we do, where the cloud has forgotten it."""
        resource = Resource(cloud=node.cloud, region=node.region, kind="machine", id=node.id, name=node.name)
        known = Item(
            resource=resource,
            run=self.inputs.run,
            token=token,
            ledger=self.mark,
            state="terminated",
            usd_per_hour=node.usd_per_hour,
            created_at=node.created_at,
            started_at=node.created_at,
            ended_at=None,
            expires_at=node.expires_at,
        )
        return patiently(lambda: self.cloud.read(resource)) or known


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
