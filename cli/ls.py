"""All runs of this machine with their outcome."""

from __future__ import annotations

from dataclasses import asdict

import click

from campaign.overview import past_runs
from cli.output import JSON, answer, columns


@click.command("ls", help=__doc__)
@JSON
def COMMAND(as_json: bool) -> int:
    found = past_runs()
    rows = [(p.run, p.outcome, p.cells, f"${p.usd}" if p.usd else "", p.title) for p in found]
    text = columns(rows, ("run", "outcome", "valid cells", "cost", "title")) if rows else "no runs yet"
    return answer("ls", as_json, text, {"runs": [asdict(p) for p in found]})
