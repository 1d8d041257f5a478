"""Fabric tasks: each step on nodes, alone, on any inventory. `fab -c playbooks TASK --inventory FILE --recipe FILE`.

The recipe is a campaign's. With MEGATOK_API_KEY in the environment, servers ask their clients for that key.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from fabric import Connection, task
from invoke.collection import Collection
from invoke.exceptions import Exit

from plan.forecast import forecast
from plan.launch import API_KEY, Launch, Seat
from plan.make import Boot, Front, Plan, make
from plan.price import Tariff
from playbooks import gates as gates_of
from playbooks import nccl as nccl_of
from playbooks import prepare as prepare_of
from playbooks import probe as probe_of
from playbooks import serve as serve_of
from playbooks import smoke as smoke_of
from spec import load
from spec.errors import GateFailed, MegatokError, RecipeError
from spec.inventory import Inventory
from spec.record import Check

T = TypeVar("T")

HELP = {
    "inventory": "file with the nodes: `pulumi stack output inventory`",
    "recipe": "campaign recipe",
    "layout": "as in the recipe, like DP2xTP1; its first one where nothing is said",
    "gateway": "as in the recipe",
    "check": "only say what would change",
    "interface": "network interface for NCCL's bootstrap; that of the default route where nothing is said",
}


def _help(*names: str) -> dict[str, str]:
    return {name: HELP[name] for name in names}


@dataclass(frozen=True)
class Site:
    """Nodes, and the plan of a campaign on them."""

    inventory: Inventory
    plan: Plan

    @property
    def secrets(self) -> dict[str, str]:
        return {API_KEY: os.environ[API_KEY]} if os.environ.get(API_KEY) else {}

    def boot(self, layout: str | None) -> Boot:
        known = {str(boot.placement.layout): boot for boot in self.plan.boots}
        return _pick(known, layout, "layout")

    def front(self, layout: str | None, gateway: str | None) -> Front:
        return _pick({front.gateway: front for front in self.boot(layout).gateways}, gateway, "gateway")


def _pick(known: Mapping[str, T], name: str | None, what: str) -> T:
    chosen = name or next(iter(known))
    if chosen not in known:
        raise RecipeError(f"no {what} {chosen!r} in this recipe; it has {', '.join(known)}")
    return known[chosen]


def _site(inventory: str, recipe: str) -> Site:
    nodes, campaign = load.inventory(Path(inventory)), load.campaign(Path(recipe))
    cluster = campaign.cluster
    seats = tuple(Seat(node.name, node.host, node.gpus, node.ports) for node in nodes.nodes)
    # Nothing is rented here, so the step in which a cloud bills does not matter.
    tariff = Tariff(load.price(cluster.cloud, cluster.node_type).usd_per_hour, step_s=1)
    model, gpu = load.model(campaign.model), load.gpu(cluster.gpu)
    plan = make(campaign, model, gpu, tariff, seats=seats, key=bool(os.environ.get(API_KEY)))
    return Site(nodes, plan)


@contextmanager
def _told() -> Iterator[None]:
    """A refusal is one message and its exit code, not a traceback."""
    try:
        yield
    except MegatokError as error:
        raise Exit(str(error), code=error.exit_code) from None


def _say(*lines: str) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)


def _say_changes(changes: Mapping[str, Sequence[str]]) -> None:
    _say(*(f"{node}: {', '.join(made) or '0 changed'}" for node, made in changes.items()))


def _judge(checks: Sequence[Check]) -> None:
    _say(*(f"{check.name}: {check.outcome}: {check.detail}" for check in checks))
    bad = [check.name for check in checks if check.outcome in ("fail", "unknown")]
    if bad:
        raise GateFailed(f"not passed: {', '.join(bad)}")


@task(help=_help("inventory"))
def probe(_: Connection, inventory: str) -> None:
    """Say what each node is."""
    with _told():
        found = probe_of.probe(load.inventory(Path(inventory)).nodes)
        _say(*(f"{node} {facts.model_dump_json()}" for node, facts in found.items()))


@task(help=_help("inventory", "recipe", "check"))
def prepare(_: Connection, inventory: str, recipe: str, check: bool = False) -> None:
    """Install what the recipe needs and the nodes lack; a second time nothing."""
    with _told():
        site = _site(inventory, recipe)
        nodes = site.inventory.nodes
        _say_changes(prepare_of.prepare(nodes, probe_of.probe(nodes), site.plan.tools, site.plan.model, check=check))


@task(help=_help("inventory", "recipe", "interface"))
def nccl(_: Connection, inventory: str, recipe: str, interface: str = "") -> None:
    """Write NCCL's environment file where GPUs are real."""
    with _told():
        nodes, cluster = load.inventory(Path(inventory)).nodes, load.cluster(Path(recipe))
        if cluster.stand_in:
            return _say(f"not applicable, by plan: stand_in: {cluster.stand_in}")
        return _say_changes(nccl_of.nccl(nodes, probe_of.probe(nodes), cluster, interface=interface))


@task(help=_help("inventory", "recipe"))
def gates(_: Connection, inventory: str, recipe: str) -> None:
    """Judge whether each node is fit."""
    with _told():
        nodes = load.inventory(Path(inventory)).nodes
        _judge(gates_of.gates(nodes, probe_of.probe(nodes), load.cluster(Path(recipe))))


@task(help=_help("inventory", "recipe", "layout"))
def serve(_: Connection, inventory: str, recipe: str, layout: str | None = None) -> None:
    """Start a layout's servers, and wait until each answers."""
    with _told():
        site = _site(inventory, recipe)
        boot = site.boot(layout)
        _start(site, boot.servers)
        _say(*(replica.url for replica in boot.placement.replicas))


@task(help=_help("inventory", "recipe", "gateway", "layout"))
def gateway(_: Connection, inventory: str, recipe: str, gateway: str, layout: str | None = None) -> None:
    """Start a gateway before servers that run."""
    with _told():
        site = _site(inventory, recipe)
        front = site.front(layout, gateway)
        _start(site, [front.launch] if front.launch else [])
        _say(*front.placement.endpoints)


def _start(site: Site, launches: Sequence[Launch]) -> None:
    serve_of.start(site.inventory, probe_of.probe(site.inventory.nodes), launches, site.secrets)


@task(help=_help("inventory", "recipe", "layout", "gateway"))
def smoke(_: Connection, inventory: str, recipe: str, layout: str | None = None, gateway: str | None = None) -> None:
    """Ask every replica, directly and through the gateway, for one streamed answer."""
    with _told():
        site = _site(inventory, recipe)
        campaign, placement = site.plan.campaign, site.front(layout, gateway).placement
        expected = forecast(campaign, placement.layout, concurrency=1).output_tok_per_s
        facts = probe_of.probe(site.inventory.nodes)
        floor = expected * campaign.smoke_floor_share
        _judge(smoke_of.smoke(site.inventory, facts, placement, campaign.model, floor, site.secrets.get(API_KEY)))


@task(help=_help("inventory", "recipe"))
def stop(_: Connection, inventory: str, recipe: str) -> None:
    """Stop all servers and gateways of a recipe."""
    with _told():
        site = _site(inventory, recipe)
        fronts = [front.launch for boot in site.plan.boots for front in boot.gateways if front.launch]
        servers = [server for boot in site.plan.boots for server in boot.servers]
        serve_of.stop(site.inventory, [launch.name for launch in (*fronts, *servers)])


ns = Collection(probe, prepare, nccl, gates, serve, gateway, smoke, stop)
