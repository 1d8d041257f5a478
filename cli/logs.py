"""Logs of a run's processes. From the nodes while they are up, else as collected."""

from __future__ import annotations

import click

from campaign.logs import names, text
from cli.output import JSON, answer


@click.command("logs", help=__doc__)
@click.argument("run")
@click.argument("name", required=False)
@click.option("--lines", type=click.IntRange(1), default=100, show_default=True, help="From the end.")
@JSON
def COMMAND(run: str, name: str | None, lines: int, as_json: bool) -> int:
    if name is None:
        found = names(run)
        return answer("logs", as_json, "\n".join(found) or "no logs yet", {"names": list(found)})
    body = text(run, name, lines)
    return answer("logs", as_json, body, {"name": name, "text": body})
