"""Nodes that exist, with addresses: what infra exports and playbooks read. `docs/schemas/inventory.json`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from spec.base import Name, Natural, Positive, Price, Seq, Spec


class Ports(Spec):
    """Ports on a node's address that are ours: `count` from `first` on."""

    first: Annotated[int, Field(gt=0, lt=65536)]
    count: Positive


class Switch(Spec):
    """One dead-man switch: what ends the node when nobody else does."""

    kind: Literal["native", "guest", "scheduled", "reaper", "none"]
    armed: bool
    fires_at: AwareDatetime | None = None
    note: str = ""


class Node(Spec):
    """One node. `id` is the cloud's word for it, `host` its address."""

    name: Name
    id: str
    index: Natural
    cloud: Name
    region: Name
    node_type: Name
    gpus: Natural
    host: str
    ssh_port: Annotated[int, Field(gt=0, lt=65536)]
    user: str
    key_file: str
    host_key: str
    """`ssh-ed25519 AAAA...`, as pinned; never learnt by connecting."""
    ports: Ports
    created_at: AwareDatetime
    expires_at: AwareDatetime | None
    usd_per_hour: Price
    switches: Seq[Switch] = ()


class Inventory(Spec):
    version: Literal[1] = 1
    run: Name
    stand_in: Literal["cpu"] | None = None
    nodes: Seq[Node]
