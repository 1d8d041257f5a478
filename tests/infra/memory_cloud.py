"""A cloud in memory, for what no simulated cloud does on demand: prices, switches that never arm, half a group."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from infra.cloud import TAG_LEDGER, Capabilities, CreateRequest, Extra, Item, Machine, Offer
from spec import clock
from spec.errors import MegatokError, NotYetTerminated
from spec.inventory import Ports, Switch
from spec.ledger import Resource, Scope
from spec.recipe import Cluster

Hook = Callable[[CreateRequest], None]


class MemoryCloud:
    """See `infra.cloud.Cloud`. `before` and `after` run around the moment at which the machines exist."""

    name = "memory"

    def __init__(self) -> None:
        self.capabilities = Capabilities(
            ttl="native", billed=True, simulated=True, billing_step_s=60, consistency_s=0.0, create_limit_s=1.0
        )
        self.prices: dict[str, str] = {"near": "1.00"}
        self.as_of = datetime.now(UTC)
        self.machines: dict[str, Machine] = {}
        self.created: list[CreateRequest] = []
        self.before: Hook = lambda _: None
        self.after: Hook = lambda _: None
        self.refusals: list[MegatokError] = []
        """Raised by the next deletes."""
        self.dumb: MegatokError | None = None
        """What `find` raises."""
        self.arms = True
        self.bills = False
        self.currency = "USD"
        self.extras: tuple[Extra, ...] = ()
        """Beside each machine: a kind that `capabilities.kinds` names becomes a thing of its own."""
        self.beside: dict[str, Item] = {}
        self.ahead = timedelta(0)
        """Of our clock."""
        self.stiff: frozenset[str] = frozenset()
        """Machines whose end cannot be moved."""
        self.guest_at: Callable[[Machine], datetime | None] = lambda machine: machine.expires_at
        """When the node's own timer fires, where the cloud has one."""
        self.charges: dict[str, Decimal] = {}
        """The cloud's own bill, by id."""
        self.makes: Callable[[str], bool] = lambda _: True
        """Which names come into being."""
        self._ids = itertools.count(1)
        self._lock = threading.Lock()

    def check(self, cluster: Cluster) -> None:
        """Takes any."""

    def offers(self, node_type: str, regions: Sequence[str]) -> tuple[Offer, ...]:
        return tuple(
            Offer(
                self.name,
                region,
                node_type,
                "b300",
                8,
                Decimal(price) if price else None,
                self.as_of + self.ahead,
                self.currency,
                self.extras,
            )
            for region, price in self.prices.items()
            if not regions or region in regions
        )

    def create(self, request: CreateRequest) -> tuple[Machine, ...]:
        with self._lock:
            self.created.append(request)
        self.before(request)
        made = tuple(self._machine(request, name) for name in request.names if self.makes(name))
        self.machines |= {machine.id: machine for machine in made}
        for one, extra in ((one, extra) for one in made for extra in self.extras):
            if extra.kind in self.capabilities.kinds:
                self.beside |= {put.id: put for put in [_beside(one, extra)]}
        self.after(request)
        return made

    def find(self, token: str) -> tuple[Machine, ...]:
        if self.dumb:
            raise self.dumb
        return tuple(one for one in self.machines.values() if one.token == token and one.state != "terminated")

    def read(self, resource: Resource) -> Item | None:
        return self.machines.get(resource.id) or self.beside.get(resource.id)

    def delete(self, resource: Resource) -> None:
        if self.refusals:
            raise self.refusals.pop()
        id = resource.id
        if id in self.beside:
            self._end_beside(id)
        if id in self.machines and self.machines[id].state != "terminated":
            ended = self.machines[id].created_at + timedelta(seconds=90)
            self.machines[id] = replace(self.machines[id], state="terminated", ended_at=ended)

    def inventory(self, run: str | None = None) -> tuple[Item, ...]:
        things = (*self.machines.values(), *self.beside.values())
        return tuple(one for one in things if one.state != "terminated" and run in (None, one.run))

    def billed_usd(self, run: str) -> Mapping[str, Decimal]:
        return self.charges | {one.id: Decimal(0) for one in self.machines.values() if self.bills and one.run == run}

    def extend(self, id: str, expires_at: datetime) -> datetime:
        if id in self.stiff:
            return self.machines[id].expires_at or expires_at
        self.machines[id] = replace(self.machines[id], expires_at=expires_at)
        return expires_at

    def now(self) -> datetime:
        return clock.now() + self.ahead

    def scope(self) -> Scope:
        return Scope(cloud=self.name, account="ours", regions=tuple(self.prices))

    def switches(self, machine: Machine) -> tuple[Switch, ...]:
        native = Switch(kind="native", armed=self.arms, fires_at=machine.expires_at)
        if not self.capabilities.guest_timer:
            return (native,)
        at = self.guest_at(machine)
        return (native, Switch(kind="guest", armed=at is not None, fires_at=at))

    def _end_beside(self, id: str) -> None:
        holder = self.machines[id.removeprefix(f"{self.beside[id].resource.kind}-")]
        if holder.ended_at is None:
            raise NotYetTerminated(f"{id} is in use")
        self.beside[id] = replace(self.beside[id], state="terminated", ended_at=holder.ended_at + timedelta(seconds=30))

    def _machine(self, request: CreateRequest, name: str) -> Machine:
        now = datetime.now(UTC) + self.ahead
        return Machine(
            resource=Resource(
                cloud=self.name, region=request.offer.region, kind="machine", id=f"i-{next(self._ids)}", name=name
            ),
            run=request.run,
            token=request.token,
            ledger=request.tags.get(TAG_LEDGER, ""),
            state="running",
            node_type=request.offer.node_type,
            gpus=request.offer.gpus,
            host="192.0.2.1",
            ssh_port=22,
            user="ubuntu",
            host_key="ssh-ed25519 AAAA",
            ports=Ports(first=8000, count=8),
            usd_per_hour=request.offer.usd_per_hour or Decimal(0),
            created_at=now,
            started_at=now,
            ended_at=None,
            expires_at=now + timedelta(seconds=request.lifetime_s),
        )


def _beside(machine: Machine, extra: Extra) -> Item:
    """What comes with a machine, and is a thing of its own."""
    told = {field.name: getattr(machine, field.name) for field in fields(Item)}
    where = machine.resource.model_copy(update={"kind": extra.kind, "id": f"{extra.kind}-{machine.id}"})
    return Item(**told | {"resource": where, "usd_per_hour": extra.usd_per_hour})


CLOUD = MemoryCloud()
