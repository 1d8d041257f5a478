"""`NodeGroup` as the engine asks for it: check, diff, create, read, update, delete."""

from __future__ import annotations

import threading
from datetime import timedelta
from decimal import Decimal

from infra.cloud import Item
from infra.clouds import CLOUDS, cloud
from infra.engine.wire import UNKNOWN, Checked, Difference, Values
from infra.provider import state as states
from infra.provider.create import create
from infra.provider.end import end
from infra.provider.job import Job, Owner, patiently
from infra.provider.ledgers import Ledgers
from money import budget
from spec.cost import worst_case_usd
from spec.errors import RecipeError
from spec.group import GroupInputs, GroupState
from spec.inventory import Node

OUTPUTS = tuple(GroupState.model_fields)
UPDATES = frozenset({"extend_s"})
LATER = frozenset({"budget_usd", "lifetime_s"})
"""Count for the nodes that are still to be made: the end of a node is fixed once, when it is made."""


class NodeGroups:
    """The resource kind `megatok:infra:NodeGroup`."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._ledgers = Ledgers()

    def check(self, inputs: Values) -> Checked:
        """Refuses before anything is done; and reads who owns the run, so that a later owner can fence this process."""
        faults = GroupInputs.faults(inputs)
        if not faults and inputs["cloud"] not in CLOUDS:
            faults["cloud"] = f"unknown cloud {inputs['cloud']!r}; there are {', '.join(sorted(CLOUDS))}"
        if faults:
            return Checked(inputs, faults)
        whole = GroupInputs.of(inputs)
        try:
            self._ledgers.look(whole)
        except RecipeError as error:
            return Checked(inputs, {"ledger": str(error)})
        return Checked(whole.model_dump(mode="json"))

    def diff(self, state: Values, old: Values, new: Values) -> Difference:
        if not state.get("nodes"):
            return Difference(replaces=("token",))
        changed = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
        longer = new.get("extend_s", 0) > state.get("extended_s", 0)
        return Difference(tuple(sorted(changed - UPDATES - LATER)), ("extend_s",) if longer else ())

    def create(self, inputs: Values, preview: bool) -> tuple[str, Values]:
        if preview:
            return UNKNOWN, dict.fromkeys(OUTPUTS, UNKNOWN)
        job = self._job(inputs)
        owner = Owner(self._ledgers.epoch(job.inputs), self._stop)
        made = create(job, owner)
        nodes = [
            states.node(job.inputs, job.inputs.index + offset, machine, switches)
            for offset, (machine, switches) in enumerate(zip(made.machines, made.switches))
        ]
        return made.token, states.state(nodes, made.token, job.inputs.extend_s)

    def read(self, id: str, state: Values, inputs: Values) -> Values | None:
        """None as soon as one node is gone: a group stands whole, or it is made anew."""
        job, known = self._job(inputs), GroupState.of(state)
        if not known.nodes:
            return state if patiently(lambda: job.cloud.find(id)) else None
        machines = [_alive(job, one, known.token) for one in known.nodes]
        if not all(machines):
            return None
        nodes = [
            one.model_copy(update={"expires_at": found.expires_at})
            for one, found in zip(known.nodes, machines)
            if found
        ]
        return states.state(nodes, known.token, known.extended_s)

    def update(self, id: str, state: Values, inputs: Values, preview: bool) -> Values:
        """Move the end of nodes that stand: first set the money aside, then ask the cloud."""
        known = GroupState.of(state)
        if preview:
            return dict(state) | {"nodes": UNKNOWN, "expires_at": UNKNOWN, "extended_s": inputs["extend_s"]}
        job = self._job(inputs)
        more_s = job.inputs.extend_s - known.extended_s
        if more_s <= 0:
            return state
        self._reserve_more(job, known, more_s)
        nodes = [_extended(job, one, more_s) for one in known.nodes]
        return states.state(nodes, known.token, job.inputs.extend_s)

    def delete(self, id: str, state: Values, inputs: Values) -> None:
        """End what the state names and what carries the token; gone already is success."""
        job, known = self._job(inputs), GroupState.of(state)
        named = (job.machine(node, id) for node in known.nodes)
        standing: tuple[Item, ...] = (*named, *patiently(lambda: job.cloud.find(id)))
        end(job, id, {one.id: one for one in standing}.values())
        if not known.nodes:
            budget.release(job.ledger, job.inputs.run, id, "nothing stands")

    def cancel(self) -> None:
        self._stop.set()

    def _job(self, inputs: Values) -> Job:
        whole = GroupInputs.of(inputs)
        return Job(whole, cloud(whole.cloud), self._ledgers.ledger(whole.ledger))

    def _reserve_more(self, job: Job, known: GroupState, more_s: float) -> None:
        capabilities = job.cloud.capabilities
        if not capabilities.billed:
            return
        step_s = capabilities.billing_step_s
        usd = sum((worst_case_usd(one.usd_per_hour, more_s, step_s) for one in known.nodes), Decimal(0))
        budget.extend(job.ledger, job.inputs.run, self._ledgers.epoch(job.inputs), known.token, usd)


def _alive(job: Job, one: Node, token: str) -> Item | None:
    found = job.machine(one, token)
    return found if found.state in {"pending", "running"} else None


def _extended(job: Job, one: Node, more_s: float) -> Node:
    """Counted from the end on record, so that a second try asks for the same."""
    if one.expires_at is None:
        return one
    wanted = one.expires_at + timedelta(seconds=more_s)
    return one.model_copy(update={"expires_at": patiently(lambda: job.cloud.extend(one.id, wanted))})
