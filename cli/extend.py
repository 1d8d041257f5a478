"""Let a run's nodes live longer. Refused where the budget does not hold it."""

from __future__ import annotations

import json

import click

from campaign.steps import extend
from cli.output import JSON, answer
from cli.up import listing


@click.command("extend", help=__doc__)
@click.argument("run")
@click.option("--hours", type=click.FloatRange(0, min_open=True), required=True, help="Added to the lifetime.")
@JSON
def COMMAND(run: str, hours: float, as_json: bool) -> int:
    inventory = extend(run, hours * 3600)
    return answer("extend", as_json, listing(inventory), {"inventory": json.loads(inventory.model_dump_json())})
