"""What stands now, with its cost and end. Also stacks made by hand with pulumi."""

from __future__ import annotations

from collections.abc import Sequence

import click

from campaign.overview import NodeEnd, Standing, limits, open_runs
from cli import budget
from cli.output import JSON, answer, columns
from spec.errors import RecipeError
from spec.inventory import Switch


@click.command("status", help=__doc__)
@click.argument("run", required=False)
@JSON
def COMMAND(run: str | None, as_json: bool) -> int:
    found = [standing for standing in open_runs() if run in (None, standing.run)]
    if run and not found:
        raise RecipeError(f"run {run!r} holds nothing: it is proven gone, or never was; see: megatok ls")
    who, left = limits()
    limited = left.day_usd is not None or left.month_usd is not None
    day = {"owner": who, **budget.data(left)} if limited else None
    parts = [_runs(found), _nodes([node for one in found for node in one.nodes])]
    parts += [f"owner  {who}\n{budget.lines(left)}"] if limited else []
    text = "\n\n".join(part for part in parts if part)
    return answer("status", as_json, text, {"runs": [s.data() for s in found], "limits": day})


def _runs(found: Sequence[Standing]) -> str:
    rows = [
        (
            s.run,
            s.phase,
            s.budget_owner or "-",
            "?" if s.machines is None else str(s.machines),
            f"${s.spent_usd} of ${s.budget_usd}",
            s.expires or "-",
            s.note,
        )
        for s in found
    ]
    heads = ("run", "phase", "owner", "machines", "spent", "expires", "note")
    return columns(rows, heads) if rows else "nothing stands"


def _nodes(nodes: Sequence[NodeEnd]) -> str:
    """What ends each when nobody does."""
    rows = [(node.name, node.id, node.expires or "never", node.note or _switches(node.switches)) for node in nodes]
    return columns(rows, ("node", "id", "expires", "dead-man switches")) if rows else ""


def _switches(found: Sequence[Switch]) -> str:
    """`native armed for 03:30:27Z; not armed: guest, reaper`."""
    armed = [
        f"{one.kind} armed" + (f" for {one.fires_at:%H:%M:%SZ}" if one.fires_at else "") for one in found if one.armed
    ]
    others = ", ".join(one.kind for one in found if not one.armed and one.kind != "none")
    return "; ".join([*armed, f"not armed: {others}"] if others else armed) or "none"
