from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plan.launch import API_KEY, Seat
from plan.make import Plan, make
from plan.price import Tariff
from spec import load
from spec.errors import PlacementError, RecipeError
from spec.inventory import Ports
from spec.layout import LayoutShape
from spec.recipe import Campaign, CellKey, Client, Engine, Grid

LOCAL = load.campaign(load.RECIPES / "campaigns" / "local.yaml")
MODEL, CPU, B200 = load.model("smollm2"), load.gpu("cpu"), load.gpu("b200")
PRICE = Decimal("0.20")


def planned(campaign: Campaign, **options: Any) -> Plan:
    return make(campaign, MODEL, CPU, Tariff(PRICE, options.pop("step_s", 1)), **options)


def edited(**changes: Any) -> Campaign:
    """The local campaign with these changes, as loosely as a test needs: nothing is validated again."""
    return LOCAL.model_copy(update=changes)


grids = st.builds(
    Grid,
    layout=st.lists(
        st.builds(LayoutShape, dp=st.integers(1, 2), tp=st.integers(1, 2)), min_size=1, max_size=3, unique=True
    ).map(tuple),
    gateway=st.lists(
        st.sampled_from(["none", "nginx", "haproxy", "vllm-router"]), min_size=1, max_size=3, unique=True
    ).map(tuple),
    concurrency=st.lists(st.integers(1, 64), min_size=1, max_size=3, unique=True).map(tuple),
)
sweeps = st.builds(
    lambda found, repeats: edited(sweep=tuple(found), repeats=repeats),
    st.lists(grids, min_size=1, max_size=3),
    st.integers(1, 2),
).filter(lambda campaign: len(set(campaign.cells())) == len(campaign.cells()))


@pytest.mark.parametrize("path", sorted((load.RECIPES / "campaigns").iterdir()), ids=lambda path: path.stem)
def test_every_campaign_can_be_planned_within_its_budget(path: Path) -> None:
    campaign = load.campaign(path)
    cluster = campaign.cluster
    price = load.price(cluster.cloud, cluster.node_type).usd_per_hour
    plan = make(campaign, load.model(campaign.model), load.gpu(cluster.gpu), Tariff(price, 60))
    assert plan.worst_usd <= campaign.budget_usd


@given(sweeps)
def test_every_cell_is_planned_once(campaign: Campaign) -> None:
    assert Counter(planned(campaign).cells) == Counter(campaign.cells())


@given(sweeps)
def test_engines_boot_once_for_each_layout_and_gateways_once_for_each_boot(campaign: Campaign) -> None:
    plan = planned(campaign)
    layouts = [boot.placement.layout for boot in plan.boots]
    assert len(layouts) == len(set(layouts)) == len({cell.layout for cell in campaign.cells()})
    for boot in plan.boots:
        names = [front.gateway for front in boot.gateways]
        assert len(names) == len(set(names))


@given(sweeps)
def test_cells_stand_behind_their_own_gateway_and_layout(campaign: Campaign) -> None:
    for boot in planned(campaign).boots:
        for front in boot.gateways:
            assert {(cell.layout, cell.gateway) for cell in front.cells} == {(boot.placement.layout, front.gateway)}
            assert front.placement.replicas == boot.placement.replicas


def test_servers_have_the_address_of_their_replica() -> None:
    for boot in planned(LOCAL).boots:
        for replica, launch in zip(boot.placement.replicas, boot.servers):
            argv = launch.argv
            assert argv[argv.index("--host") + 1] == replica.host
            assert argv[argv.index("--port") + 1] == str(replica.port) == str(launch.port)
            assert launch.node == replica.node


def test_tools_are_those_that_the_nodes_need() -> None:
    assert planned(LOCAL).tools == ("llamacpp", "nginx", "aiperf")
    grid = Grid(layout=(LayoutShape(dp=1),), gateway=("vllm-router",), concurrency=(1,))
    assert planned(edited(sweep=(grid,))).tools == ("llamacpp", "vllm-router", "aiperf")


def test_worst_case_is_every_node_for_its_whole_lifetime_at_the_dearest_price_allowed() -> None:
    assert planned(LOCAL).worst_usd == Decimal("0.2")
    assert planned(LOCAL, step_s=3600).worst_usd == Decimal("0.4")
    dear = LOCAL.cluster.model_copy(update={"max_usd_per_hour": Decimal(3)})
    assert planned(edited(cluster=dear, budget_usd=Decimal(3))).worst_usd == Decimal(3)


def test_small_budget_shortens_the_lifetime_that_is_planned_until_it_is_not_worth_it() -> None:
    whole, less, least = (planned(edited(budget_usd=Decimal(usd))) for usd in ("0.2", "0.1", "0.0666"))
    assert (whole.life_s, whole.affordable) == (1800, True)
    assert (less.life_s, less.affordable, less.worst_usd) == (900, True, Decimal("0.1"))
    assert (least.life_s, least.affordable, least.worst_usd) == (599, False, Decimal("0.2"))


def test_real_nodes_take_the_place_of_assumed_ones() -> None:
    seats = [Seat(f"run-{i}", "127.0.0.1", 2, Ports(first=21000 + 100 * i, count=24)) for i in range(2)]
    plan = planned(LOCAL, seats=seats)
    assert planned(LOCAL).assumed
    assert not plan.assumed
    assert plan.boots[0].placement.endpoints == ("http://127.0.0.1:21000", "http://127.0.0.1:21100")


def test_fewer_nodes_than_planned_do_not_fit() -> None:
    with pytest.raises(PlacementError, match="DP2xTP1 needs room for 2 replicas, 1 nodes with 1 GPUs hold 1"):
        planned(LOCAL, seats=[Seat("run-0", "127.0.0.1", 1, Ports(first=21000, count=24))])


def test_key_is_asked_for_in_the_environment_and_nowhere_else() -> None:
    servers = [launch for boot in planned(LOCAL, key=True).boots for launch in boot.servers]
    assert all(launch.secrets == (API_KEY,) for launch in servers)
    assert not any(API_KEY in " ".join(launch.argv) for launch in servers)
    assert not any(launch.secrets for boot in planned(LOCAL).boots for launch in boot.servers)


@pytest.mark.parametrize(
    ("campaign", "said"),
    [
        (edited(engine=Engine(name="vlm")), "engine.name: unknown engine 'vlm'; there are llamacpp"),
        (
            edited(sweep=(Grid(layout=(LayoutShape(dp=1),), gateway=("ngix",), concurrency=(1,)),)),
            "sweep: unknown gateway 'ngix'; there are none, nginx, haproxy, vllm-router",
        ),
        (edited(client=Client(on="own")), "client: only `on: node` with `count: 1` can be had so far"),
        (
            edited(cluster=LOCAL.cluster.model_copy(update={"stand_in": None})),
            "cluster.stand_in: none, but gpu cpu is CPU core (stand-in for a GPU), stand_in cpu; make them agree",
        ),
        (
            edited(engine=Engine(name="llamacpp", speculation="mtp4", context_tokens=512)),
            "engine.speculation: 'mtp4' is unknown; take none, ngram-mod, ngram-simple",
        ),
        (
            edited(engine=Engine(name="llamacpp", context_tokens=125)),
            "engine.context_tokens: 125 is below 126 (64 in + 30 for the chat template + 32 out); raise it",
        ),
        (
            edited(engine=Engine(name="llamacpp", context_tokens=8193)),
            "engine.context_tokens: 8193 is too long, SmolLM2-135M-Instruct ends at 8192; lower it",
        ),
        (
            edited(sweep=(Grid(layout=(LayoutShape(dp=1, pp=2),), gateway=("none",), concurrency=(1,)),)),
            "sweep: layout DP1xTP1xPP2: llamacpp has neither PP nor EP; write DPnxTPm",
        ),
    ],
)
def test_what_cannot_be_planned_is_told(campaign: Campaign, said: str) -> None:
    with pytest.raises(RecipeError) as caught:
        planned(campaign)
    assert str(caught.value) == said


def test_llamacpp_without_a_stand_in_is_refused() -> None:
    gpus = LOCAL.cluster.model_copy(update={"stand_in": None, "gpu": "b200"})
    with pytest.raises(RecipeError, match="llamacpp runs on processors only"):
        make(edited(cluster=gpus), MODEL, B200, Tariff(PRICE, 1))


def test_cells_keep_the_recipes_order_within_a_boot() -> None:
    assert planned(LOCAL).cells == LOCAL.cells()
    assert isinstance(planned(LOCAL).cells[0], CellKey)
