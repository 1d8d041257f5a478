"""Measure a run's cells that lack a valid record. Exit 6 where one is invalid."""

from __future__ import annotations

import json

import click

from campaign import steps
from campaign.begin import again
from campaign.document import document
from cli.output import JSON, answer, progress
from report.table import table


@click.command("measure", help=__doc__)
@click.argument("run")
@click.option("--only", metavar="CELL", multiple=True, help="Measure this cell alone; may be given again.")
@JSON
def COMMAND(run: str, only: tuple[str, ...], as_json: bool) -> int:
    opened = again(run, progress)
    at = steps.standing(opened)
    with opened.folder.owned(), opened.stop.listening(opened.deadline):
        steps.measure(at, only)
        done = document(opened)
        opened.keep(done)
    return answer("measure", as_json, table(done), json.loads(done.model_dump_json()), done.exit_code, done.message)
