"""Are this run's nodes fit? Exit 5 where one is not, or where it cannot be told."""

from __future__ import annotations

import click

from campaign import steps
from campaign.begin import again
from cli.output import JSON, answer, check_data, checks_table, progress


@click.command("gate", help=__doc__)
@click.argument("run")
@JSON
def COMMAND(run: str, as_json: bool) -> int:
    checks = steps.gate(steps.standing(again(run, progress)))
    return answer("gate", as_json, checks_table(checks), check_data(checks))
