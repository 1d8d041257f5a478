from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plan.launch import Placement, Seat
from plan.placement import GATEWAY_PORTS, place
from spec.errors import PlacementError
from spec.inventory import Ports
from spec.layout import LayoutShape

PORTS = 24


@dataclass(frozen=True)
class Placed:
    on: list[Seat]
    placement: Placement


def seats(gpus: list[int], *, shared: bool = True) -> list[Seat]:
    """Nodes on one address with a block of ports each, or on an address of their own with the same ports."""
    ports = [Ports(first=20000 + (PORTS * index if shared else 0), count=PORTS) for index in range(len(gpus))]
    hosts = ["127.0.0.1" if shared else f"10.0.0.{index}" for index in range(len(gpus))]
    return [Seat(f"n-{i}", host, count, at) for i, (host, count, at) in enumerate(zip(hosts, gpus, ports))]


@st.composite
def fitting(draw: st.DrawFn) -> Placed:
    """Nodes, and a layout that they have room for."""
    tp, pp = draw(st.integers(1, 8)), draw(st.integers(1, 2))
    gpus = [*draw(st.lists(st.integers(0, 8), max_size=5)), draw(st.integers(tp * pp, 16))]
    dp = draw(st.integers(1, sum(count // (tp * pp) for count in gpus)))
    on = seats(draw(st.permutations(gpus)), shared=draw(st.booleans()))
    return Placed(on, place(LayoutShape(dp=dp, tp=tp, pp=pp), draw(st.sampled_from(["none", "nginx"])), on))


@given(fitting())
def test_replicas_share_no_gpu_and_stand_on_one_node_each(placed: Placed) -> None:
    replicas, layout = placed.placement.replicas, placed.placement.layout
    assert [replica.index for replica in replicas] == list(range(layout.dp))
    used = [(replica.node, gpu) for replica in replicas for gpu in replica.gpus]
    assert len(used) == len(set(used)) == layout.gpus
    assert all(gpu < placed.on[node].gpus for node, gpu in used)
    assert all(len(replica.gpus) == layout.gpus_per_replica for replica in replicas)


@given(fitting())
def test_ports_are_unique_on_each_address_and_belong_to_the_node(placed: Placed) -> None:
    placement = placed.placement
    used = [(replica.host, replica.port, replica.node) for replica in placement.replicas]
    if placement.gateway != "none":
        host, node = placement.gateway_host, placement.gateway_node
        used += [(host, placement.gateway_port, node), (host, placement.gateway_own_port, node)]
    assert len({(host, port) for host, port, _ in used}) == len(used)
    for host, port, node in used:
        ours = placed.on[node].ports
        assert host == placed.on[node].host
        assert ours.first <= port < ours.first + ours.count


@given(fitting())
def test_client_and_gateway_stand_where_most_gpus_are_free(placed: Placed) -> None:
    taken = Counter(replica.node for replica in placed.placement.replicas for _ in replica.gpus)
    free = [seat.gpus - taken[node] for node, seat in enumerate(placed.on)]
    assert free[placed.placement.client_node] == free[placed.placement.gateway_node] == max(free)


@given(st.integers(1, 8), st.integers(1, 6), st.integers(1, 4), st.data())
def test_replicas_spread_evenly_over_equal_nodes(tp: int, count: int, each: int, data: st.DataObject) -> None:
    layout = LayoutShape(dp=data.draw(st.integers(1, count * each)), tp=tp)
    replicas = place(layout, "none", seats([tp * each] * count)).replicas
    found = [sum(replica.node == node for replica in replicas) for node in range(count)]
    assert max(found) - min(found) <= 1


def test_client_is_told_every_replica_or_the_gateway() -> None:
    on = seats([2, 2])
    assert place(LayoutShape(dp=2), "none", on).endpoints == ("http://127.0.0.1:20000", "http://127.0.0.1:20024")
    assert place(LayoutShape(dp=2), "nginx", on).endpoints == ("http://127.0.0.1:20001",)


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        (LayoutShape(dp=1, tp=4), "layout DP1xTP4 needs 4 GPUs on one node, the largest has 2; lower TP or PP"),
        (
            LayoutShape(dp=3, tp=2),
            "layout DP3xTP2 needs room for 3 replicas, 2 nodes with 4 GPUs hold 2; lower DP or add nodes",
        ),
    ],
)
def test_layout_that_does_not_fit(layout: LayoutShape, said: str) -> None:
    with pytest.raises(PlacementError) as caught:
        place(layout, "none", seats([2, 2]))
    assert str(caught.value) == said


def test_node_with_too_few_ports() -> None:
    on = [Seat("n-0", "127.0.0.1", 8, Ports(first=20000, count=3))]
    assert place(LayoutShape(dp=1), "nginx", on).gateway_own_port == 20000 + GATEWAY_PORTS
    with pytest.raises(PlacementError, match="node n-0 needs 4 ports, it has 3; lower DP"):
        place(LayoutShape(dp=2), "nginx", on)


def test_nodes_on_one_address_that_share_ports() -> None:
    on = [Seat(f"n-{i}", "127.0.0.1", 1, Ports(first=20000 + 10 * i, count=12)) for i in range(2)]
    with pytest.raises(
        PlacementError, match="n-0 and n-1 both have ports 20010 to 20011 of 127.0.0.1; give each its own"
    ):
        place(LayoutShape(dp=2), "none", on)


def test_no_nodes() -> None:
    with pytest.raises(PlacementError, match="the largest has 0"):
        place(LayoutShape(dp=1), "none", [])
