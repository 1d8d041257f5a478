"""Taking over what the ledger does not know: from then on status, teardown and budgets count it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from infra.cloud import Cloud, Item, Machine
from infra.provider.switches import look
from money import budget
from money.account import ADOPTED, account
from money.ledger import Ledger
from spec.cost import cost_usd
from spec.home import owner

SMALLEST_USD = Decimal("0.01")
"""A run's budget is above 0, also where owned hosts cost nothing."""


def adopt(ledger: Ledger, where: Cloud, items: Sequence[Item], beside: Sequence[Item], now: datetime) -> None:
    """Put things of one run on record, and set their worst case aside, whatever limit that passes.

    `beside`: what stands of it by right, with which they share their attempts. A run that the ledger does not know gets
    the worst case of what stands for a budget: from the cloud's start of the bill to the end that is armed.
    """
    run = items[0].run
    before = account(ledger.events(run), run)
    usd = before.budget_usd if before.is_open else max(SMALLEST_USD, _worst_usd(where, items, now))
    ledger.open(run, usd, ADOPTED, before.owner or owner())
    for token in dict.fromkeys(map(_token, items)):
        new = [one for one in items if _token(one) == token]
        _bind(ledger, where, token, new, [*new, *(one for one in beside if _token(one) == token)], now)


def _token(item: Item) -> str:
    return item.token or f"{item.run}-{item.name}"


def _bind(
    ledger: Ledger, where: Cloud, token: str, new: Sequence[Item], standing: Sequence[Item], now: datetime
) -> None:
    """What one attempt made, first said to stand: who dies before it is set aside leaves it `unknown`."""
    run = new[0].run
    ends = [item.expires_at for item in standing if item.expires_at]
    began = min(item.started_at or item.created_at for item in standing)
    budget.commit(ledger, run, token, tuple(item.resource for item in new), began)
    until = max(ends) if len(ends) == len(standing) else None
    budget.hold(ledger, run, token, _worst_usd(where, standing, now), began, until)
    for item in new:
        if isinstance(item, Machine):
            _arm(ledger, where, token, item)


def _arm(ledger: Ledger, where: Cloud, token: str, machine: Machine) -> None:
    for switch in look(where, ledger, machine):
        if switch.armed:
            budget.armed(ledger, machine.run, token, switch.kind, (machine.resource,), switch.fires_at)


def _worst_usd(where: Cloud, items: Sequence[Item], now: datetime) -> Decimal:
    """Until its end; for one without an end nothing can be set aside but what it has cost."""
    return sum((_worst_of(where, item, now) for item in items), Decimal(0)) if where.capabilities.billed else Decimal(0)


def _worst_of(where: Cloud, item: Item, now: datetime) -> Decimal:
    began = item.started_at or item.created_at
    ends = max(item.expires_at or now, now)
    return cost_usd(item.usd_per_hour, began, max(began, ends), where.capabilities.billing_step_s)
