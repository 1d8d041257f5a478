"""Measure the cells of a run, boot by boot: a boot is one start of the engines that several cells share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from campaign import phases
from campaign.evidence import commands, versions
from campaign.run import Run
from plan.forecast import forecast
from plan.launch import Launch, Placement
from plan.loads import aiperf
from plan.make import Boot, Front, Plan
from playbooks import serve
from playbooks.measure import Measured, measure
from report.checks import Window, checks, valid
from report.figures import figures
from report.prices import usd_per_million
from spec import clock
from spec.errors import GateFailed, MegatokError, NodeError, ResultInvalid
from spec.facts import Facts
from spec.inventory import Inventory
from spec.recipe import CellKey
from spec.record import Check, Figures, Record, RequestRecord

CELL_LIMIT_S = 600.0
"""No cell of a one-evening campaign may take longer than this share of it."""


@dataclass(frozen=True)
class Field:
    """Where cells are measured: the run, its nodes, and what was seen on them."""

    run: Run
    inventory: Inventory
    facts: Mapping[str, Facts]


def measure_all(run: Run, inventory: Inventory, facts: Mapping[str, Facts], plan: Plan, only: Sequence[str]) -> None:
    """Every cell that has no record yet; one that cannot be measured is recorded as invalid, and the next one runs."""
    field = Field(run, inventory, facts)
    for boot in plan.boots:
        for front in boot.gateways:
            wanted = [cell for cell in front.cells if str(cell) not in run.cells and (not only or str(cell) in only)]
            if wanted:
                _front(field, boot, front, wanted)
        phases.stopped(run, inventory, boot.servers)
    bad = [name for name, record in run.cells.items() if not record.valid]
    if bad:
        run.fail(ResultInvalid(f"{len(bad)} of {len(run.cells)} cells are invalid: {', '.join(bad)}"))


def _front(field: Field, boot: Boot, front: Front, cells: Sequence[CellKey]) -> None:
    """Cells behind one gateway. What does not serve costs its own cells, not the run."""
    gateway = (front.launch,) if front.launch else ()
    launches = (*boot.servers, *gateway)
    try:
        # What a dead runner left at work would be load beside ours.
        serve.stop(field.inventory, [_client(field, front.placement, cell).name for cell in cells])
        _ready(field, front.placement, launches)
        for cell in cells:
            if serve.dead(field.inventory, launches):
                _ready(field, front.placement, launches)
            _cell(field, front.placement, launches, cell)
    except (GateFailed, NodeError) as error:
        field.run.stop.check()
        field.run.fail(error)
        for cell in cells:
            if str(cell) not in field.run.cells:
                _keep(field, _record(field, cell, clock.now(), (), _never(error), ()))
    finally:
        phases.stopped(field.run, field.inventory, gateway)


def _client(field: Field, placement: Placement, cell: CellKey) -> Launch:
    return aiperf.launch(cell, placement, field.run.campaign, key=True)


def _ready(field: Field, placement: Placement, launches: Sequence[Launch]) -> None:
    phases.serving(field.run, field.inventory, field.facts, launches)
    phases.answers(field.run, field.inventory, field.facts, placement)


def _cell(field: Field, placement: Placement, watch: Sequence[Launch], cell: CellKey) -> None:
    run = field.run
    run.stop.check()
    count = len(run.campaign.cells())
    client = _client(field, placement, cell)
    into = run.folder.path / "cells" / str(cell)
    with run.phase("measure", f"cell {len(run.cells) + 1} of {count}: {cell}; {run.money_line()}"):
        began = clock.now()
        with phases.unfit("measure"):
            done = measure(
                field.inventory, field.facts, client, watch, secrets=phases.secrets(run, watch),
                limit_s=CELL_LIMIT_S, into=into, cancel=run.stop.event,
            )  # fmt: skip
        run.client_s += (done.ended_at - done.started_at).total_seconds()
        run.stop.check()
        requests = _requests(into)
        found = checks(requests, _window(field, cell, done))
        _keep(field, _record(field, cell, began, requests, found, (*watch, client)))
    _tell(run, run.cells[str(cell)], done.note)


def _requests(into: Path) -> tuple[RequestRecord, ...]:
    path = into / "profile_export.jsonl"
    return aiperf.read(path.read_text()) if path.exists() else ()


def _window(field: Field, cell: CellKey, done: Measured) -> Window:
    return Window(
        workload=field.run.campaign.workload,
        concurrency=cell.concurrency,
        stand_in=field.run.campaign.cluster.stand_in is not None,
        rc=done.rc,
        dead=done.dead,
        lost_s=done.lost_s,
        prefix_cache=field.run.campaign.engine.prefix_cache,
    )


def _never(error: MegatokError) -> tuple[Check, ...]:
    return (Check(name="measured", outcome="fail", detail=f"never began: {error}"),)


def _record(
    field: Field,
    cell: CellKey,
    began: datetime,
    requests: Sequence[RequestRecord],
    found: tuple[Check, ...],
    launches: Sequence[Launch],
) -> Record:
    run, ended = field.run, clock.now()
    campaign = run.campaign
    usd = _node_usd(field.inventory, (ended - began).total_seconds())
    counted = figures(requests)
    good = valid(found)
    return Record(
        run=run.name,
        cell=cell,
        simulated=run.simulated,
        engine=campaign.engine.name,
        model=campaign.model,
        workload=campaign.workload,
        forecast=forecast(campaign, cell.layout, concurrency=cell.concurrency),
        started_at=began,
        ended_at=ended,
        figures=counted,
        checks=found,
        valid=good,
        commands=commands(field.inventory, field.facts, launches),
        versions=versions(field.facts, launches),
        usd=usd,
        usd_per_million_output_tokens=_steady_usd_per_million(field.inventory, counted) if good else None,
        evidence=tuple(str(path.relative_to(run.folder.path)) for path in _files(run, cell)),
    )


def _node_usd(inventory: Inventory, seconds: float) -> Decimal:
    """Node time x price."""
    an_hour = sum((node.usd_per_hour for node in inventory.nodes), Decimal(0))
    return (an_hour * Decimal(str(seconds)) / 3600).quantize(Decimal("0.000001"))


def _steady_usd_per_million(inventory: Inventory, counted: Figures | None) -> Decimal | None:
    """Of the window in which requests ran, set-up left out."""
    if counted is None:
        return None
    return usd_per_million(_node_usd(inventory, counted.duration_s), counted.output_tokens)


def _files(run: Run, cell: CellKey) -> list[Path]:
    folder = run.folder.path / "cells" / str(cell)
    return sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else []


def _keep(field: Field, record: Record) -> None:
    name = str(record.cell)
    field.run.folder.write(f"cells/{name}/record.json", record.model_dump_json(indent=1))
    field.run.cells[name] = record


def _tell(run: Run, record: Record, note: str) -> None:
    """`note`: the end of the load generator's log, where it did not end well."""
    if record.figures and record.valid:
        got = record.figures
        ttft = f"TTFT p50 {got.ttft.p50_ms:.0f} ms"
        run.say(f"{record.cell}: {got.output_tok_per_s:.1f} output tok/s, {ttft}, {got.answered} answered")
    else:
        bad = "; ".join(f"{c.name}: {c.detail}" for c in record.checks if c.outcome in ("fail", "unknown"))
        run.say(f"{record.cell}: INVALID, {bad}")
        if note:
            run.say(f"the load generator's log ends with: {note.splitlines()[-1]}")
