"""After an error, or after another process: what stands under a token is adopted whole, or deleted."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime
from functools import partial

from infra.cloud import Machine
from infra.clouds import cloud
from infra.engine.wire import PartialCreate
from infra.provider.end import end, give_up
from infra.provider.job import Job, patiently, until
from infra.provider.state import unknown
from money.account import account
from spec.errors import MegatokError, RecipeError


def place(job: Job, token: str) -> Job:
    """The job where the attempt's intent says that it was made: a recipe may have moved to another cloud since."""
    held = account(job.ledger.events(job.inputs.run), job.inputs.run).tokens.get(token)
    named = {resource.cloud for resource in held.intent.resources} if held and held.intent else set()
    return replace(job, cloud=cloud(named.pop())) if named and named != {job.cloud.name} else job


def salvage(job: Job, token: str, *, lags: bool) -> tuple[Machine, ...]:
    """What stands whole under the token, running and fit; else nothing, and then nothing is left of it.

    PartialCreate where that cannot be told: the engine keeps the token, and the ledger the reservation.
    """
    try:
        found = _standing(job, token, lags)
        if found:
            decided = until(lambda: _decided(job, token), job.cloud.capabilities.create_limit_s)
            found = found if decided is None else decided
        if _adoptable(job, found):
            return found
        end(job, token, found)
        give_up(job.cloud, job.ledger, job.inputs.run, token, patiently(job.cloud.now))
    except MegatokError as error:
        raise PartialCreate(token, unknown(token), error) from error
    return ()


def refuse_foreign(job: Job, machines: tuple[Machine, ...]) -> None:
    """RecipeError where a run of this name, in another ledger, has these machines: they are not ours to use or end."""
    foreign = set(machines) - set(job.ours(machines))
    if foreign:
        raise RecipeError(
            f"{', '.join(sorted(f'{one.name} ({one.id})' for one in foreign))}: accounted in another ledger; somebody "
            f"else's run is called {job.inputs.run}: take another name"
        )


def _standing(job: Job, token: str, lags: bool) -> tuple[Machine, ...]:
    """Machines under the token. Where a listing may lag, absent means absent twice."""
    found = find(job, token)
    if not found and lags and job.cloud.capabilities.consistency_s:
        time.sleep(job.cloud.capabilities.consistency_s)
        found = find(job, token)
    return found


def find(job: Job, token: str) -> tuple[Machine, ...]:
    return job.ours(patiently(partial(job.cloud.find, token)))


def _decided(job: Job, token: str) -> tuple[Machine, ...] | None:
    """As the cloud reads each now, not as a listing that may lag shows it; None while a fit one is still being made."""
    found, now = tuple(_fresh(job, one) for one in find(job, token)), patiently(job.cloud.now)
    return None if any(one.state == "pending" and _fits(job, one, now) for one in found) else found


def _fresh(job: Job, machine: Machine) -> Machine:
    read = patiently(partial(job.cloud.read, machine.resource))
    return read if isinstance(read, Machine) else replace(machine, state="terminated")


def _adoptable(job: Job, found: tuple[Machine, ...]) -> bool:
    now = patiently(job.cloud.now)
    running = {one.name for one in found if one.state == "running" and _fits(job, one, now)}
    return running == set(job.inputs.names) and len(found) == len(running)


def _fits(job: Job, machine: Machine, now: datetime) -> bool:
    """Whether it is what is asked for now: one that is being replaced, or whose time is over, is not."""
    inputs, where = job.inputs, machine.resource
    alive = machine.state in ("pending", "running") and (machine.expires_at is None or machine.expires_at > now)
    in_place = where.cloud == inputs.cloud and (not inputs.regions or where.region in inputs.regions)
    return alive and in_place and machine.node_type == inputs.node_type
