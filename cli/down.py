"""Give a run's nodes back and prove it. Works from the stack, the ledger, or tags alone."""

from __future__ import annotations

import json

import click

from campaign.gone import down
from cli.output import JSON, answer, progress, receipt_table


@click.command("down", help=__doc__)
@click.argument("run")
@JSON
def COMMAND(run: str, as_json: bool) -> int:
    receipt = down(run, progress)
    code = 0 if receipt.proven else 7
    again = "" if receipt.proven else f"not all is shown to be gone; go on with: megatok down {run}"
    text = receipt_table(receipt) + (f"\n{again}" if again else "")
    return answer("down", as_json, text, json.loads(receipt.model_dump_json()), code, again)
