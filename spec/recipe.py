"""Recipes: what a user asks for. Units live in the key names."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from spec.base import Name, Natural, Positive, Price, Seconds, Seq, Spec, Usd
from spec.layout import Layout


class Gpu(Spec):
    """One kind of GPU (`recipes/gpus/`). `stand_in` marks a CPU that plays one."""

    name: Name
    title: str
    memory_gib: Positive | None = None
    stand_in: Literal["cpu"] | None = None
    source: str


class Model(Spec):
    """Weights (`recipes/models/`) and where they come from: a package of the `package` kind holds `file`."""

    name: Name
    title: str
    package: str
    file: str
    quantisation: str
    context_tokens: Positive
    licence: str
    source: str


class PriceEntry(Spec):
    """What one node type costs an hour (`recipes/prices/`), as of a day."""

    cloud: Name
    node_type: Name
    usd_per_hour: Price
    currency: Literal["USD"] = "USD"
    as_of: str
    source: str


class SshHost(Spec):
    """A host that exists: where it is, who logs in, and the key it must show (`ssh-ed25519 AAAA...`)."""

    address: str
    port: Annotated[int, Field(gt=0, lt=65536)] = 22
    user: str
    key_file: str
    host_key: str
    usd_per_hour: Price = Field(default=0, validate_default=True)
    """Counts in rankings, not in the ledger: the host is owned, nothing is billed by the hour."""


class Cluster(Spec):
    """Nodes wanted (`recipes/clusters/`)."""

    version: Literal[1] = 1
    name: Name
    cloud: Name
    gpu: Name
    node_type: Name
    nodes: Positive
    gpus_per_node: Positive
    stand_in: Literal["cpu"] | None = None
    regions: Seq[Name] = ()
    max_usd_per_hour: Price | None = None
    """The dearest offer that may be taken, per node."""
    hosts: Seq[SshHost] = ()
    """Only for the `ssh` cloud: one entry a node."""


class Engine(Spec):
    """Serving software and its knobs."""

    name: Name
    speculation: str = "none"
    prefix_cache: bool = False
    slots: Positive = 4
    """Requests that one replica works on at once."""
    context_tokens: Positive = 2048
    """Longest prompt + answer of one request, per slot."""


class Workload(Spec):
    """Shape of the requests (`recipes/workloads/`)."""

    name: Name
    isl_tokens: Positive
    osl_tokens: Positive
    requests: Positive
    warmup_requests: Natural = 0
    shared_prefix_tokens: Natural = 0
    seed: Natural = 7


class Client(Spec):
    """Where the load generator runs: `node` beside the servers, `own` on a machine of its own."""

    on: Literal["node", "own"] = "node"
    count: Positive = 1


class Grid(Spec):
    """Every combination of these is one cell."""

    layout: Annotated[Seq[Layout], Field(min_length=1)]
    gateway: Annotated[Seq[Name], Field(min_length=1)]
    concurrency: Annotated[Seq[Positive], Field(min_length=1)]


class Campaign(Spec):
    """A whole question (`recipes/campaigns/`): a cluster, what to serve on it, and the cells to measure."""

    version: Literal[1] = 1
    name: Name
    title: str
    budget_usd: Annotated[Usd, Field(gt=0)]
    lifetime_s: Seconds
    cluster: Cluster
    model: Name
    engine: Engine
    workload: Workload
    sweep: Annotated[Seq[Grid], Field(min_length=1)]
    repeats: Positive = 1
    client: Client = Client()
    smoke_floor_share: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Smoke fails below this share of the forecast speed."""

    @model_validator(mode="after")
    def _no_twin_cells(self) -> Self:
        seen = set()
        for key in self.cells():
            if key in seen:
                raise ValueError(f"cell {key} stands twice in the sweep; remove one")
            seen.add(key)
        return self

    def cells(self) -> tuple[CellKey, ...]:
        """All cells, in the order in which the sweep writes them."""
        return tuple(
            CellKey(layout=layout, gateway=gateway, concurrency=concurrency, repeat=repeat)
            for grid in self.sweep
            for layout in grid.layout
            for gateway in grid.gateway
            for concurrency in grid.concurrency
            for repeat in range(1, self.repeats + 1)
        )


class CellKey(Spec):
    """One point of a campaign."""

    layout: Layout
    gateway: Name
    concurrency: Positive
    repeat: Positive = 1

    def __str__(self) -> str:
        return f"{self.layout}-{self.gateway}-c{self.concurrency}-r{self.repeat}"


Campaign.model_rebuild()
