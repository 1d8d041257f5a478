"""Serve a model and leave it up until its lifetime ends."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from campaign import phases
from campaign.run import Run
from campaign.steps import launches
from campaign.teardown import kept_unless_it_fails


@dataclass(frozen=True)
class Served:
    """What a client needs to know."""

    endpoints: tuple[str, ...]
    api_key: str
    expires_at: str
    worst_usd: Decimal


def deploy(run: Run) -> Served:
    """Provision, prepare, gate, serve, smoke. What fails is torn down before the error goes on."""
    with kept_unless_it_fails(run):
        return _up(run)


def _up(run: Run) -> Served:
    inventory = phases.provision(run)
    plan = phases.planned(run.campaign, inventory)
    facts = phases.prepared(run, inventory, plan)
    phases.gated(run, inventory, facts)
    boot = plan.boots[0]
    front = boot.gateways[0]
    phases.serving(run, inventory, facts, launches(boot, front))
    phases.answers(run, inventory, facts, front.placement)
    due = min(node.expires_at for node in inventory.nodes if node.expires_at)
    return Served(front.placement.endpoints, run.folder.api_key(), f"{due:%Y-%m-%dT%H:%M:%SZ}", plan.worst_usd)
