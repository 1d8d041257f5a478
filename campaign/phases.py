"""The phases of a run, each callable alone: a cluster stands, is prepared and fit, serves, answers, and is gone."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence

from campaign.run import Run
from infra import stack
from infra.clouds import cloud
from infra.teardown import take_over
from plan.forecast import forecast
from plan.launch import API_KEY, Launch, Placement, Seat
from plan.make import Plan, make
from plan.price import Tariff
from playbooks import collect, gates, nccl, prepare, probe, serve, smoke
from spec import load
from spec.base import shown
from spec.errors import GateFailed, MegatokError, NodeError, OverBudget
from spec.facts import Facts
from spec.inventory import Inventory
from spec.recipe import Campaign
from spec.record import Check

LIFE_LEEWAY_S = 5.0
"""Between the order and what a cloud makes of it."""
SKEW_TOLD_S = 300.0
"""A clock that is so far off moves money into another day."""


def planned(campaign: Campaign, inventory: Inventory | None = None) -> Plan:
    """The plan of a campaign: on assumed nodes, or on those that exist. Servers always ask for the run's key."""
    cluster = campaign.cluster
    seats = tuple(Seat(n.name, n.host, n.gpus, n.ports) for n in inventory.nodes) if inventory else None
    price, bills = load.price(cluster.cloud, cluster.node_type), cloud(cluster.cloud).capabilities
    tariff = Tariff(price.usd_per_hour, bills.billing_step_s, bills.delete_s, price.extras)
    model, gpu = load.model(campaign.model), load.gpu(cluster.gpu)
    return make(campaign, model, gpu, tariff, seats=seats, key=True)


def affordable(plan: Plan) -> None:
    """OverBudget where the budget does not buy a lifetime that is worth it; before anything is rented."""
    budget = plan.campaign.budget_usd
    if not plan.affordable:
        raise OverBudget(
            f"the worst case of this run, ${shown(plan.worst_usd)}, is above its budget of ${shown(budget)}, which "
            f"buys each node {plan.life_s:g} s, below the least of {plan.floor_s:g} s; raise --budget, or take "
            "fewer nodes"
        )


def provision(run: Run) -> Inventory:
    """Stand the cluster up, or find it standing."""
    cluster = run.campaign.cluster
    with run.phase("provision", f"{cluster.nodes} x {cluster.node_type} on {cluster.cloud}"):
        take_over(run.name, run.settings.ledger, on_line=run.note)
        inventory = stack.up(run.settings, on_line=run.note, cancel=run.stop.event)
        run.keep_inventory(inventory)
        run.stop.check()
    run.say(f"{len(inventory.nodes)} nodes up; {run.money_line()}")
    for line in (*_shorter(run, inventory), *_skewed(run)):
        run.say(line)
    return inventory


def _shorter(run: Run, inventory: Inventory) -> Iterator[str]:
    """What the budget has made of the lifetime, where it is less than asked for."""
    lives = [(node.expires_at - node.created_at).total_seconds() for node in inventory.nodes if node.expires_at]
    wanted_s = run.campaign.lifetime_s
    if lives and min(lives) < wanted_s - LIFE_LEEWAY_S:
        yield f"the nodes live {min(lives):.0f} s, not {wanted_s:g} s: what is left of the budget buys no more"


def _skewed(run: Run) -> Iterator[str]:
    skew_s = run.measured_skew().total_seconds()
    if abs(skew_s) > SKEW_TOLD_S:
        which = "behind" if skew_s > 0 else "ahead of"
        yield (
            f"this machine's clock is {abs(skew_s):.0f} s {which} the cloud's: lifetimes go by the cloud's, but day "
            "and month budgets by this one; set it right"
        )


def needs(plan: Plan) -> tuple[str, ...]:
    """Foreign tools, and programs of the system, that the nodes must have."""
    fronts = [front.launch for boot in plan.boots for front in boot.gateways if front.launch]
    return (*plan.tools, *dict.fromkeys(launch.argv[0] for launch in fronts if not launch.tool))


def prepared(run: Run, inventory: Inventory, plan: Plan) -> dict[str, Facts]:
    """Look at the nodes, then install what the plan needs and they lack."""
    with run.phase("prepare"):
        with unfit("prepare"):
            facts = probe.probe(inventory.nodes, cancel=run.stop.event)
            model = load.model(run.campaign.model)
            changes = prepare.prepare(inventory.nodes, facts, needs(plan), model, cancel=run.stop.event)
            nccl.nccl(inventory.nodes, facts, run.campaign.cluster, cancel=run.stop.event)
        run.stop.check()
    run.say(f"prepared, {sum(map(len, changes.values()))} changed")
    return facts


def gated(run: Run, inventory: Inventory, facts: Mapping[str, Facts]) -> tuple[Check, ...]:
    """GateFailed where a node is not fit, or it cannot be told."""
    with run.phase("gate"):
        checks = gates.gates(inventory.nodes, facts, run.campaign.cluster)
    run.folder.write("gates.json", json.dumps([check.model_dump() for check in checks], indent=1))
    require(checks, "gate")
    return checks


def require(checks: Sequence[Check], what: str) -> None:
    """GateFailed with every check that failed or is unknown: unknown blocks."""
    bad = [f"{check.name}: {check.outcome}, {check.detail}" for check in checks if check.outcome in ("fail", "unknown")]
    if bad:
        raise GateFailed(f"{what} failed: " + "; ".join(bad))


@contextlib.contextmanager
def unfit(phase: str) -> Iterator[None]:
    """A node that cannot be worked with is not fit: GateFailed."""
    try:
        yield
    except NodeError as error:
        raise GateFailed(f"{phase} failed: {error}") from error


def serving(run: Run, inventory: Inventory, facts: Mapping[str, Facts], launches: Sequence[Launch]) -> None:
    """Start the processes that do not run yet, and wait until each is healthy."""
    if launches:
        with run.phase("serve", ", ".join(launch.name for launch in launches)):
            with unfit("serve"):
                serve.start(inventory, facts, launches, secrets(run, launches), cancel=run.stop.event)
            run.stop.check()


def stopped(run: Run, inventory: Inventory, launches: Sequence[Launch]) -> None:
    """End processes, unless the nodes go anyway. What cannot be reached is said, and ends nothing."""
    if launches and not run.stop.event.is_set():
        with run.phase("stop", ", ".join(launch.name for launch in launches)):
            try:
                serve.stop(inventory, [launch.name for launch in launches])
            except NodeError as error:
                run.say(f"not stopped: {error}")


def secrets(run: Run, launches: Sequence[Launch]) -> dict[str, str]:
    """Values of the secrets that these processes ask for."""
    wanted = {name for launch in launches for name in launch.secrets}
    return {API_KEY: run.folder.api_key()} if API_KEY in wanted else {}


def answers(run: Run, inventory: Inventory, facts: Mapping[str, Facts], placement: Placement) -> tuple[Check, ...]:
    """Smoke: every replica, directly and through the gateway; GateFailed where one does not answer as it should."""
    campaign = run.campaign
    with run.phase("smoke", f"{placement.layout} {placement.gateway}"):
        expected = forecast(campaign, placement.layout, concurrency=1)
        floor = expected.output_tok_per_s * campaign.smoke_floor_share
        key = run.folder.api_key()
        with unfit("smoke"):
            checks = smoke.smoke(inventory, facts, placement, campaign.model, floor, key, cancel=run.stop.event)
    require(checks, "smoke")
    return checks


def collected(run: Run, inventory: Inventory) -> None:
    """Bring the logs home; what cannot be had is said, and ends nothing."""
    with run.phase("collect"):
        try:
            collect.collect(inventory, run.folder.path / "logs")
        except MegatokError as error:
            run.say(f"logs are incomplete: {error}")
