"""What is for rent, at play-money prices."""

from __future__ import annotations

from dataclasses import dataclass
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


OFFERS = tuple(
    Offer(region, node_type, "cpu", gpus, usd_per_hour, capacity=160)
    for region in ("here", "there")
    for node_type, gpus, usd_per_hour in (("cpu-1", 1, Decimal("0.10")), ("cpu-2", 2, Decimal("0.20")))
)


def offer(region: str, node_type: str) -> Offer | None:
    """The offer of `node_type` in `region`, where there is one."""
    return next((each for each in OFFERS if each.region == region and each.node_type == node_type), None)
