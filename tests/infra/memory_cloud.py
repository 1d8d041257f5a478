"""A cloud in memory, for what no simulated cloud does on demand: prices, switches that never arm, half a group."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from infra.cloud import TAG_LEDGER, Capabilities, CreateRequest, Item, Machine, Offer
from spec import clock
from spec.errors import MegatokError
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
        self.makes: Callable[[str], bool] = lambda _: True
        """Which names come into being."""
        self._ids = itertools.count(1)
        self._lock = threading.Lock()

    def check(self, cluster: Cluster) -> None:
        """Takes any."""

    def offers(self, node_type: str, regions: Sequence[str]) -> tuple[Offer, ...]:
        return tuple(
            Offer(self.name, region, node_type, "b300", 8, Decimal(price), self.as_of)
            for region, price in self.prices.items()
            if not regions or region in regions
        )

    def create(self, request: CreateRequest) -> tuple[Machine, ...]:
        with self._lock:
            self.created.append(request)
        self.before(request)
        made = tuple(self._machine(request, name) for name in request.names if self.makes(name))
        self.machines |= {machine.id: machine for machine in made}
        self.after(request)
        return made

    def find(self, token: str) -> tuple[Machine, ...]:
        if self.dumb:
            raise self.dumb
        return tuple(one for one in self.machines.values() if one.token == token and one.state != "terminated")

    def read(self, resource: Resource) -> Item | None:
        return self.machines.get(resource.id)

    def delete(self, resource: Resource) -> None:
        if self.refusals:
            raise self.refusals.pop()
        id = resource.id
        if id in self.machines and self.machines[id].state != "terminated":
            ended = self.machines[id].created_at + timedelta(seconds=90)
            self.machines[id] = replace(self.machines[id], state="terminated", ended_at=ended)

    def inventory(self, run: str | None = None) -> tuple[Item, ...]:
        return tuple(one for one in self.machines.values() if one.state != "terminated" and run in (None, one.run))

    def billed_usd(self, run: str) -> Mapping[str, Decimal]:
        return {one.id: Decimal(0) for one in self.machines.values() if self.bills and one.run == run}

    def extend(self, id: str, expires_at: datetime) -> datetime:
        self.machines[id] = replace(self.machines[id], expires_at=expires_at)
        return expires_at

    def now(self) -> datetime:
        return clock.now()

    def scope(self) -> Scope:
        return Scope(cloud=self.name, account="ours", regions=tuple(self.prices))

    def switches(self, machine: Machine) -> tuple[Switch, ...]:
        return (Switch(kind="native", armed=self.arms, fires_at=machine.expires_at),)

    def _machine(self, request: CreateRequest, name: str) -> Machine:
        now = datetime.now(UTC)
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


CLOUD = MemoryCloud()
