"""What is for rent, at play-money prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

BILLING_STEP_S = 1


@dataclass(frozen=True)
class Offer:
    region: str
    node_type: str
    gpu: str
    gpus: int
    usd_per_hour: Decimal
    capacity: int
    """Nodes of this kind that may be up at once."""
    extras: Mapping[str, Decimal] = field(default_factory=dict)
    """Kinds that come with each node and are billed apart, with their dollars an hour."""


WITH_DISK = {"disk": Decimal("0.02"), "address": Decimal("0.005")}
TYPES: tuple[tuple[str, int, Decimal, Mapping[str, Decimal]], ...] = (
    ("cpu-1", 1, Decimal("0.10"), {}),
    ("cpu-2", 2, Decimal("0.20"), {}),
    ("cpu-1-disk", 1, Decimal("0.10"), WITH_DISK),
)
OFFERS = tuple(
    Offer(region, node_type, "cpu", gpus, usd_per_hour, capacity=160, extras=extras)
    for region in ("here", "there")
    for node_type, gpus, usd_per_hour, extras in TYPES
)
REGIONS = tuple(dict.fromkeys(each.region for each in OFFERS))


def offer(region: str, node_type: str) -> Offer | None:
    """The offer of `node_type` in `region`, where there is one."""
    return next((each for each in OFFERS if each.region == region and each.node_type == node_type), None)
