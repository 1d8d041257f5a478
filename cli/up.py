"""Stand a recipe's cluster up. It stays until its lifetime ends, or `megatok down`."""

from __future__ import annotations

import json
from decimal import Decimal

import click

from campaign import phases
from campaign.begin import again, begin, recipe_path
from campaign.folder import RunFolder
from campaign.run import Run
from campaign.teardown import kept_unless_it_fails
from cli.output import BUDGET, JSON, answer, columns, progress
from spec import load
from spec.errors import RecipeError
from spec.inventory import Inventory


@click.command("up", help=__doc__)
@click.argument("recipe")
@BUDGET
@click.option("--id", "run_id", metavar="ID", help="Name of the run; one that exists is brought up again.")
@JSON
def COMMAND(recipe: str, budget: Decimal | None, run_id: str | None, as_json: bool) -> int:
    run = _opened(recipe, budget, run_id)
    with kept_unless_it_fails(run):
        inventory = phases.provision(run)
    data = {"run": run.name, "inventory": json.loads(inventory.model_dump_json())}
    return answer("up", as_json, f"{listing(inventory)}\nrun {run.name}; end it with: megatok down {run.name}", data)


def _opened(recipe: str, budget: Decimal | None, run_id: str | None) -> Run:
    if run_id and RunFolder(run_id).recipe.exists():
        run = again(run_id, progress)
        if run.campaign != load.campaign(recipe_path(recipe), budget or run.campaign.budget_usd):
            raise RecipeError(
                f"run {run_id} was begun with another recipe or budget; bring it up again with: "
                f"megatok up --id {run_id} {run.folder.recipe}, or end it first: megatok down {run_id}"
            )
        return run
    campaign = load.campaign(recipe_path(recipe), budget)
    plan = phases.planned(campaign)
    return begin(plan, name=run_id, tell=progress)


def listing(inventory: Inventory) -> str:
    """Nodes as a table, each with what ends it when nobody does."""
    rows = [
        (
            node.name,
            node.node_type,
            f"{node.user}@{node.host}:{node.ssh_port}",
            f"${node.usd_per_hour}/h",
            f"{node.expires_at:%Y-%m-%dT%H:%M:%SZ}" if node.expires_at else "never",
            ", ".join(f"{s.kind} {'armed' if s.armed else 'NOT armed'}" for s in node.switches) or "none",
        )
        for node in inventory.nodes
    ]
    return columns(rows, ("node", "type", "address", "price", "expires", "dead-man switches"))
