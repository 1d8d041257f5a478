"""The phases of a run up to a fit cluster, and from its end to the receipt. Each one can be called alone."""

from __future__ import annotations

import json
from collections.abc import Mapping

from campaign.folder import RunFolder
from campaign.run import Run
from infra import stack
from infra.clouds import cloud
from infra.teardown import teardown
from plan.launch import Seat
from plan.make import Plan, make
from plan.render import render
from playbooks import gates, nccl, prepare, probe
from playbooks.run import on_all
from spec import load
from spec.cost import worst_case_usd
from spec.errors import GateFailed, MegatokError, OverBudget, TeardownUnproven
from spec.facts import Facts
from spec.inventory import Inventory
from spec.record import Check
from spec.recipe import Campaign


def planned(campaign: Campaign, inventory: Inventory | None = None, *, key: bool = False) -> Plan:
    """The plan of a campaign: on assumed nodes, or on those that exist."""
    cluster = campaign.cluster
    model, gpu = load.model(campaign.model), load.gpu(cluster.gpu)
    price = load.price(cluster.cloud, cluster.node_type).usd_per_hour
    step_s = cloud(cluster.cloud).capabilities.billing_step_s
    seats = (
        tuple(Seat(node.name, node.host, node.gpus, node.ports) for node in inventory.nodes) if inventory else None
    )
    return make(campaign, model, gpu, price, step_s=step_s, seats=seats, key=key)


def affordable(plan: Plan) -> None:
    """OverBudget where the worst case does not fit the budget; before anything is rented."""
    budget = plan.campaign.budget_usd
    if plan.worst_usd > budget:
        raise OverBudget(
            f"worst case ${plan.worst_usd:.4f} is above the budget of ${budget:.4f}; "
            "raise --budget, shorten lifetime_s, or take fewer nodes"
        )


def provision(run: Run) -> Inventory:
    """Stand the cluster up, or find it standing."""
    with run.phase("provision", f"{run.campaign.cluster.nodes} x {run.campaign.cluster.node_type}"):
        inventory = stack.up(run.settings, on_line=run.folder_log("pulumi.log"), cancel=run.stop.event)
        run.keep_inventory(inventory)
        run.stop.check()
    run.say(f"{len(inventory.nodes)} nodes up; {run.money_line()}")
    return inventory


def prepared(run: Run, inventory: Inventory, plan: Plan) -> dict[str, Facts]:
    """Look at the nodes, then install what the plan needs and they lack."""
    with run.phase("prepare"):
        facts = probe.probe(inventory.nodes)
        model = load.model(run.campaign.model)
        changes = prepare.prepare(inventory.nodes, facts, plan.tools, model)
        nccl.nccl(inventory.nodes, facts, run.campaign.cluster)
        run.stop.check()
    run.say(f"prepared: {sum(map(len, changes.values()))} changed")
    return facts


def gated(run: Run, inventory: Inventory, facts: Mapping[str, Facts]) -> tuple[Check, ...]:
    """GateFailed where a node is not fit, or it cannot be told."""
    with run.phase("gate"):
        checks = gates.gates(inventory.nodes, facts, run.campaign.cluster)
    run.folder.write("gates.json", json.dumps([check.model_dump() for check in checks], indent=1))
    refuse(checks, "gate")
    return checks


def refuse(checks: tuple[Check, ...], what: str) -> None:
    """GateFailed with every check that failed or is unknown."""
    bad = [check for check in checks if check.outcome in ("fail", "unknown")]
    if bad:
        raise GateFailed(f"{what} failed: " + "; ".join(f"{c.name}: {c.outcome}, {c.detail}" for c in bad))
