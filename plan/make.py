"""From a campaign and nodes to everything that will run: boots, gateways, cells, and the worst-case price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from plan.engine import engine
from plan.gateway import gateway
from plan.launch import Launch, Placement, Seat
from plan.loads import aiperf
from plan.placement import place
from plan.price import Quote, Tariff, floor_s, planned_life_s, quotes
from spec.errors import RecipeError
from spec.inventory import Ports
from spec.layout import LayoutShape
from spec.recipe import Campaign, CellKey, Cluster, Gpu, Model

ASSUMED_PORTS = Ports(first=8000, count=64)


@dataclass(frozen=True)
class Front:
    """What stands in front of a boot's replicas, and the cells measured through it. `launch` is None for `none`."""

    gateway: str
    placement: Placement
    launch: Launch | None
    cells: tuple[CellKey, ...]


@dataclass(frozen=True)
class Boot:
    """One start of the engines, shared by every cell of its layout."""

    placement: Placement
    servers: tuple[Launch, ...]
    gateways: tuple[Front, ...]


@dataclass(frozen=True)
class Plan:
    """Everything that will run, in order, and what it costs at worst."""

    campaign: Campaign
    model: Model
    gpu: Gpu
    seats: tuple[Seat, ...]
    assumed: bool
    """Names, addresses and ports of the nodes are not known before they are rented."""
    boots: tuple[Boot, ...]
    life_s: float
    """What the budget buys each node, at most the recipe's lifetime."""
    quotes: tuple[Quote, ...]

    @property
    def affordable(self) -> bool:
        """Whether the budget buys a lifetime that is worth it."""
        return self.life_s >= self.floor_s

    @property
    def floor_s(self) -> float:
        return floor_s(self.campaign.lifetime_s)

    @property
    def worst_usd(self) -> Decimal:
        return sum((quote.usd for quote in self.quotes), Decimal(0))

    @property
    def cells(self) -> tuple[CellKey, ...]:
        """All cells, in the order in which they run."""
        return tuple(cell for boot in self.boots for front in boot.gateways for cell in front.cells)

    @property
    def tools(self) -> tuple[str, ...]:
        """Foreign tools whose environments the nodes need, and the system's programs that must be there."""
        launches = [launch for boot in self.boots for launch in (*boot.servers, *_started(boot))]
        return tuple(dict.fromkeys([*(launch.tool or launch.argv[0] for launch in launches), aiperf.TOOL]))


def make(
    campaign: Campaign,
    model: Model,
    gpu: Gpu,
    tariff: Tariff,
    *,
    seats: Sequence[Seat] | None = None,
    key: bool = False,
) -> Plan:
    """The plan of `campaign` on `seats`, or on assumed ones; with `key`, servers ask their clients for it."""
    _check(campaign, model, gpu)
    whole = replace(tariff, gib=model.weights_gib)
    life_s = planned_life_s(campaign, whole)
    priced_s = life_s if life_s >= floor_s(campaign.lifetime_s) else campaign.lifetime_s
    stands = assumed_seats(campaign.cluster) if seats is None else tuple(seats)
    return Plan(
        campaign=campaign,
        model=model,
        gpu=gpu,
        seats=stands,
        assumed=seats is None,
        boots=tuple(_boot(campaign, layout, stands, key) for layout in _layouts(campaign)),
        life_s=life_s,
        quotes=quotes(campaign, whole, priced_s),
    )


def assumed_seats(cluster: Cluster) -> tuple[Seat, ...]:
    """Nodes as they will probably be, before they are rented."""
    names = [f"node-{index}" for index in range(cluster.nodes)]
    hosts = [host.address for host in cluster.hosts] or names
    return tuple(Seat(name, host, cluster.gpus_per_node, ASSUMED_PORTS) for name, host in zip(names, hosts))


def _check(campaign: Campaign, model: Model, gpu: Gpu) -> None:
    cluster = campaign.cluster
    if gpu.stand_in != cluster.stand_in:
        says = f"gpu {gpu.name} is {gpu.title}, stand_in {gpu.stand_in or 'none'}"
        raise RecipeError(f"cluster.stand_in: {cluster.stand_in or 'none'}, but {says}; make them agree")
    if campaign.client.on != "node" or campaign.client.count != 1:
        raise RecipeError("client: only `on: node` with `count: 1` can be had so far")
    engine(campaign.engine.name).check(campaign, model)


def _layouts(campaign: Campaign) -> tuple[LayoutShape, ...]:
    """Each layout once, so that the engines boot as seldom as can be; in the recipe's order."""
    return tuple(dict.fromkeys(cell.layout for cell in campaign.cells()))


def _boot(campaign: Campaign, layout: LayoutShape, seats: Sequence[Seat], key: bool) -> Boot:
    cells = [cell for cell in campaign.cells() if cell.layout == layout]
    fronts = tuple(_front(name, cells, seats) for name in dict.fromkeys(cell.gateway for cell in cells))
    placement, start = fronts[0].placement, engine(campaign.engine.name).launch
    servers = tuple(start(f"{_slug(layout)}-server-{r.index}", r, campaign, key=key) for r in placement.replicas)
    return Boot(placement, servers, fronts)


def _front(name: str, cells: Sequence[CellKey], seats: Sequence[Seat]) -> Front:
    mine = tuple(cell for cell in cells if cell.gateway == name)
    placement = place(mine[0].layout, name, seats)
    return Front(name, placement, gateway(name).launch(f"{_slug(placement.layout)}-{name}", placement), mine)


def _slug(layout: LayoutShape) -> str:
    return str(layout).lower()


def _started(boot: Boot) -> list[Launch]:
    return [front.launch for front in boot.gateways if front.launch]
