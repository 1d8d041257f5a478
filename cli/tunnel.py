"""Reach a run's endpoint through SSH, until Ctrl-C."""

from __future__ import annotations

import os

import click

from campaign.begin import again
from campaign.shell import command
from campaign.steps import part, standing
from cli.output import GATEWAY, LAYOUT, progress


@click.command("tunnel", help=__doc__)
@click.argument("run")
@click.option("--port", type=click.IntRange(1, 65535), default=18000, show_default=True, help="On this machine.")
@LAYOUT
@GATEWAY
def COMMAND(run: str, port: int, layout: str | None, gateway: str | None) -> int:
    _boot, front = part(standing(again(run)).plan, layout, gateway)
    target = front.placement.endpoints[0].removeprefix("http://")
    node = front.placement.gateway_node if front.launch else front.placement.replicas[0].node
    argv = command(run, node, ("-N", "-o", "ExitOnForwardFailure=yes", "-L", f"127.0.0.1:{port}:{target}"), ())
    progress(f"http://127.0.0.1:{port}/v1 reaches {target} until Ctrl-C")
    os.execvp(argv[0], argv)
