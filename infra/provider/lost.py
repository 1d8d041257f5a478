"""A ledger that was lost or cut: what still stands by its tag is billed, and no budget counts it."""

from __future__ import annotations

import threading

from infra.cloud import Cloud, Item
from infra.provider.job import Job, patiently
from money.account import account
from money.ledger import Ledger
from spec.errors import TeardownUnproven
from spec.group import GroupState
from spec.home import ledger_mark

SHOWN = 5


class Seen:
    """Each cloud is asked once in a process, before its first create."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clouds: set[tuple[str, str]] = set()

    def check(self, job: Job) -> None:
        """TeardownUnproven where something bears our ledger's tag that the ledger does not know."""
        place = job.inputs.ledger, job.cloud.name
        with self._lock:
            if place not in self._clouds:
                _refuse(job, uncounted(job.ledger, job.cloud))
                self._clouds.add(place)


def check_counted(job: Job, known: GroupState) -> None:
    """TeardownUnproven where nodes of a group stand that the ledger does not know."""
    if known.token not in account(job.ledger.events(job.inputs.run), job.inputs.run).tokens:
        found = (job.machine(node, known.token) for node in known.nodes)
        _refuse(job, tuple(item for item in found if item.state != "terminated"))


def uncounted(ledger: Ledger, cloud: Cloud) -> tuple[Item, ...]:
    """What is accounted in this ledger by its tag, and not by its lines. Listed first: its intent is older than it."""
    mark = ledger_mark(ledger.address)
    listed = [item for item in patiently(cloud.inventory) if item.ledger == mark]
    known = {run: account(ledger.events(run), run) for run in {item.run for item in listed}}
    return tuple(item for item in listed if item.token not in known[item.run].tokens)


def _refuse(job: Job, items: tuple[Item, ...]) -> None:
    if items:
        named = [f"{item.resource.kind} {item.id} of run {item.run}" for item in items]
        more = f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
        raise TeardownUnproven(
            f"{', '.join(named[:SHOWN])}{more} on {job.cloud.name}: billed and tagged for the ledger "
            f"{job.inputs.ledger}, which does not know it, so it was lost or cut, and no budget counts it; "
            "megatok audit --fix puts it on record, megatok down RUN ends it; then try again"
        )
