"""What a `NodeGroup` is asked for, and what it answers: both sides of the resource in a Pulumi stack."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import AwareDatetime, Field, ValidationError

from spec.base import Budget, Name, Natural, Positive, Price, Seconds, Seq, Spec
from spec.inventory import Node
from spec.recipe import PriceExtra, SshHost

NODE_GROUP = "megatok:infra:NodeGroup"
"""Its type in a Pulumi program and state."""


class GroupInputs(Spec):
    """1 to k nodes that must stand in one place, all or none."""

    run: Name
    index: Natural
    """Of its first node."""
    count: Positive
    cloud: Name
    node_type: Name
    regions: Seq[Name] = ()
    groups: Positive = 1
    """That the run has, made side by side: each may use an equal share of the money."""
    max_usd_per_hour: Price | None = None
    """The dearest price that the recipe allows, also where the cloud's own is old."""
    planned_usd_per_hour: Price | None = None
    """What the plan reckoned with: a dearer offer is not taken where the recipe names no price."""
    planned_extras: Seq[PriceExtra] | None = None
    """Likewise beside the hours; None where there is no plan."""
    transfer_gib: Annotated[float, Field(ge=0)] = 0.0
    """What each node moves, for offers that bill it."""
    lifetime_s: Seconds
    extend_s: Annotated[float, Field(ge=0)] = 0.0
    """All that was ever added to `lifetime_s`."""
    budget_usd: Budget
    ledger: str
    public_key: str
    key_file: str
    hosts: Seq[SshHost] = ()
    gpus: Natural = 0
    """GPUs that a node has by the recipe, for a cloud that cannot tell."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.run}-{self.index + offset}" for offset in range(self.count))

    @property
    def whole_life_s(self) -> float:
        return self.lifetime_s + self.extend_s

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """From JSON values."""
        return cls.model_validate_json(json.dumps(dict(values)))

    @classmethod
    def faults(cls, values: Mapping[str, Any]) -> dict[str, str]:
        """Which of the JSON values cannot be used, and why; empty where `of` takes them."""
        try:
            cls.of(values)
        except ValidationError as error:
            return {".".join(map(str, one["loc"])) or "inputs": one["msg"] for one in error.errors()}
        return {}


class GroupState(Spec):
    """Outputs. `nodes` is empty where a create failed and what it left is not known: only a delete can follow."""

    nodes: Seq[Node]
    expires_at: AwareDatetime | None
    """The earliest end of its nodes."""
    life_s: float = 0.0
    """What the nodes were given: less than asked for where the budget did not buy that."""
    first_ends: Seq[AwareDatetime | None] = ()
    """Of each node, before any extension: extensions count from there, so that asking twice is asking once."""
    token: str
    region: str
    extended_s: float
    """The `extend_s` that `expires_at` has in it."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """From JSON values."""
        return cls.model_validate_json(json.dumps(dict(values)))
