"""What stands now, with its cost and end. Also stacks made by hand with pulumi."""

from __future__ import annotations

import click

from campaign.overview import open_runs
from cli.output import JSON, answer, columns
from spec.errors import RecipeError


@click.command("status", help=__doc__)
@click.argument("run", required=False)
@JSON
def COMMAND(run: str | None, as_json: bool) -> int:
    found = [standing for standing in open_runs() if run in (None, standing.run)]
    if run and not found:
        raise RecipeError(f"run {run!r} holds nothing: it is proven gone, or never was; see: megatok ls")
    rows = [
        (s.run, s.phase, str(s.machines), f"${s.spent_usd} of ${s.budget_usd}", s.expires or "-", s.note) for s in found
    ]
    text = columns(rows, ("run", "phase", "machines", "spent", "expires", "note")) if rows else "nothing stands"
    return answer("status", as_json, text, {"runs": [s.data() for s in found]})
