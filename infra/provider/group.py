"""`NodeGroup` as the engine asks for it: check, diff, create, read, update, delete."""

from __future__ import annotations

import threading

from infra.cloud import Item
from infra.clouds import CLOUDS, cloud
from infra.engine.wire import UNKNOWN, Checked, Difference, PartialCreate, Values
from infra.provider import state as states
from infra.provider.create import create
from infra.provider.end import end, give_up
from infra.provider.extend import extend
from infra.provider.job import Job, Owner, patiently
from infra.provider.ledgers import Ledgers
from infra.provider.lost import Seen, check_counted
from infra.provider.salvage import find
from spec.errors import MegatokError, RecipeError
from spec.group import GroupInputs, GroupState
from spec.inventory import Node

OUTPUTS = tuple(GroupState.model_fields)
UPDATES = frozenset({"extend_s"})
LATER = frozenset(
    {
        "budget_usd",
        "lifetime_s",
        "groups",
        "max_usd_per_hour",
        "planned_usd_per_hour",
        "planned_extras",
        "transfer_gib",
    }
)
"""Count for the nodes that are still to be made: price and end of a node are fixed once, when it is made."""


class NodeGroups:
    """The resource kind `megatok:infra:NodeGroup`."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._ledgers = Ledgers()
        self._seen = Seen()

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
        self._seen.check(job)
        owner = Owner(self._ledgers.epoch(job.inputs), self._stop)
        made = create(job, owner)
        nodes = [
            states.node(job.inputs, job.inputs.index + offset, machine, switches)
            for offset, (machine, switches) in enumerate(zip(made.machines, made.switches))
        ]
        state = states.made(nodes, made.token, made.extended_s)
        try:
            return made.token, self._as_long(job, state)
        except MegatokError as error:
            raise PartialCreate(made.token, state, error) from error

    def read(self, id: str, state: Values, inputs: Values) -> Values | None:
        """None as soon as one node is gone: a group stands whole, or it is made anew."""
        job, known = self._job(inputs), GroupState.of(state)
        if not known.nodes:
            return state if find(job, id) else None
        machines = [_alive(job, one, known.token) for one in known.nodes]
        if not all(machines):
            return None
        check_counted(job, known)
        nodes = [
            one.model_copy(update={"expires_at": found.expires_at})
            for one, found in zip(known.nodes, machines)
            if found
        ]
        return states.changed(known, nodes)

    def update(self, id: str, state: Values, inputs: Values, preview: bool) -> Values:
        if preview:
            return dict(state) | {"nodes": UNKNOWN, "expires_at": UNKNOWN, "extended_s": inputs["extend_s"]}
        job = self._job(inputs)
        check_counted(job, GroupState.of(state))
        return self._as_long(job, state)

    def delete(self, id: str, state: Values, inputs: Values) -> None:
        """End what the state names and what carries the token; gone already is success."""
        job, known = self._job(inputs), GroupState.of(state)
        named = (job.machine(node, id) for node in known.nodes)
        end(job, id, (*named, *find(job, id)))
        if not known.nodes:
            give_up(job.cloud, job.ledger, job.inputs.run, id, patiently(job.cloud.now))

    def cancel(self) -> None:
        self._stop.set()

    def _as_long(self, job: Job, state: Values) -> Values:
        """The state once its nodes have all of `extend_s`."""
        known = GroupState.of(state)
        if job.inputs.extend_s <= known.extended_s:
            return state
        return states.changed(known, extend(job, self._ledgers.epoch(job.inputs), known), job.inputs.extend_s)

    def _job(self, inputs: Values) -> Job:
        whole = GroupInputs.of(inputs)
        return Job(whole, cloud(whole.cloud), self._ledgers.ledger(whole.ledger))


def _alive(job: Job, one: Node, token: str) -> Item | None:
    found = job.machine(one, token)
    return found if found.state in {"pending", "running"} else None
