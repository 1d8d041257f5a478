"""A plan as text, for people and for golden tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

from plan.forecast import forecast
from plan.launch import Launch, Replica
from plan.make import Boot, Front, Plan
from spec.recipe import CellKey

CLIENT_FIXED_S = 10.0
"""AIPerf's imports and processes, paid by each cell (measured)."""

BOOT_S = 5.0
"""A server's start and its smoke test, roughly (measured 0.7 to 5 s)."""

LISTED = 4
"""Addresses shown of a longer list."""


def render(plan: Plan) -> str:
    """The whole plan: what is asked, what will run where, what to expect, and what it costs at worst."""
    parts = [_head(plan), *(_boot(plan, number, boot) for number, boot in enumerate(plan.boots, 1)), _cells(plan)]
    return "\n".join([*parts, _money(plan)])


def _head(plan: Plan) -> str:
    campaign, cluster, engine, workload = (
        plan.campaign,
        plan.campaign.cluster,
        plan.campaign.engine,
        plan.campaign.workload,
    )
    nodes = f"{cluster.nodes} x {cluster.node_type} on {cluster.cloud}: {cluster.gpus_per_node} x {plan.gpu.title} each"
    knobs = f"{engine.slots} slots of {engine.context_tokens} tokens, speculation {engine.speculation}"
    lines = [
        f"{campaign.title} ({campaign.name})",
        f"  cluster   {nodes}",
        f"  model     {plan.model.title}, {plan.model.quantisation}, {plan.model.licence}",
        f"  engine    {engine.name}: {knobs}, prefix cache {'on' if engine.prefix_cache else 'off'}",
        f"  workload  {workload.name}: {_workload(plan)}",
    ]
    if cluster.stand_in:
        lines.append("  stand-in  processors play GPUs: TP is threads of one server. Figures say nothing about a GPU")
    if plan.assumed:
        lines.append("  assumed   names, addresses and ports of nodes, until they are rented")
    return "\n".join([*lines, ""])


def _workload(plan: Plan) -> str:
    workload = plan.campaign.workload
    shared = f" ({workload.shared_prefix_tokens} shared)" if workload.shared_prefix_tokens else ""
    warmup = f", {workload.warmup_requests} to warm up" if workload.warmup_requests else ""
    return f"ISL {workload.isl_tokens}{shared}, OSL {workload.osl_tokens}, {workload.requests} requests a cell{warmup}"


def _boot(plan: Plan, number: int, boot: Boot) -> str:
    label = " (stand-in: TP is threads)" if plan.campaign.cluster.stand_in else ""
    replicas = boot.placement.replicas
    lines = [f"boot {number} of {len(plan.boots)}: {boot.placement.layout}{label}"]
    lines += [f"  {_where(plan, replica)}" for replica in replicas]
    lines += _launch(boot.servers[0])
    if len(replicas) > 1:
        lines.append("    (replica 0; the others differ in host and port)")
    for front in boot.gateways:
        lines += _front(plan, front)
    return "\n".join([*lines, ""])


def _where(plan: Plan, replica: Replica) -> str:
    what = "core" if plan.campaign.cluster.stand_in else "GPU"
    gpus = "+".join(map(str, replica.gpus))
    return f"replica {replica.index} on {plan.seats[replica.node].name}, {what} {gpus}: {replica.url}"


def _launch(launch: Launch) -> Iterator[str]:
    env = [f"{name}={value}" for name, value in launch.env if name != "PATH"]
    yield f"    {' '.join([*env, *launch.argv])}"
    if launch.secrets:
        yield f"    with {', '.join(launch.secrets)} from its environment"


def _front(plan: Plan, front: Front) -> Iterator[str]:
    placement = front.placement
    at = f" on {plan.seats[placement.gateway_node].name}" if front.launch else ""
    yield f"  gateway {front.gateway}{at}"
    if front.launch:
        yield from _launch(front.launch)
    cells = ", ".join(f"c{cell.concurrency}-r{cell.repeat}" for cell in front.cells)
    client = plan.seats[placement.client_node].name
    yield f"    AIPerf on {client} -> {_listed(placement.endpoints)}: {cells}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


def _cells(plan: Plan) -> str:
    rows = [f"  {'cell':<30}  output tok/s (interval)   seconds", *(_cell(plan, cell) for cell in plan.cells)]
    sources = {forecast(plan.campaign, cell.layout, cell.concurrency).source: None for cell in plan.cells}
    total_s = sum(_seconds(plan, cell) for cell in plan.cells) + BOOT_S * len(plan.boots)
    lines = [f"cells: {len(plan.cells)}, forecast", *rows, *(f"  {source}" for source in sources)]
    return "\n".join([*lines, f"  measuring takes about {total_s / 60:.1f} min, rent and preparation apart", ""])


def _cell(plan: Plan, cell: CellKey) -> str:
    guess = forecast(plan.campaign, cell.layout, cell.concurrency)
    if not guess.output_tok_per_s:
        return f"  {cell!s:<30}  unknown"
    rate = f"{guess.output_tok_per_s:8.1f} ({guess.low:.0f} to {guess.high:.0f})"
    return f"  {cell!s:<30}  {rate:<24}  {_seconds(plan, cell):7.0f}"


def _seconds(plan: Plan, cell: CellKey) -> float:
    """Forecast length of a cell, AIPerf's own start included."""
    guess, workload = forecast(plan.campaign, cell.layout, cell.concurrency), plan.campaign.workload
    tokens = (workload.requests + workload.warmup_requests) * workload.osl_tokens
    return CLIENT_FIXED_S + (tokens / guess.output_tok_per_s if guess.output_tok_per_s else 0.0)


def _money(plan: Plan) -> str:
    budget, worst = plan.campaign.budget_usd, plan.worst_usd
    verdict = "fits" if plan.affordable else "DOES NOT FIT"
    lines = [
        f"  {q.count} x {q.what} at up to {_usd(q.usd_per_hour)}/h for {q.seconds:g} s: {_usd(q.usd)}"
        for q in plan.quotes
    ]
    lines.append(f"  {_usd(worst)} {verdict} the budget of {_usd(budget)}")
    if plan.life_s < plan.campaign.lifetime_s:
        least = "" if plan.affordable else f", below the least of {plan.floor_s:g} s"
        lines.append(f"  which buys a lifetime of {plan.life_s:g} s, not {plan.campaign.lifetime_s:g} s{least}")
    return "\n".join(["cost at worst", *lines, ""])


def _usd(amount: Decimal) -> str:
    """With cents, and with as many places more as the amount has."""
    return f"${amount:.{max(2, -int(amount.normalize().as_tuple().exponent))}f}"
