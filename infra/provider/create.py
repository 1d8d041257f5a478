"""Creating a group: walk the places allowed, write down before the call, and leave nothing in a place that is left.

Per place: `reserve -> intent -> create -> commit -> armed`. After any error the token is looked for: what stands whole
is adopted, anything less is deleted, and only then is the reservation released.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import partial

from infra.cloud import TAG_EXPIRES, TAG_LEDGER, TAG_RUN, TAG_TOKEN, CreateRequest, Item, Machine, Offer
from infra.engine.wire import PartialCreate
from infra.provider.end import end
from infra.provider.job import Job, Owner, patiently, until
from infra.provider.state import unknown
from money import budget, intents
from spec.cost import worst_case_usd
from spec.errors import CloudError, Interrupted, MegatokError, NoCapacity
from spec.home import ledger_mark
from spec.inventory import Switch
from spec.ledger import Resource

PRICE_AGE = timedelta(days=7)
"""An older price is not known any more; a recipe that names the dearest one allowed bounds it."""
ARM_S = 60.0
"""A dead-man switch that is not part of the create must be confirmed within this."""


@dataclass(frozen=True)
class Made:
    """A group that stands: its machines in the order of their names."""

    token: str
    machines: tuple[Machine, ...]
    switches: tuple[tuple[Switch, ...], ...]
    """Of each machine."""


def create(job: Job, owner: Owner) -> Made:
    """The group, in the first place that has room; what an earlier attempt left is adopted, or deleted first."""
    run, index = job.inputs.run, job.inputs.index
    number, held = intents.attempt(job.ledger.events(run), run, index)
    if held:
        token = intents.token(run, index, number)
        _go_on(owner, token)
        machines = _salvage(job, token, lags=True)
        if machines:
            budget.intent(job.ledger, run, owner.epoch, token, "adopted", ())
            return _keep(job, token, machines)
        number += 1
    return _walk(job, owner, number)


def _walk(job: Job, owner: Owner, number: int) -> Made:
    refused: list[str] = []
    for offer in _allowed(job, refused):
        token = intents.token(job.inputs.run, job.inputs.index, number)
        _go_on(owner, token)
        try:
            return _rent(job, owner, token, offer)
        except NoCapacity as error:
            refused.append(f"{offer.region}: {error}")
            number += 1
    wanted = f"{job.inputs.count} x {job.inputs.node_type} on {job.inputs.cloud}"
    raise NoCapacity(f"no place for {wanted}: {'; '.join(refused) or 'no offer'}; allow more regions or a higher price")


def _go_on(owner: Owner, token: str) -> None:
    if owner.stop.is_set():
        raise Interrupted(f"stopped before {token} was created")


def _allowed(job: Job, refused: list[str]) -> Iterator[Offer]:
    """Offers in the cloud's order, less those that are too dear or of unknown price; these are told in `refused`."""
    limit = job.inputs.max_usd_per_hour
    for offer in patiently(lambda: job.cloud.offers(job.inputs.node_type, job.inputs.regions)):
        if offer.usd_per_hour is None or offer.currency != "USD":
            refused.append(f"{offer.region}: {offer.usd_per_hour or 'no price'} {offer.currency}/h is no price in USD")
        elif limit is not None and offer.usd_per_hour > limit:
            refused.append(f"{offer.region}: {offer.usd_per_hour} USD/h, above max_usd_per_hour {limit}")
        elif limit is None and offer.as_of < patiently(job.cloud.now) - PRICE_AGE:
            refused.append(f"{offer.region}: its price is of {offer.as_of:%Y-%m-%d}; name max_usd_per_hour to bound it")
        else:
            yield offer


def _rent(job: Job, owner: Owner, token: str, offer: Offer) -> Made:
    run = job.inputs.run
    budget.reserve(job.ledger, run, owner.epoch, token, _worst_usd(job, offer))
    named = tuple(_unborn(job, offer, name) for name in job.inputs.names)
    budget.intent(job.ledger, run, owner.epoch, token, f"{job.cloud.name} {offer.region} {offer.node_type}", named)
    try:
        machines = job.cloud.create(_request(job, token, offer))
    except MegatokError as error:
        machines = _salvage(job, token, lags=not isinstance(error, NoCapacity))
        if not machines:
            raise
    return _keep(job, token, machines)


def _worst_usd(job: Job, offer: Offer) -> Decimal:
    capabilities = job.cloud.capabilities
    if not capabilities.billed:
        return Decimal(0)
    assert offer.usd_per_hour is not None
    each = worst_case_usd(offer.usd_per_hour, job.inputs.whole_life_s, capabilities.billing_step_s)
    return each * job.inputs.count


def _unborn(job: Job, offer: Offer, name: str) -> Resource:
    """What the intent says of a machine that has no id yet: enough to know where to look."""
    return Resource(cloud=job.cloud.name, region=offer.region, kind="machine", id="", name=name)


def _request(job: Job, token: str, offer: Offer) -> CreateRequest:
    inputs = job.inputs
    expires = patiently(job.cloud.now) + timedelta(seconds=inputs.whole_life_s)
    return CreateRequest(
        run=inputs.run,
        token=token,
        names=inputs.names,
        offer=offer,
        lifetime_s=inputs.whole_life_s,
        public_key=inputs.public_key,
        hosts=inputs.hosts,
        gpus=inputs.gpus,
        tags={
            TAG_RUN: inputs.run,
            TAG_TOKEN: token,
            TAG_EXPIRES: f"{expires:%Y-%m-%dT%H:%M:%SZ}",
            TAG_LEDGER: ledger_mark(inputs.ledger),
        },
    )


def _salvage(job: Job, token: str, *, lags: bool) -> tuple[Machine, ...]:
    """What stands whole under the token, running; else nothing, and then nothing is left of it.

    PartialCreate where that cannot be told: the engine keeps the token, and the ledger the reservation.
    """
    try:
        found = _standing(job, token, lags)
        if _names(found) == set(job.inputs.names):
            found = until(lambda: _running(job, token), job.cloud.capabilities.create_limit_s) or ()
            if found:
                return found
            found = _standing(job, token, lags)
        end(job, token, {one.resource: one for one in (*_ended(job, token), *found)}.values())
        budget.release(job.ledger, job.inputs.run, token, "nothing stands")
    except MegatokError as error:
        raise PartialCreate(token, unknown(token), error) from error
    return ()


def _standing(job: Job, token: str, lags: bool) -> tuple[Machine, ...]:
    """Machines under the token. Where a listing may lag, absent means absent twice."""
    found = patiently(lambda: job.cloud.find(token))
    if not found and lags and job.cloud.capabilities.consistency_s:
        time.sleep(job.cloud.capabilities.consistency_s)
        found = patiently(lambda: job.cloud.find(token))
    return found


def _ended(job: Job, token: str) -> tuple[Item, ...]:
    """What the token is known to have made, as far as the cloud remembers it: all of it may have ended by itself."""
    commits = (event for event in job.ledger.events(job.inputs.run) if (event.kind, event.token) == ("commit", token))
    made = dict.fromkeys(resource for event in commits for resource in event.resources)
    return tuple(item for resource in made if (item := patiently(partial(job.cloud.read, resource))))


def _running(job: Job, token: str) -> tuple[Machine, ...] | None:
    found = patiently(lambda: job.cloud.find(token))
    whole = {machine.name for machine in found if machine.state == "running"} == set(job.inputs.names)
    return found if whole else None


def _names(machines: tuple[Machine, ...]) -> set[str]:
    return {machine.name for machine in machines if machine.state in {"pending", "running"}}


def _keep(job: Job, token: str, machines: tuple[Machine, ...]) -> Made:
    """Commit, and see that something ends the machines when nobody does; what nothing ends is deleted at once."""
    run, resources = job.inputs.run, tuple(machine.resource for machine in machines)
    began = min(machine.started_at or machine.created_at for machine in machines)
    budget.commit(job.ledger, run, token, resources, began)
    ordered = tuple(sorted(machines, key=lambda machine: job.inputs.names.index(machine.name)))
    switches = tuple(_armed(job, machine) for machine in ordered)
    if not all(switches) and job.cloud.capabilities.billed:
        _refuse_unarmed(job, token, ordered)
    for machine, armed in zip(ordered, switches):
        for switch in armed:
            budget.armed(job.ledger, run, token, switch.kind, (machine.resource,), switch.fires_at)
    return Made(token, ordered, switches)


def _armed(job: Job, machine: Machine) -> tuple[Switch, ...]:
    """Its armed switches that do not need this machine; where it is billed and has none, they get time to arm."""

    def look() -> tuple[Switch, ...] | None:
        found = patiently(lambda: job.cloud.switches(machine))
        return tuple(switch for switch in found if switch.armed and switch.kind != "none") or None

    return until(look, ARM_S if job.cloud.capabilities.billed else 0) or ()


def _refuse_unarmed(job: Job, token: str, machines: tuple[Machine, ...]) -> None:
    error = CloudError(
        f"no dead-man switch of {token} was armed within {ARM_S:.0f} s, so it was deleted; see megatok doctor"
    )
    try:
        end(job, token, machines)
    except MegatokError as failed:
        raise PartialCreate(token, unknown(token), failed) from error
    raise error
