"""Machines of a cloud as the state of a resource, and as nodes of an inventory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from infra.cloud import Machine
from spec.group import GroupInputs, GroupState
from spec.inventory import Node, Switch


def node(inputs: GroupInputs, index: int, machine: Machine, switches: Sequence[Switch]) -> Node:
    return Node(
        name=machine.name,
        id=machine.id,
        index=index,
        cloud=inputs.cloud,
        region=machine.resource.region,
        node_type=machine.node_type,
        gpus=machine.gpus,
        host=machine.host,
        ssh_port=machine.ssh_port,
        user=machine.user,
        key_file=machine.key_file or inputs.key_file,
        host_key=machine.host_key,
        ports=machine.ports,
        created_at=machine.created_at,
        expires_at=machine.expires_at,
        usd_per_hour=machine.usd_per_hour,
        switches=tuple(switches),
    )


def made(nodes: Sequence[Node], token: str, extend_s: float) -> dict[str, Any]:
    """The outputs of a group that was just made: `extend_s` is in its lifetime already."""
    already = timedelta(seconds=extend_s)
    lives = [(node.expires_at - node.created_at).total_seconds() for node in nodes if node.expires_at]
    whole = GroupState(
        nodes=tuple(nodes),
        expires_at=first_end(nodes),
        life_s=min(lives, default=0.0),
        first_ends=tuple(node.expires_at - already if node.expires_at else None for node in nodes),
        token=token,
        region=nodes[0].region,
        extended_s=extend_s,
    )
    return whole.model_dump(mode="json")


def changed(known: GroupState, nodes: Sequence[Node], extended_s: float | None = None) -> dict[str, Any]:
    """The outputs of a group whose nodes have other ends now."""
    news: dict[str, Any] = {"nodes": tuple(nodes), "expires_at": first_end(nodes)}
    news |= {} if extended_s is None else {"extended_s": extended_s}
    return known.model_copy(update=news).model_dump(mode="json")


def first_end(nodes: Sequence[Node]) -> datetime | None:
    return min((node.expires_at for node in nodes if node.expires_at), default=None)


def unknown(token: str) -> dict[str, Any]:
    """The outputs of a create that failed, where something may stand under `token`."""
    nothing = GroupState(nodes=(), expires_at=None, token=token, region="", extended_s=0.0)
    return nothing.model_dump(mode="json")
