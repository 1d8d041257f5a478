"""Creating a group: walk the places allowed, write down before the call, and leave nothing in a place that is left.

Per place: `reserve -> intent -> create -> commit -> armed`. After any error the token is looked for: what stands whole
is adopted, anything less is deleted, and only then is the reservation released.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from infra.cloud import TAG_EXPIRES, TAG_LEDGER, TAG_RUN, TAG_TOKEN, CreateRequest, Machine, Offer, expires_tag
from infra.engine.wire import PartialCreate
from infra.guest import first_boot
from infra.provider import prices
from infra.provider.end import beside, end
from infra.provider.fees import settle_fees
from infra.provider.job import Job, Owner, patiently
from infra.provider.salvage import place, refuse_foreign, salvage
from infra.provider.state import unknown
from infra.provider.stoppable import created
from infra.provider.switches import Armed, armed, refuse_unarmable
from money import budget, intents
from plan.price import Tariff
from spec.errors import CloudError, Interrupted, MegatokError, NoCapacity
from spec.home import ledger_mark
from spec.ledger import Resource

CLOSE_S = 2.0
"""A cloud may count in whole seconds."""


@dataclass(frozen=True)
class Made:
    """A group that stands: its machines in the order of their names."""

    token: str
    machines: tuple[Machine, ...]
    switches: tuple[Armed, ...]
    """Of each machine."""
    extended_s: float
    """How much of the `extend_s` asked for is in its lifetime."""


def create(job: Job, owner: Owner) -> Made:
    """The group, in the first place that has room; what an earlier attempt left is adopted, or deleted first."""
    run, index = job.inputs.run, job.inputs.index
    number, held = intents.attempt(job.ledger.events(run), run, index)
    if held:
        token = intents.token(run, index, number)
        _go_on(owner, token)
        machines = salvage(place(job, token), token, lags=True)
        if machines:
            budget.intent(job.ledger, run, owner.epoch, token, "adopted", ())
            tariff = prices.asked_now(job, machines[0].resource.region)
            return _keep(job, token, machines, tariff, _extended_s(job, machines))
        number += 1
    return _walk(job, owner, number)


def _walk(job: Job, owner: Owner, number: int) -> Made:
    refused: list[str] = []
    for offer, tariff in prices.allowed(job, refused):
        token = intents.token(job.inputs.run, job.inputs.index, number)
        _go_on(owner, token)
        try:
            return _rent(job, owner, token, offer, tariff)
        except NoCapacity as error:
            refused.append(f"{offer.region}: {error}")
            number += 1
    wanted = f"{job.inputs.count} x {job.inputs.node_type} on {job.inputs.cloud}"
    raise NoCapacity(f"no place for {wanted}: {'; '.join(refused) or 'no offer'}; allow more regions or a higher price")


def _go_on(owner: Owner, token: str) -> None:
    if owner.stop.is_set():
        raise Interrupted(f"stopped before {token} was created")


def _rent(job: Job, owner: Owner, token: str, offer: Offer, tariff: Tariff) -> Made:
    run = job.inputs.run
    refuse_unarmable(job, offer.region)
    life_s = prices.reserve(job, owner, token, tariff)
    named = tuple(_unborn(job, offer, name) for name in job.inputs.names)
    what = f"{job.cloud.name} {offer.region} {offer.node_type} for {life_s:g} s"
    budget.intent(job.ledger, run, owner.epoch, token, what, named)
    try:
        machines = created(job, owner, _request(job, token, offer, life_s))
        refuse_foreign(job, machines)
    except MegatokError as error:
        machines = salvage(job, token, lags=not isinstance(error, NoCapacity))
        if not machines:
            raise
    return _keep(job, token, machines, tariff, job.inputs.extend_s)


def _extended_s(job: Job, machines: Sequence[Machine]) -> float:
    """What machines of an earlier attempt have of `extend_s`: what they live beyond `lifetime_s`, by their own times.

    Where the budget bought less than that, they count as not extended: they never live longer than both together.
    """
    lives = [(one.expires_at - one.created_at).total_seconds() for one in machines if one.expires_at]
    beyond_s = min(lives, default=job.inputs.whole_life_s) - job.inputs.lifetime_s
    return job.inputs.extend_s if beyond_s > job.inputs.extend_s - CLOSE_S else max(0.0, beyond_s)


def _unborn(job: Job, offer: Offer, name: str) -> Resource:
    """What the intent says of a machine that has no id yet: enough to know where to look."""
    return Resource(cloud=job.cloud.name, region=offer.region, kind="machine", id="", name=name)


def _request(job: Job, token: str, offer: Offer, life_s: float) -> CreateRequest:
    inputs, bills = job.inputs, job.cloud.capabilities
    expires = (patiently(job.cloud.now) + timedelta(seconds=life_s)).replace(microsecond=0)
    return CreateRequest(
        run=inputs.run,
        token=token,
        names=inputs.names,
        offer=offer,
        lifetime_s=life_s,
        public_key=inputs.public_key,
        hosts=inputs.hosts,
        gpus=inputs.gpus,
        user_data=first_boot(life_s, expires, bills.expires_command) if bills.guest_timer else "",
        tags={
            TAG_RUN: inputs.run,
            TAG_TOKEN: token,
            TAG_EXPIRES: expires_tag(expires),
            TAG_LEDGER: ledger_mark(inputs.ledger),
        },
    )


def _keep(job: Job, token: str, machines: tuple[Machine, ...], tariff: Tariff | None, extended_s: float) -> Made:
    """Commit, and see that something ends the machines when nobody does; what nothing ends is deleted at once."""
    run, ordered = job.inputs.run, tuple(sorted(machines, key=lambda one: job.inputs.names.index(one.name)))
    began = min(machine.started_at or machine.created_at for machine in machines)
    things = dict.fromkeys(item.resource for item in (*ordered, *beside(job, token)))
    budget.commit(job.ledger, run, token, tuple(things), began)
    if tariff:
        settle_fees(job, token, tariff, ordered)
    switches = _armed(job, token, ordered)
    for machine, found in zip(ordered, switches):
        for switch in (one for one in found if one.armed):
            budget.armed(job.ledger, run, token, switch.kind, (machine.resource,), switch.fires_at)
    return Made(token, ordered, switches, extended_s)


def _armed(job: Job, token: str, machines: Sequence[Machine]) -> tuple[Armed, ...]:
    try:
        return armed(job, machines)
    except CloudError as error:
        try:
            end(job, token, machines)
        except MegatokError as failed:
            raise PartialCreate(token, unknown(token), failed) from error
        raise type(error)(f"{error}; so it was deleted") from error
