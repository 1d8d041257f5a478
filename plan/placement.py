"""Where a layout stands: replicas on nodes and GPUs, a port for each process, the gateway's and the client's node."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from plan.launch import Placement, Replica, Seat
from spec.errors import PlacementError
from spec.layout import LayoutShape, misfit

NO_GATEWAY = "none"
GATEWAY_PORTS = 2
"""One for requests, one for what the gateway tells of itself."""


def place(layout: LayoutShape, gateway: str, seats: Sequence[Seat]) -> Placement:
    """Replicas in turn on the nodes that have room; gateway and client on the node with the most GPUs free."""
    problem = misfit(layout, [seat.gpus for seat in seats])
    if problem:
        raise PlacementError(problem)
    replicas = _replicas(layout, seats)
    free = [seat.gpus - sum(len(r.gpus) for r in replicas if r.node == node) for node, seat in enumerate(seats)]
    node = free.index(max(free))
    used = sum(replica.node == node for replica in replicas)
    port = seats[node].ports.first + used
    _check_ports(replicas, seats, node if gateway != NO_GATEWAY else None)
    return Placement(
        layout=layout,
        replicas=replicas,
        gateway=gateway,
        gateway_node=node,
        gateway_host=seats[node].host,
        gateway_port=0 if gateway == NO_GATEWAY else port,
        gateway_own_port=0 if gateway == NO_GATEWAY else port + 1,
        client_node=node,
    )


def _replicas(layout: LayoutShape, seats: Sequence[Seat]) -> tuple[Replica, ...]:
    """Round robin over the nodes; each replica takes the next GPUs of its node, in order."""
    need, found = layout.gpus_per_replica, list[Replica]()
    for turn in itertools.count():
        for node, seat in enumerate(seats):
            if len(found) == layout.dp:
                return tuple(found)
            if (turn + 1) * need <= seat.gpus:
                gpus = tuple(range(turn * need, (turn + 1) * need))
                found.append(Replica(len(found), node, gpus, seat.host, seat.ports.first + turn))
    raise AssertionError("unreachable: misfit() has seen that they fit")


def _check_ports(replicas: Sequence[Replica], seats: Sequence[Seat], gateway_node: int | None) -> None:
    """PlacementError where a node has too few ports, or two nodes on one address share some."""
    for node, seat in enumerate(seats):
        need = sum(replica.node == node for replica in replicas) + (GATEWAY_PORTS if node == gateway_node else 0)
        if need > seat.ports.count:
            raise PlacementError(f"node {seat.name} needs {need} ports, it has {seat.ports.count}; lower DP")
    for one, other in itertools.combinations(seats, 2):
        first = max(one.ports.first, other.ports.first)
        last = min(one.ports.first + one.ports.count, other.ports.first + other.ports.count) - 1
        if one.host == other.host and first <= last:
            clash = f"ports {first} to {last} of {one.host}"
            raise PlacementError(f"nodes {one.name} and {other.name} both have {clash}; give each its own")
