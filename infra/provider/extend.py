"""A longer life for nodes that stand: set the money aside, re-arm, see that it is so; only then is it on record."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial

from infra.cloud import Machine
from infra.provider import switches
from infra.provider.end import beside
from infra.provider.job import Job, patiently, until
from money import budget
from money.account import account
from spec.cost import worst_case_usd
from spec.errors import CloudError, MegatokError, OverBudget
from spec.group import GroupState
from spec.inventory import Node

CLOSE = timedelta(seconds=2)
"""A switch may count in whole seconds."""


def extend(job: Job, epoch: int, known: GroupState) -> tuple[Node, ...]:
    """The nodes with their new ends, counted from the first ones: asked for twice, they move once.

    Where one cannot be re-armed all get their old ends back, and the money is free again.
    """
    token, more_s = known.token, job.inputs.extend_s - known.extended_s
    wanted = _wanted(known, job.inputs.extend_s)
    ends = [end for end in wanted if end]
    if not ends:
        return known.nodes
    _refuse_over(job, known, wanted)
    until_at = max(ends) + timedelta(seconds=job.cloud.capabilities.delete_s)
    _set_aside(job, epoch, token, _more_usd(job, known, more_s), until_at)
    try:
        return tuple(_moved(job, token, node, end) for node, end in zip(known.nodes, wanted))
    except MegatokError as error:
        _give_back(job, epoch, known, until_at, error)
        raise


def _set_aside(job: Job, epoch: int, token: str, usd: Decimal, until_at: datetime) -> None:
    run = job.inputs.run
    try:
        budget.extend(job.ledger, run, epoch, token, usd, until_at)
    except OverBudget as error:
        now = account(job.ledger.events(run), run)
        if not now.is_open or usd <= now.free_usd:
            raise
        raise OverBudget(
            f"{token} needs {usd} USD more in the worst case, run {run!r} has {now.free_usd} USD free: budget "
            f"{now.budget_usd}, settled {now.settled_usd}, reserved {now.reserved_usd}; extend by less: the budget of "
            "a run stays what it was begun with"
        ) from error


def _wanted(known: GroupState, extend_s: float) -> Sequence[datetime | None]:
    if known.first_ends:
        return [end + timedelta(seconds=extend_s) if end else None for end in known.first_ends]
    more = timedelta(seconds=extend_s - known.extended_s)  # made by a program that did not keep the first ends
    return [node.expires_at + more if node.expires_at else None for node in known.nodes]


def _refuse_over(job: Job, known: GroupState, wanted: Sequence[datetime | None]) -> None:
    """CloudError where a node has ended, should have, or would have by its new end: nothing is set aside for it."""
    now = patiently(job.cloud.now)
    for node, end in zip(known.nodes, wanted):
        found = job.machine(node, known.token)
        if found.state not in ("pending", "running"):
            raise CloudError(f"{node.name} ({node.id}) cannot live longer: it has ended; {_way_out(job)}")
        over = [at for at in (found.expires_at, end) if at and at <= now]
        if over:
            raise CloudError(
                f"{node.name} ({node.id}) cannot live until {min(over):%Y-%m-%dT%H:%M:%SZ}: it is {now:%H:%M:%SZ} on "
                f"{job.cloud.name}; {_way_out(job)}"
            )


def _way_out(job: Job) -> str:
    return f"end what is left of it: megatok down {job.inputs.run}"


def _more_usd(job: Job, known: GroupState, more_s: float) -> Decimal:
    """The nodes, and the disks and addresses made with them."""
    bills = job.cloud.capabilities
    if not bills.billed:
        return Decimal(0)
    prices = {node.id: node.usd_per_hour for node in known.nodes}
    prices |= {item.id: item.usd_per_hour for item in beside(job, known.token) if item.state != "terminated"}
    return sum((worst_case_usd(price, more_s, bills.billing_step_s) for price in prices.values()), Decimal(0))


def _moved(job: Job, token: str, node: Node, end: datetime | None) -> Node:
    """The node once all that was armed fires at `end`, as the cloud itself reads it."""
    if end is None:
        return node
    patiently(partial(job.cloud.extend, node.id, end))
    found = until(lambda: _rearmed(job, token, node, end), switches.ARM_S)
    if found is None:
        raise CloudError(
            f"{node.name} ({node.id}) was told to live until {end:%Y-%m-%dT%H:%M:%SZ}, and not all of its dead-man "
            f"switches say so within {switches.ARM_S:.0f} s; see megatok doctor"
        )
    return found


def _rearmed(job: Job, token: str, node: Node, end: datetime) -> Node | None:
    machine = job.machine(node, token)
    if not isinstance(machine, Machine) or machine.expires_at is None or abs(machine.expires_at - end) > CLOSE:
        return None
    now = switches.look(job.cloud, job.ledger, machine)
    was = {switch.kind for switch in node.switches if switch.armed}
    timed = [switch for switch in now if switch.kind in ("native", "guest") and (switch.armed or switch.kind in was)]
    if any(not one.armed or (one.fires_at and abs(one.fires_at - end) > CLOSE) for one in timed):
        return None
    return node.model_copy(update={"expires_at": machine.expires_at, "switches": now})


def _ends_as_before(job: Job, token: str, node: Node) -> bool | None:
    """None while that is not so. What has ended lives no longer than it did."""
    found, end = job.machine(node, token), node.expires_at
    if found.state == "terminated":
        return True
    return True if found.expires_at and end and found.expires_at <= end + CLOSE else None


def _moved_back(job: Job, token: str, node: Node) -> bool:
    if node.expires_at is None or job.machine(node, token).state == "terminated":
        return True
    with contextlib.suppress(CloudError):  # it may have ended meanwhile: what is so is read below
        patiently(partial(job.cloud.extend, node.id, node.expires_at))
    return bool(until(lambda: _ends_as_before(job, token, node), switches.ARM_S))


def _give_back(job: Job, epoch: int, known: GroupState, until_at: datetime, why: MegatokError) -> None:
    """Old ends again, of all; where that is not shown to be so, the money stays set aside."""
    moved_back = [_moved_back(job, known.token, node) for node in known.nodes]
    if all(moved_back):
        budget.unextend(job.ledger, job.inputs.run, epoch, known.token, until_at, str(why))
