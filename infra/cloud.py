"""The contract that a cloud fulfils. A cloud is one module in `infra/clouds/` with a `CLOUD` object of this shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Literal, Protocol

from spec.inventory import Ports, Switch
from spec.ledger import Resource, Scope
from spec.recipe import Cluster, SshHost

TAG_RUN = "megatok-run"
TAG_TOKEN = "megatok-token"
TAG_EXPIRES = "megatok-expires"
TAG_LEDGER = "megatok-ledger"
"""`spec.home.ledger_mark` of the ledger that the thing is accounted in."""


def expires_tag(at: datetime) -> str:
    """Value of TAG_EXPIRES."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


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
    delete_s: float = 0.0
    """Longest that a thing may still bill once its time is over or its delete was taken: part of the worst case."""
    itemizes: bool = False
    """Its `billed_usd` names at once all that it ever charged to a run, ended or not: what it lacks was never made."""
    kinds: tuple[str, ...] = ("machine",)
    """Billable kinds that `inventory` lists, in the order in which they can be deleted: one may hold those after it."""
    guest_timer: bool = False
    """Runs `user_data` at first boot, and powering off ends the bill: the timer of infra.guest is a switch too."""
    expires_command: str = ""
    """Shell command for that timer: prints, on a node, its tag `megatok-expires` as it is now."""
    spot: bool = False
    fabric: str = ""


@dataclass(frozen=True)
class Extra:
    """What a node costs beside its hours; each amount 0 where it does not apply."""

    kind: str
    """disk, address, fee, egress, ... Hours of a kind that `Capabilities.kinds` lacks are in the machine's own price
    once it stands."""
    usd_per_hour: Decimal = Decimal(0)
    usd_once: Decimal = Decimal(0)
    """Paid up front, whatever the lifetime."""
    usd_per_gib: Decimal = Decimal(0)
    """Of what the run moves: weights in, results out."""


@dataclass(frozen=True)
class Offer:
    """What may be rented now, and for how much."""

    cloud: str
    region: str
    node_type: str
    gpu: str
    gpus: int
    usd_per_hour: Decimal | None
    """None: the cloud does not say, and then it is not taken."""
    as_of: datetime
    currency: str = "USD"
    extras: tuple[Extra, ...] = ()
    """Per node."""


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
    user_data: str = ""
    """Script of the first boot, for a cloud with `ttl="guest"` or `guest_timer`: it arms the node's own switch."""
    tags: Mapping[str, str] = field(default_factory=dict)


State = Literal["pending", "running", "stopping", "terminated"]


@dataclass(frozen=True, kw_only=True)
class Item:
    """A cloud's answer about one billable thing. Times are the cloud's own, tags ours."""

    resource: Resource
    run: str
    token: str
    ledger: str
    state: State
    usd_per_hour: Decimal
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    expires_at: datetime | None

    @property
    def id(self) -> str:
        return self.resource.id

    @property
    def name(self) -> str:
        return self.resource.name

    def is_of(self, mark: str) -> bool:
        """Whether it is accounted in the ledger of that mark, or in none: else it is somebody else's."""
        return self.ledger in ("", mark)


@dataclass(frozen=True, kw_only=True)
class Machine(Item):
    """A machine has more to tell than a disk."""

    node_type: str
    gpus: int
    host: str
    ssh_port: int
    user: str
    host_key: str
    ports: Ports
    key_file: str = ""
    """Key that opens it, where it is not the run's own."""
    guest_timer: bool = False
    """Its first boot arms the node's own timer."""


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

    def read(self, resource: Resource) -> Item | None:
        """The thing, also an ended one as long as the cloud remembers it."""

    def delete(self, resource: Resource) -> None:
        """Ask for its end; absent already is success. Returns before it is gone; NotYetTerminated while in use."""

    def inventory(self, run: str | None = None) -> tuple[Item, ...]:
        """Every billable thing that carries our tag (of `run`, or of any run) and is not gone."""

    def extend(self, id: str, expires_at: datetime) -> datetime:
        """Move the end of a machine and of all that was made with it; the cloud's answer to when that now is."""

    def billed_usd(self, run: str) -> Mapping[str, Decimal]:
        """The cloud's own figure for each thing of `run`, by id; empty where it gives none."""

    def now(self) -> datetime:
        """The cloud's own clock: what its times are compared with. Ours may be wrong."""

    def scope(self) -> Scope:
        """The account that we see, and its regions that `inventory` asks: a reaper's heartbeat names them.

        NotConfigured where this machine has no credentials for the cloud.
        """

    def switches(self, machine: Machine) -> tuple[Switch, ...]:
        """Dead-man switches of this machine, each as armed or not."""
