"""Does every replica answer as asked? Directly and through the gateway; exit 5 if not."""

from __future__ import annotations

import click

from campaign import steps
from campaign.begin import again
from cli.output import GATEWAY, JSON, LAYOUT, answer, check_data, checks_table, progress


@click.command("smoke", help=__doc__)
@click.argument("run")
@LAYOUT
@GATEWAY
@JSON
def COMMAND(run: str, layout: str | None, gateway: str | None, as_json: bool) -> int:
    checks = steps.smoke(steps.standing(again(run, progress)), layout, gateway)
    return answer("smoke", as_json, checks_table(checks), check_data(checks))
