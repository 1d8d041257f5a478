"""Start one layout behind one gateway. What served there before is stopped."""

from __future__ import annotations

import click

from campaign import steps
from campaign.begin import again
from cli.output import GATEWAY, JSON, LAYOUT, answer, progress


@click.command("serve", help=__doc__)
@click.argument("run")
@LAYOUT
@GATEWAY
@JSON
def COMMAND(run: str, layout: str | None, gateway: str | None, as_json: bool) -> int:
    endpoints = steps.serve_part(steps.standing(again(run, progress)), layout, gateway)
    return answer("serve", as_json, "\n".join(f"{url}/v1" for url in endpoints), {"endpoints": list(endpoints)})
