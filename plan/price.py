"""What nodes cost at worst, and how long they may live for it: the plan and the plug-in reckon with the same functions.

Every node for its whole lifetime, at the dearest price allowed, with what is billed beside it and the time that its
end may take.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

from spec.cost import affordable_s, extra_usd, group_usd, worst_case_usd
from spec.recipe import Campaign, PriceExtra

FLOOR_S = 600.0
"""A budget that buys less is refused, unless the recipe itself asks for less: below this nodes boot, and then end."""


@dataclass(frozen=True)
class Tariff:
    """What one node costs, and how its cloud bills."""

    usd_per_hour: Decimal
    step_s: int
    delete_s: float = 0.0
    """Longest that it may still bill after its lifetime."""
    extras: tuple[PriceExtra, ...] = ()
    gib: float = 0.0
    """What it moves."""

    def worst_usd(self, count: int, life_s: float) -> Decimal:
        return group_usd(self.usd_per_hour, count, life_s + self.delete_s, self.step_s, self.extras, self.gib)

    def life_s(self, count: int, usd: Decimal, wanted_s: float) -> float:
        """What `usd` buys `count` nodes, in whole billing steps; no more than `wanted_s`."""
        if self.worst_usd(count, wanted_s) <= usd:
            return wanted_s
        return affordable_s(usd, lambda seconds: self.worst_usd(count, seconds), self.step_s)


@dataclass(frozen=True)
class Quote:
    """One line of the bill at worst."""

    what: str
    count: int
    usd_per_hour: Decimal
    seconds: float
    usd: Decimal


def floor_s(lifetime_s: float) -> float:
    """The least lifetime that is worth its money."""
    return min(lifetime_s, FLOOR_S)


def planned_life_s(campaign: Campaign, tariff: Tariff) -> float:
    """What each node will be given: each group, of one node, may use an equal share of the budget."""
    share = campaign.budget_usd / campaign.cluster.nodes
    return _dearest(campaign, tariff).life_s(1, share, campaign.lifetime_s)


def quotes(campaign: Campaign, tariff: Tariff, life_s: float) -> tuple[Quote, ...]:
    """Each node, and each thing beside it, is billed by itself, so each is rounded up by itself."""
    dearest, nodes, cluster = _dearest(campaign, tariff), campaign.cluster.nodes, campaign.cluster
    seconds = life_s + tariff.delete_s
    usd = nodes * worst_case_usd(dearest.usd_per_hour, seconds, tariff.step_s)
    beside = (
        Quote(one.kind, nodes, one.usd_per_hour, seconds, nodes * extra_usd(one, seconds, tariff.step_s, tariff.gib))
        for one in tariff.extras
    )
    return (Quote(cluster.node_type, nodes, dearest.usd_per_hour, seconds, usd), *beside)


def _dearest(campaign: Campaign, tariff: Tariff) -> Tariff:
    return replace(tariff, usd_per_hour=max(tariff.usd_per_hour, campaign.cluster.max_usd_per_hour or Decimal(0)))
