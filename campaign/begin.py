"""How a run begins: from a recipe, from flags, or again from its folder."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from campaign import phases
from campaign.folder import RunFolder, known, mint
from campaign.run import Run, Say, quiet
from infra import stack
from infra.clouds import cloud
from infra.engine.command import engine_path
from money.ledger import Ledger
from plan.engine import engine
from plan.gateway import gateway
from plan.make import Plan
from plan.render import render
from spec import load
from spec.errors import RecipeError
from spec.home import ledger_address
from spec.layout import LayoutShape
from spec.recipe import Campaign, Cluster, Engine, Grid, Workload


@dataclass(frozen=True)
class Wish:
    """What `megatok deploy` was asked for in flags."""

    cloud: str
    model: str
    engine: str
    gpu: str | None
    dp: int
    tp: int
    speculation: str
    prefix_cache: bool
    gateway: str
    budget_usd: Decimal
    hours: float


def begin(plan: Plan, *, name: str | None = None, tell: Say = quiet) -> Run:
    """A new run of a plan: its folder, with recipe and plan in it. Refuses what it can; nothing is rented yet."""
    campaign = plan.campaign
    phases.affordable(plan)
    run_id = name or mint(campaign.name)
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,40}", run_id):
        raise RecipeError(f"{run_id!r} is no run id; use up to 41 lower-case letters, digits and dashes")
    where = cloud(campaign.cluster.cloud)
    where.check(campaign.cluster)
    engine_path()
    Ledger(ledger_address()).runs()  # a ledger that cannot be read refuses here, while there is nothing to tear down
    folder = RunFolder(run_id)
    folder.make()
    folder.write("recipe.yaml", load.dump(campaign))
    folder.write("plan.txt", render(plan))
    return Run(folder, campaign, where.capabilities.simulated, tell)


def again(name: str, tell: Say = quiet) -> Run:
    """A run that began before, with the cells that it has; also a stack that was made by hand."""
    folder = known(name)
    if not folder.recipe.exists():
        return _by_hand(folder, tell)
    campaign = load.campaign(folder.recipe)
    run = Run(folder, campaign, cloud(campaign.cluster.cloud).capabilities.simulated, tell)
    before = folder.document()
    if before:
        run.cells = {str(record.cell): record for record in before.cells if record.valid}
        run.phases = list(before.phases)
        run.receipt = before.receipt
    return run


def _by_hand(folder: RunFolder, tell: Say) -> Run:
    """A stack of `pulumi up`: its recipe and nodes come from the stack."""
    inventory = stack.inventory(folder.run)
    recipe = stack.settings(folder.run).recipe
    if inventory is None:
        raise RecipeError(f"stack {folder.run} holds no nodes; stand it up with: pulumi up --stack {folder.run}")
    campaign = load.campaign(recipe)
    folder.write("recipe.yaml", load.dump(campaign))
    folder.write("inventory.json", inventory.model_dump_json(indent=1))
    return Run(folder, campaign, cloud(campaign.cluster.cloud).capabilities.simulated, tell)


def from_wish(wish: Wish) -> Campaign:
    """The campaign that stands for flags: one layout, one gateway, on the smallest number of nodes that holds it."""
    cluster = _cluster(wish)
    layout = LayoutShape(dp=wish.dp, tp=wish.tp)
    nodes = max(1, math.ceil(layout.gpus / cluster.gpus_per_node))
    engine(wish.engine)
    gateway(wish.gateway)
    model = load.model(wish.model)
    return Campaign(
        name="deploy",
        title=f"{wish.model} as {layout} behind {wish.gateway}",
        budget_usd=wish.budget_usd,
        lifetime_s=wish.hours * 3600,
        cluster=cluster.model_copy(update={"nodes": nodes}),
        model=model.name,
        engine=Engine(name=wish.engine, speculation=wish.speculation, prefix_cache=wish.prefix_cache),
        workload=Workload(name="smoke", isl_tokens=64, osl_tokens=32, requests=16),
        sweep=(Grid(layout=(layout,), gateway=(wish.gateway,), concurrency=(1,)),),
    )


def _cluster(wish: Wish) -> Cluster:
    """First cluster recipe, by name, of that cloud and GPU whose nodes hold a replica."""
    cloud(wish.cloud)
    paths = sorted((load.RECIPES / "clusters").glob("*.yaml"))
    clusters = [load.cluster(path) for path in paths]
    fitting = [c for c in clusters if c.cloud == wish.cloud and wish.gpu in (None, c.gpu)]
    for cluster in fitting:
        if cluster.gpus_per_node >= wish.tp:
            return cluster
    asked = f"cloud {wish.cloud}" + (f" with GPU {wish.gpu}" if wish.gpu else "")
    if not fitting:
        raise RecipeError(f"no cluster recipe for {asked}; write one in recipes/clusters/")
    most = max(cluster.gpus_per_node for cluster in fitting)
    raise RecipeError(f"--tp {wish.tp} needs a node of {wish.tp} GPUs; on {asked} a node has up to {most}; lower --tp")


def recipe_path(text: str) -> Path:
    """A recipe given by path, or by the name of one of ours."""
    path = Path(text)
    named = load.RECIPES / "campaigns" / f"{text}.yaml"
    return named if not path.exists() and "/" not in text and named.exists() else path
