"""The contract that a cloud fulfils. A cloud is one module in `infra/clouds/` with a `CLOUD` object of this shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Literal, Protocol

from spec.inventory import Ports, Switch
from spec.ledger import Resource
from spec.recipe import Cluster, SshHost

TAG_RUN = "megatok-run"
TAG_TOKEN = "megatok-token"
TAG_EXPIRES = "megatok-expires"


@dataclass(frozen=True)
class Capabilities:
    """What a cloud can do, as values; what it cannot is refused when planning."""

    ttl: Literal["native", "guest", "none"]
    """`native`: the cloud itself ends a machine; `guest`: powering off ends the bill; `none`: nothing is billed."""
    billed: bool
    simulated: bool
    """The dollars are play money."""
    billing_step_s: int
    """A started step is paid whole."""
    consistency_s: float
    """A listing may lag by this much: two absent sightings stand at least so far apart."""
    create_limit_s: float
    """Longest that a create may take, from call to a node that answers SSH."""
    kinds: tuple[str, ...] = ("machine",)
    """Billable kinds that `inventory` lists."""
    spot: bool = False
    fabric: str = ""


@dataclass(frozen=True)
class Offer:
    """What may be rented now, and for how much."""

    cloud: str
    region: str
    node_type: str
    gpu: str
    gpus: int
    usd_per_hour: Decimal
    as_of: datetime


@dataclass(frozen=True)
class CreateRequest:
    """One group: all of `names` in one place, or none. `token` makes a repeated call the same call."""

    run: str
    token: str
    names: tuple[str, ...]
    offer: Offer
    lifetime_s: float
    public_key: str
    gpus: int = 0
    """GPUs that the recipe says a node has, for a cloud that cannot tell; else the offer says it."""
    hosts: tuple[SshHost, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Machine:
    """A cloud's answer about one machine. Times are the cloud's own."""

    id: str
    name: str
    run: str
    token: str
    state: Literal["pending", "running", "stopping", "terminated"]
    region: str
    node_type: str
    gpus: int
    host: str
    ssh_port: int
    user: str
    host_key: str
    ports: Ports
    usd_per_hour: Decimal
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    expires_at: datetime | None
    key_file: str = ""
    """Key that opens it, where it is not the run's own."""


class Cloud(Protocol):
    """All calls block, and raise classes of `spec.errors`: NoCapacity, QuotaExceeded, Throttled, Denied, Unanswered,
    NotYetTerminated. A machine that does not exist is None or absent, never an error."""

    name: str
    capabilities: Capabilities

    def check(self, cluster: Cluster) -> None:
        """RecipeError where the recipe cannot be right here, before anything is made: asks nobody but this machine."""

    def offers(self, node_type: str, regions: Sequence[str]) -> tuple[Offer, ...]:
        """Offers of `node_type`, in the order of `regions` (all regions, cheapest first, where it is empty)."""

    def create(self, request: CreateRequest) -> tuple[Machine, ...]:
        """Make the group and wait until it runs. After any error the outcome is unknown until `find` has looked."""

    def find(self, token: str) -> tuple[Machine, ...]:
        """Machines that exist under this token, also those still being made."""

    def read(self, id: str) -> Machine | None:
        """The machine, also a terminated one as long as the cloud remembers it."""

    def delete(self, id: str) -> None:
        """Ask for its end; absent already is success. Returns before it is gone."""

    def inventory(self, run: str | None = None) -> tuple[Resource, ...]:
        """Every billable thing that carries our tag (of `run`, or of any run) and is not gone."""

    def extend(self, id: str, expires_at: datetime) -> datetime:
        """Move the end; the cloud's answer to when that now is."""

    def billed_usd(self, run: str) -> Mapping[str, Decimal]:
        """The cloud's own figure for each machine of `run`, by id; empty where it gives none."""

    def switches(self, machine: Machine) -> tuple[Switch, ...]:
        """Dead-man switches of this machine, each as armed or not."""
