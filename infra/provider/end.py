"""Ending what was rented: delete, see it gone, and settle by the cloud's own times. A stop never stops this."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal

from infra.cloud import Item
from infra.provider.job import Job, patiently, until
from money import budget
from spec.cost import cost_usd
from spec.errors import NotYetTerminated

GONE_S = 300.0
"""Longest wait for a thing that was told to end."""


def end(job: Job, token: str, standing: Iterable[Item]) -> None:
    """Delete all, then see each one gone and settle it."""
    ending = tuple(standing)
    for one in ending:
        patiently(lambda one=one: job.cloud.delete(one.resource))  # type: ignore[misc]
    for one in ending:
        _settle(job, token, one, *_gone(job, one))


def _gone(job: Job, one: Item) -> tuple[datetime, datetime]:
    """When it began and ended by the cloud's clock, once it is gone; one that the cloud has forgotten ended now."""

    def ended() -> tuple[datetime, datetime] | None:
        last = patiently(lambda: job.cloud.read(one.resource))
        if last is None:
            return one.started_at or one.created_at, patiently(job.cloud.now)
        if last.state != "terminated":
            return None
        return last.started_at or last.created_at, last.ended_at or patiently(job.cloud.now)

    times = until(ended, GONE_S)
    if times is None:
        raise NotYetTerminated(
            f"{one.name} ({one.id}) still stands {GONE_S:.0f} s after its delete; run megatok down {job.inputs.run}"
        )
    return times


def _settle(job: Job, token: str, one: Item, began: datetime, ended: datetime) -> None:
    """On record what it cost; settled already is success."""
    ended = max(began, ended)
    capabilities = job.cloud.capabilities
    usd = cost_usd(one.usd_per_hour, began, ended, capabilities.billing_step_s) if capabilities.billed else Decimal(0)
    budget.settle(job.ledger, job.inputs.run, token, one.resource, usd, began, ended)
