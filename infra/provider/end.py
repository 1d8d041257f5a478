"""Ending what was rented: delete, see it gone, and settle by the cloud's own times. A stop never stops this."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import TypeVar

from infra.cloud import Cloud, Item
from infra.provider.job import FIRST_PAUSE_S, Job, patiently
from money import budget
from money.account import Token, account, key
from money.ledger import Ledger
from spec.cost import cost_usd
from spec.errors import CloudError, NotYetTerminated
from spec.ledger import Resource

T = TypeVar("T")

GONE_S = 300.0
"""Longest wait for a thing that was told to end."""
AGAIN_S = 1.0
"""A delete that was taken and had no effect is asked for again after this; then after twice as long, and so on."""
SELDOM_S = 16.0
"""A cloud that takes minutes for an end is not asked for it more often."""
LOOK_S = 0.5
"""Longest pause between two looks: what is gone and not seen so still costs time."""


def end(job: Job, token: str, standing: Iterable[Item] = ()) -> None:
    """Delete what stands under the token, see each thing gone and settle it; kinds go as the cloud lets go of them."""
    things = {item.id: item for item in (*beside(job, token), *standing)}
    for batch in in_order(job.cloud, things.values(), lambda item: item.resource.kind):
        with ThreadPoolExecutor(len(batch)) as pool:
            last = list(pool.map(lambda item: see_gone(job.cloud, item.resource, GONE_S), batch))
        billed = patiently(partial(job.cloud.billed_usd, job.inputs.run))
        for item, seen in zip(batch, last):
            _settle(job, token, item, seen, billed)


def beside(job: Job, token: str) -> tuple[Item, ...]:
    """What stands under the token by tag or on record: disks and addresses too, and what ended by itself."""
    listed = patiently(partial(job.cloud.inventory, job.inputs.run)) if len(job.cloud.capabilities.kinds) > 1 else ()
    found = {key(item.resource): item for item in job.ours(listed) if item.token == token}
    events = job.ledger.events(job.inputs.run)
    settled = account(events, job.inputs.run).settled
    made = dict.fromkeys(
        one for event in events if (event.kind, event.token) == ("commit", token) for one in event.resources
    )
    for resource in made or _charged(job):
        if resource.cloud == job.cloud.name and key(resource) not in {*found, *settled}:
            item = patiently(partial(job.cloud.read, resource))
            ours = item and item.token == token and key(item.resource) not in settled
            found |= {key(item.resource): item} if item and ours else {}
    return tuple(found.values())


def _charged(job: Job) -> tuple[Resource, ...]:
    """What the cloud bills to the run: an attempt whose maker died may have made what has ended by itself since, which
    no listing shows and no line of ours names."""
    billed = patiently(partial(job.cloud.billed_usd, job.inputs.run))
    return tuple(Resource(cloud=job.cloud.name, region="", kind="machine", id=id, name="") for id in billed)


def in_order(cloud: Cloud, things: Iterable[T], kind: Callable[[T], str]) -> tuple[Sequence[T], ...]:
    """By kind, in the order in which they can be deleted; a kind that the cloud does not name goes last."""
    kinds = cloud.capabilities.kinds
    batches: dict[int, list[T]] = {}
    for thing in things:
        batches.setdefault(kinds.index(kind(thing)) if kind(thing) in kinds else len(kinds), []).append(thing)
    return tuple(batches[place] for place in sorted(batches))


def see_gone(cloud: Cloud, resource: Resource, limit_s: float) -> Item | None:
    """Ask for its end, again where nothing comes of it, until it is over: as the cloud last knew it, None if forgotten.

    NotYetTerminated, or the cloud's own refusal, where it still stands after `limit_s`.
    """
    ends = time.monotonic() + limit_s
    ask_at, again_s, pause_s, refusal = 0.0, AGAIN_S, FIRST_PAUSE_S, ""
    while True:
        if time.monotonic() >= ask_at:
            refusal = _refused(cloud, resource)
            ask_at = time.monotonic() + (pause_s if refusal else again_s)
            again_s = again_s if refusal else min(2 * again_s, SELDOM_S)
        last = patiently(partial(cloud.read, resource), max(0.0, ends - time.monotonic()))
        if last is None or last.state == "terminated":
            return last
        if time.monotonic() >= ends:
            raise NotYetTerminated(refusal or "it was told to end, and still stands")
        time.sleep(max(0.0, min(pause_s, ends - time.monotonic())))
        pause_s = min(1.5 * pause_s, LOOK_S)


def _refused(cloud: Cloud, resource: Resource) -> str:
    """Why the cloud does not end it now; empty where it does."""
    try:
        cloud.delete(resource)
    except CloudError as error:
        if not error.retryable:
            raise
        return str(error)
    return ""


def price(cloud: Cloud, item: Item | None, last: Item | None, billed: Decimal | None, now: datetime) -> Decimal | None:
    """What it cost by the cloud's own times, and never less than the cloud itself says; None where neither is known."""
    known = last or item
    if not cloud.capabilities.billed:
        return Decimal(0)
    if known is None:
        return billed
    began = known.started_at or (None if last else known.created_at)
    if began is None:
        return billed or Decimal(0)  # never up
    ended = max(began, (last.ended_at if last else None) or now)
    return max(cost_usd(known.usd_per_hour, began, ended, cloud.capabilities.billing_step_s), billed or Decimal(0))


def give_up(cloud: Cloud, ledger: Ledger, run: str, token: str, now: datetime) -> None:
    """Free what was set aside for a create under which nothing stands; `now` by the cloud's clock.

    All of it counts as paid where what was made may have lived its whole life and ended since: no listing shows that,
    and no bill would name it.
    """
    held = account(ledger.events(run), run).tokens.get(token)
    lost = held is not None and _may_have_ended(cloud, held, now)
    if held and lost:
        charge = Resource(cloud=cloud.name, region="", kind="charge", id=token, name=token)
        budget.settle(ledger, run, token, charge, held.held_usd, None, min(held.until, now))
    budget.release(ledger, run, token, "nothing stands, and it may have ended unseen" if lost else "nothing stands")


def _may_have_ended(cloud: Cloud, held: Token, now: datetime) -> bool:
    """At the earliest once the time is over that was set aside, less what making and ending it may take at most."""
    bills = cloud.capabilities
    if bills.itemizes or not held.unknown or not held.held_usd or held.settled:
        return False
    return now >= held.until - timedelta(seconds=bills.create_limit_s + bills.delete_s)


def _settle(job: Job, token: str, item: Item, last: Item | None, billed: Mapping[str, Decimal]) -> None:
    """On record what it cost; settled already is success."""
    now = patiently(job.cloud.now)
    began = (last or item).started_at or (last or item).created_at
    ended = max(began, (last.ended_at if last else None) or now)
    usd = price(job.cloud, item, last, billed.get(item.id), now) or Decimal(0)
    budget.settle(job.ledger, job.inputs.run, token, item.resource, usd, began, ended)
