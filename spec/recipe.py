"""Recipes: what a user asks for. Units live in the key names."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from spec.base import Budget, Name, Natural, Positive, Price, Seconds, Seq, Some, Spec
from spec.layout import Layout, misfit

AT = "at"
"""Key in an error's context: path, below the model that refused, of the value that was wrong."""


MOST_CELLS = 1000
"""At a minute a cell, more than a whole day of them is a mistake in the sweep."""


def _refused(problem: str, *at: str | int) -> PydanticCustomError:
    return PydanticCustomError("refused", "{problem}", {"problem": problem, AT: at})


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
    weights_gib: Annotated[float, Field(ge=0)] = 0.0
    """What each node downloads: priced where traffic bills."""
    licence: str
    source: str


class PriceExtra(Spec):
    """What a node costs beside its hours, as `infra.cloud.Extra` tells it live."""

    kind: Name
    usd_per_hour: Price = Field(default=0, validate_default=True)
    usd_once: Price = Field(default=0, validate_default=True)
    usd_per_gib: Price = Field(default=0, validate_default=True)


class PriceEntry(Spec):
    """What one node type costs an hour (`recipes/prices/`), as of a day."""

    cloud: Name
    node_type: Name
    usd_per_hour: Price
    extras: Seq[PriceExtra] = ()
    """Per node: disk, address, fee, egress."""
    currency: Literal["USD"] = "USD"
    as_of: str
    source: str


class PriceList(Spec):
    """All that one cloud asks (`recipes/prices/CLOUD.yaml`)."""

    version: Literal[1] = 1
    entries: Some[PriceEntry]


class Speed(Spec):
    """What one replica on `tp` GPUs does with one request at a time."""

    tp: Positive
    prefill_tok_per_s: Annotated[float, Field(gt=0)]
    decode_tok_per_s: Annotated[float, Field(gt=0)]


class BatchGain(Spec):
    """How much faster a replica decodes, all answers together, with so many requests in flight."""

    in_flight: Positive
    gain: Annotated[float, Field(gt=0)]


class Calibration(Spec):
    """Measured speeds that forecasts rest on (`recipes/calibration/ENGINE-MODEL-GPU.yaml`)."""

    version: Literal[1] = 1
    engine: Name
    model: Name
    gpu: Name
    speeds: Some[Speed]
    gains: Some[BatchGain]
    low_share: Annotated[float, Field(gt=0, le=1)]
    high_share: Annotated[float, Field(ge=1)]
    """The interval of a forecast, as shares of it."""
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

    @model_validator(mode="after")
    def _a_host_for_each_node(self) -> Self:
        wanted = self.nodes if self.cloud == "ssh" else 0
        if len(self.hosts) != wanted:
            raise _refused(
                f"{len(self.hosts)} hosts, but cloud {self.cloud} with {self.nodes} nodes takes {wanted}", "hosts"
            )
        return self


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
    """Part of `isl_tokens` that is the same in every request."""
    seed: Natural = 7

    @model_validator(mode="after")
    def _something_differs(self) -> Self:
        if self.shared_prefix_tokens >= self.isl_tokens:
            problem = f"{self.shared_prefix_tokens} shared of {self.isl_tokens} leave nothing that differs; lower it"
            raise _refused(problem, "shared_prefix_tokens")
        return self


class Client(Spec):
    """Where the load generator runs: `node` beside the servers, `own` on a machine of its own."""

    on: Literal["node", "own"] = "node"
    count: Positive = 1


class Grid(Spec):
    """Every combination of these is one cell."""

    layout: Some[Layout]
    gateway: Some[Name]
    concurrency: Some[Positive]

    @property
    def count(self) -> int:
        return len(self.layout) * len(self.gateway) * len(self.concurrency)

    def cells(self, repeats: int) -> Iterator[CellKey]:
        for layout, gateway, concurrency in itertools.product(self.layout, self.gateway, self.concurrency):
            for repeat in range(1, repeats + 1):
                yield CellKey(layout=layout, gateway=gateway, concurrency=concurrency, repeat=repeat)


class Campaign(Spec):
    """A whole question (`recipes/campaigns/`): a cluster, what to serve on it, and the cells to measure."""

    version: Literal[1] = 1
    name: Name
    title: str
    budget_usd: Budget
    lifetime_s: Seconds
    cluster: Cluster
    model: Name
    engine: Engine
    workload: Workload
    sweep: Some[Grid]
    repeats: Positive = 1
    client: Client = Client()
    smoke_floor_share: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Smoke fails below this share of the forecast speed."""

    @model_validator(mode="after")
    def _not_too_many_cells(self) -> Self:
        count = sum(grid.count for grid in self.sweep) * self.repeats
        if count > MOST_CELLS:
            problem = f"{count} cells with all repeats, more than {MOST_CELLS}; shorten the sweep, or lower repeats"
            raise _refused(problem, "sweep")
        return self

    @model_validator(mode="after")
    def _no_twin_cells(self) -> Self:
        seen: set[CellKey] = set()
        for index, grid in enumerate(self.sweep):
            for key in grid.cells(self.repeats):
                if key in seen:
                    raise _refused(f"cell {key} stands twice; remove one", "sweep", index)
                seen.add(key)
        return self

    @model_validator(mode="after")
    def _enough_requests(self) -> Self:
        """No more can be in flight than there are: such a cell would be published under a load that it never saw."""
        for index, grid in enumerate(self.sweep):
            for at, concurrency in enumerate(grid.concurrency):
                if concurrency > self.workload.requests:
                    problem = (
                        f"{concurrency} in flight, but workload {self.workload.name} has {self.workload.requests} "
                        "requests; lower it, or give the workload more requests"
                    )
                    raise _refused(problem, "sweep", index, "concurrency", at)
        return self

    @model_validator(mode="after")
    def _layouts_fit(self) -> Self:
        for index, grid in enumerate(self.sweep):
            for at, layout in enumerate(grid.layout):
                problem = misfit(layout, (self.cluster.gpus_per_node,) * self.cluster.nodes)
                if problem:
                    raise _refused(problem, "sweep", index, "layout", at)
        return self

    def cells(self) -> tuple[CellKey, ...]:
        """All cells, in the order in which the sweep writes them."""
        return tuple(key for grid in self.sweep for key in grid.cells(self.repeats))


class CellKey(Spec):
    """One point of a campaign."""

    layout: Layout
    gateway: Name
    concurrency: Positive
    repeat: Positive = 1

    def __str__(self) -> str:
        return f"{self.layout}-{self.gateway}-c{self.concurrency}-r{self.repeat}"


Campaign.model_rebuild()
