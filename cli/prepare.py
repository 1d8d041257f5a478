"""Install on a run's nodes what they lack. A second time: 0 changed."""

from __future__ import annotations

import click

from campaign import steps
from campaign.begin import again
from cli.output import JSON, answer, progress


@click.command("prepare", help=__doc__)
@click.argument("run")
@click.option("--check", is_flag=True, help="Say what would change, and change nothing.")
@JSON
def COMMAND(run: str, check: bool, as_json: bool) -> int:
    changes = steps.make_ready(steps.standing(again(run, progress)), check=check)
    lines = [f"{node}: {change}" for node, made in changes.items() for change in made]
    count = f"{len(lines)} {'would change' if check else 'changed'}"
    data = {"changes": {node: list(made) for node, made in changes.items()}, "check": check}
    return answer("prepare", as_json, "\n".join([*lines, count]), data)
