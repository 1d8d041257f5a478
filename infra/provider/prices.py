"""What a group may cost: which offers may be taken, and how long its share of the money lets it live."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from decimal import Decimal

from infra.cloud import Extra, Offer
from infra.provider.job import Job, Owner, patiently
from money import budget, limits
from money.account import ZERO, Account, Token, account
from plan.price import Tariff, floor_s
from spec.errors import OverBudget
from spec.recipe import PriceExtra

PRICE_AGE = timedelta(days=7)
"""An older price is not known any more; a recipe that names the dearest one allowed bounds it."""
TRIES = 3
"""Other runs of the same owner reserve at the same time: what was free may be taken before it is reserved."""


def allowed(job: Job, refused: list[str]) -> Iterator[tuple[Offer, Tariff]]:
    """Offers in the cloud's order, less those whose price is not known or too dear; these are told in `refused`."""
    now = patiently(job.cloud.now)
    for offer in patiently(lambda: job.cloud.offers(job.inputs.node_type, job.inputs.regions)):
        if why := _unknown(job, offer, offer.as_of < now - PRICE_AGE) or _dearer(job, offer):
            refused.append(f"{offer.region}: {why}")
        else:
            yield offer, _tariff(job, offer, offer.as_of < now - PRICE_AGE)


def _unknown(job: Job, offer: Offer, is_old: bool) -> str:
    """Why its price says nothing certain; empty where it does."""
    if offer.currency != "USD":
        return f"its price is in {offer.currency}, and a budget is in USD; take a region or account that bills in USD"
    if offer.usd_per_hour is None:
        return "the cloud names no price, and what is not priced is not rented; take another region or node type"
    if is_old and job.inputs.max_usd_per_hour is None:
        return f"its price is of {offer.as_of:%Y-%m-%d}, which is too old; name max_usd_per_hour to bound it"
    return ""


def _dearer(job: Job, offer: Offer) -> str:
    """Why it is dearer than allowed; empty where it is not."""
    named, planned = job.inputs.max_usd_per_hour, job.inputs.planned_usd_per_hour
    limit = planned if named is None else named
    if limit is not None and offer.usd_per_hour is not None and offer.usd_per_hour > limit:
        what = "above max_usd_per_hour" if named is not None else "dearer than planned,"
        way = "" if named is not None else "; allow it with max_usd_per_hour in the recipe, or correct recipes/prices"
        return f"{offer.usd_per_hour} USD/h, {what} {limit}{way}"
    if job.inputs.planned_extras is not None:
        asked, expected = (_beside_usd(job, extras) for extras in (_extras(offer.extras), job.inputs.planned_extras))
        if asked > expected:
            kinds = ", ".join(extra.kind for extra in offer.extras)
            return f"{asked} USD beside the hours ({kinds}), dearer than planned, {expected}; correct recipes/prices"
    return ""


def _beside_usd(job: Job, extras: Sequence[PriceExtra]) -> Decimal:
    """What one node costs beside its hours, in the lifetime that is asked for."""
    bills = job.cloud.capabilities
    beside = Tariff(ZERO, bills.billing_step_s, bills.delete_s, tuple(extras), job.inputs.transfer_gib)
    return beside.worst_usd(1, job.inputs.whole_life_s)


def _extras(extras: Sequence[Extra]) -> tuple[PriceExtra, ...]:
    return tuple(
        PriceExtra(kind=one.kind, usd_per_hour=one.usd_per_hour, usd_once=one.usd_once, usd_per_gib=one.usd_per_gib)
        for one in extras
    )


def _tariff(job: Job, offer: Offer, is_old: bool) -> Tariff:
    """What counts at worst: an old price may have risen to what the recipe allows."""
    bills, limit = job.cloud.capabilities, job.inputs.max_usd_per_hour or ZERO
    price = offer.usd_per_hour or ZERO
    if not bills.billed:
        return Tariff(ZERO, bills.billing_step_s)
    usd_per_hour = max(price, limit) if is_old else price
    return Tariff(usd_per_hour, bills.billing_step_s, bills.delete_s, _extras(offer.extras), job.inputs.transfer_gib)


def reserve(job: Job, owner: Owner, token: str, tariff: Tariff) -> float:
    """Set the group's worst case aside; the lifetime that it buys, at most what was asked for."""
    bills, count = job.cloud.capabilities, job.inputs.count
    for last in (False,) * (TRIES - 1) + (True,):
        life_s = _life_s(job, token, tariff)
        until = patiently(job.cloud.now) + timedelta(seconds=bills.create_limit_s + life_s + bills.delete_s)
        try:
            usd = tariff.worst_usd(count, life_s)
            budget.reserve(job.ledger, job.inputs.run, owner.epoch, token, usd, until)
            return life_s
        except OverBudget:
            if last:
                raise
    raise AssertionError("unreachable")


def _life_s(job: Job, token: str, tariff: Tariff) -> float:
    """What the group's share buys; OverBudget where that is less than is worth it."""
    count, wanted_s = job.inputs.count, job.inputs.whole_life_s
    events = job.ledger.events()
    now = account(events, job.inputs.run)
    run_usd = _share_usd(job, now, token, now.free_usd)
    limits_usd = limits.free_usd(events, now.owner, job.ledger.clock())
    share_usd = run_usd if limits_usd is None else min(run_usd, _share_usd(job, now, token, limits_usd))
    life_s, least_s = tariff.life_s(count, share_usd, wanted_s), floor_s(wanted_s)
    if life_s >= least_s:
        return life_s
    day = "" if limits_usd is None else f"; day and month of owner {now.owner!r} leave {limits_usd} USD"
    raise OverBudget(
        f"{token} needs {tariff.worst_usd(count, least_s)} USD in the worst case for {least_s:g} s, the least, and "
        f"its share is {share_usd.quantize(Decimal('0.000001'))} USD, which buys {life_s:g} s: budget of the run "
        f"{now.budget_usd}, settled {now.settled_usd}, reserved {now.reserved_usd}, groups {job.inputs.groups}{day}; "
        "raise budget_usd, or take fewer or cheaper nodes"
    )


def _share_usd(job: Job, now: Account, token: str, free_usd: Decimal) -> Decimal:
    """An equal share for each group of what they hold together or may still have; at most what is free.

    So groups made side by side live equally long, in whatever order they reserve.
    """
    own_usd = now.tokens.get(token, Token()).held_usd
    return max(ZERO, min(free_usd + own_usd, (free_usd + now.reserved_usd) / job.inputs.groups))


def asked_now(job: Job, region: str) -> Tariff | None:
    """What a node there is offered for: for one that another process made. None where there is no offer any more."""
    offers = patiently(lambda: job.cloud.offers(job.inputs.node_type, [region]))
    return _tariff(job, offers[0], is_old=False) if offers else None
