"""Taking over what the ledger does not know: from then on status, teardown and budgets count it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from infra.cloud import Cloud, Item, Machine
from infra.provider.switches import look
from money import budget
from money.account import account
from money.ledger import Ledger
from spec.cost import cost_usd
from spec.errors import OverBudget
from spec.home import owner

NOTE = "adopted by an audit"
SMALLEST_USD = Decimal("0.01")
"""A run's budget is above 0, also where owned hosts cost nothing."""


def adopt(ledger: Ledger, where: Cloud, items: Sequence[Item], now: datetime) -> dict[str, str]:
    """What became of each thing of one run, by id: empty where it is bound now, else why not.

    Its budget is the worst case of what stands: from the cloud's start of the bill to the end that is armed.
    """
    run = items[0].run
    worst = {item.id: _worst_usd(where, item, now) for item in items}
    before = account(ledger.events(run), run)
    usd = before.budget_usd if before.is_open else max(SMALLEST_USD, sum(worst.values(), Decimal(0)))
    epoch = ledger.open(run, usd, NOTE, before.owner or owner())
    tokens = {item.token or f"{run}-{item.name}" for item in items}
    return {
        id: refusal
        for token in tokens
        for id, refusal in _bind(
            ledger, where, epoch, token, [one for one in items if (one.token or f"{run}-{one.name}") == token], worst
        ).items()
    }


def _bind(
    ledger: Ledger, where: Cloud, epoch: int, token: str, items: Sequence[Item], worst: dict[str, Decimal]
) -> dict[str, str]:
    """Put what one attempt made on record. That is never refused, only told where no money is left for it."""
    run, refusal = items[0].run, ""
    ends = [item.expires_at for item in items if item.expires_at]
    began = min(item.started_at or item.created_at for item in items)
    usd = sum((worst[item.id] for item in items), Decimal(0))
    try:
        budget.reserve(
            ledger, run, epoch, token, usd, until=max(ends) if len(ends) == len(items) else None, since=began
        )
    except OverBudget as error:
        refusal = str(error)
    budget.commit(ledger, run, token, tuple(item.resource for item in items), began)
    for item in items:
        if isinstance(item, Machine):
            _arm(ledger, where, token, item)
    return {item.id: refusal for item in items}


def _arm(ledger: Ledger, where: Cloud, token: str, machine: Machine) -> None:
    for switch in look(where, ledger, machine):
        if switch.armed:
            budget.armed(ledger, machine.run, token, switch.kind, (machine.resource,), switch.fires_at)


def _worst_usd(where: Cloud, item: Item, now: datetime) -> Decimal:
    """Until its end; for one without an end nothing can be set aside but what it has cost."""
    if not where.capabilities.billed:
        return Decimal(0)
    began = item.started_at or item.created_at
    ends = max(item.expires_at or now, now)
    return cost_usd(item.usd_per_hour, began, max(began, ends), where.capabilities.billing_step_s)
