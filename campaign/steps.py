"""The phases one at a time, on a run that stands: each is repeatable, and leaves the nodes up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from campaign import phases
from campaign.cells import measure_all
from campaign.chain import end
from campaign.folder import RunFolder
from campaign.run import Run
from infra import stack
from plan.launch import Launch
from plan.make import Boot, Front, Plan
from playbooks import prepare, probe, serve
from spec import load
from spec.errors import RecipeError
from spec.inventory import Inventory
from spec.receipt import Receipt
from spec.record import Check


@dataclass(frozen=True)
class Standing:
    """A run with its nodes, and the plan on them."""

    run: Run
    inventory: Inventory
    plan: Plan


def standing(run: Run) -> Standing:
    """The nodes of a run; RecipeError where it has none."""
    inventory = run.folder.inventory() or stack.inventory(run.name)
    if inventory is None:
        raise RecipeError(f"run {run.name} has no nodes; make them with: megatok up --id {run.name} RECIPE")
    plan = phases.planned(run.campaign, inventory)
    return Standing(run, inventory, plan)


def part(plan: Plan, layout: str | None, gateway: str | None) -> tuple[Boot, Front]:
    """The layout and gateway that are meant; the plan's first where nothing is said."""
    for boot in plan.boots:
        for front in boot.gateways:
            if layout in (None, str(front.placement.layout)) and gateway in (None, front.gateway):
                return boot, front
    known = ", ".join(f"{front.placement.layout} {front.gateway}" for boot in plan.boots for front in boot.gateways)
    raise RecipeError(f"no {layout or 'layout'} {gateway or 'gateway'} in this campaign; it has {known}")


def launches(boot: Boot, front: Front) -> tuple[Launch, ...]:
    return (*boot.servers, *((front.launch,) if front.launch else ()))


def make_ready(at: Standing, *, check: bool) -> dict[str, tuple[str, ...]]:
    """Install what is missing; with `check` only say what that is."""
    facts = probe.probe(at.inventory.nodes)
    model = load.model(at.run.campaign.model)
    return prepare.prepare(at.inventory.nodes, facts, phases.needs(at.plan), model, check=check)


def gate(at: Standing) -> tuple[Check, ...]:
    """GateFailed also where a node does not answer: then it cannot be told whether it is fit."""
    with phases.unfit("gate"):
        facts = probe.probe(at.inventory.nodes)
    return phases.gated(at.run, at.inventory, facts)


def serve_part(at: Standing, layout: str | None, gateway: str | None) -> tuple[str, ...]:
    """Start one layout behind one gateway; the endpoints. Servers of other layouts are stopped first."""
    boot, front = part(at.plan, layout, gateway)
    wanted = launches(boot, front)
    names = {launch.name for launch in wanted}
    others = {x.name for b in at.plan.boots for f in b.gateways for x in launches(b, f)} - names
    serve.stop(at.inventory, sorted(others))
    facts = probe.probe(at.inventory.nodes)
    phases.serving(at.run, at.inventory, facts, wanted)
    return front.placement.endpoints


def smoke(at: Standing, layout: str | None, gateway: str | None) -> tuple[Check, ...]:
    _boot, front = part(at.plan, layout, gateway)
    return phases.answers(at.run, at.inventory, probe.probe(at.inventory.nodes), front.placement)


def measure(at: Standing, only: Sequence[str]) -> None:
    """Measure the cells that have no valid record; what served before serves again afterwards."""
    facts = probe.probe(at.inventory.nodes)
    known = {launch.name: launch for boot in at.plan.boots for f in boot.gateways for launch in launches(boot, f)}
    dead = serve.dead(at.inventory, tuple(known.values()))
    measure_all(at.run, at.inventory, facts, at.plan, only)
    phases.serving(at.run, at.inventory, facts, [launch for name, launch in known.items() if name not in dead])


def tear_down(run: Run) -> Receipt:
    """Give the nodes back, with proof; a report of what there is."""
    with run.folder.owned(), run.stop.listening(lambda: None):
        return end(run)


def extend(name: str, seconds: float) -> Inventory:
    """Move the end of every node, also of a stack made by hand; a runner at work sees the new deadline."""
    inventory = stack.extend(name, seconds)
    folder = RunFolder(name)
    if folder.recipe.exists():
        folder.write("inventory.json", inventory.model_dump_json(indent=1))
    return inventory
