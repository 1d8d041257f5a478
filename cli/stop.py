"""End a run that works in another terminal. It tears down; its receipt is shown."""

from __future__ import annotations

import json

import click

from campaign.gone import stop
from cli.output import JSON, answer, progress, receipt_table


@click.command("stop", help=__doc__)
@click.argument("run")
@JSON
def COMMAND(run: str, as_json: bool) -> int:
    receipt = stop(run, progress)
    if receipt is None:
        return answer("stop", as_json, "", {}, 7, f"the runner left no receipt; prove it with: megatok down {run}")
    code = 0 if receipt.proven else 7
    return answer("stop", as_json, receipt_table(receipt), json.loads(receipt.model_dump_json()), code)
