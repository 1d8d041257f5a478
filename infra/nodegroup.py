"""`NodeGroup` in a Pulumi program, and the inventory of a cluster made of them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from infra.keys import key_file, public_key
from infra.settings import StackSettings
from spec import load
from spec.errors import RecipeError
from spec.group import NODE_GROUP, GroupState
from spec.inventory import Inventory
from spec.recipe import Cluster


class NodeGroup(pulumi.CustomResource):
    """1 to k nodes that stand in one place, all or none; served by our own plug-in."""

    nodes: pulumi.Output[list[dict[str, Any]]]
    expires_at: pulumi.Output[str | None]
    token: pulumi.Output[str]
    region: pulumi.Output[str]

    def __init__(self, name: str, inputs: Mapping[str, Any], opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(NODE_GROUP, name, {**inputs, **dict.fromkeys(GroupState.model_fields)}, opts)


def stand_up(settings: StackSettings, cluster: Cluster) -> tuple[NodeGroup, ...]:
    """One group a node: they land side by side, in whatever place has room for one."""
    wanted = settings.nodes or cluster.nodes
    if cluster.hosts and wanted > len(cluster.hosts):
        raise RecipeError(
            f"{wanted} nodes, but {cluster.name} names {len(cluster.hosts)} hosts; name one for each node"
        )
    key = key_file()
    shared = {**_planned(settings, cluster), "groups": wanted, "public_key": public_key(key), "key_file": str(key)}
    groups = ({**_inputs(settings, cluster, index), **shared} for index in range(wanted))
    return tuple(NodeGroup(f"{settings.run}-{inputs['index']}", inputs) for inputs in groups)


def _planned(settings: StackSettings, cluster: Cluster) -> dict[str, Any]:
    """What a plan of this recipe reckons with: an offer that is dearer is not taken silently."""
    gib = load.weights_gib(settings.recipe)
    with contextlib.suppress(RecipeError):  # a node type of which no price is kept: the cloud's own counts
        price = load.price(cluster.cloud, cluster.node_type).model_dump(mode="json")
        return {
            "transfer_gib": gib,
            "planned_usd_per_hour": price["usd_per_hour"],
            "planned_extras": price["extras"],
        }
    return {"transfer_gib": gib}


def _inputs(settings: StackSettings, cluster: Cluster, index: int) -> dict[str, Any]:
    """JSON values of `spec.group.GroupInputs`; the plug-in refuses what does not fit."""
    told = cluster.model_dump(mode="json", include={"cloud", "node_type", "regions", "max_usd_per_hour"})
    return {
        **told,
        "run": settings.run,
        "index": index,
        "count": 1,
        "lifetime_s": settings.lifetime_s,
        "extend_s": settings.extend_s,
        "budget_usd": format(settings.budget_usd, "f"),
        "ledger": settings.ledger,
        "gpus": cluster.gpus_per_node,
        "hosts": [host.model_dump(mode="json") for host in cluster.hosts[index : index + 1]],
    }


def inventory(settings: StackSettings, cluster: Cluster, groups: Sequence[NodeGroup]) -> pulumi.Output[dict[str, Any]]:
    """`spec.inventory.Inventory` as a JSON value, for the stack's output of that name."""
    empty = Inventory(run=settings.run, stand_in=cluster.stand_in, nodes=()).model_dump(mode="json")
    nodes: pulumi.Output[list[list[dict[str, Any]]]] = pulumi.Output.all(*(group.nodes for group in groups))
    return nodes.apply(lambda found: {**empty, "nodes": [node for group in found for node in group]})
