"""Write a run's report again from its folder, and show its table."""

from __future__ import annotations

import json

import click

from campaign.folder import known
from cli.output import JSON, answer
from report.table import table
from report.write import write
from spec.errors import RecipeError


@click.command("report", help=__doc__)
@click.argument("run")
@JSON
def COMMAND(run: str, as_json: bool) -> int:
    folder = known(run)
    document = folder.document()
    if document is None:
        raise RecipeError(f"run {run} has no results yet; see: megatok status {run}")
    paths = write(document, folder.path / "report")
    text = "\n".join([table(document), *map(str, paths)])
    data = {"files": [str(path) for path in paths], "document": json.loads(document.model_dump_json())}
    return answer("report", as_json, text, data)
