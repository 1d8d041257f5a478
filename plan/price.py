"""What the whole run costs at worst: every node for its whole lifetime, at the dearest price that the recipe allows."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from spec.cost import worst_case_usd
from spec.recipe import Campaign


@dataclass(frozen=True)
class Quote:
    """One line of the bill at worst."""

    what: str
    count: int
    usd_per_hour: Decimal
    seconds: float
    usd: Decimal


def quotes(campaign: Campaign, usd_per_hour: Decimal, step_s: int) -> tuple[Quote, ...]:
    """Each node is billed by itself, so each is rounded up by itself."""
    cluster = campaign.cluster
    dearest = max(usd_per_hour, cluster.max_usd_per_hour or Decimal(0))
    usd = cluster.nodes * worst_case_usd(dearest, campaign.lifetime_s, step_s)
    return (Quote(cluster.node_type, cluster.nodes, dearest, campaign.lifetime_s, usd),)
