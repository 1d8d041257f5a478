"""A shell, or one command, on a node. With the run's own key and the pinned host key."""

from __future__ import annotations

import os

import click

from campaign.shell import command


@click.command("ssh", help=__doc__, context_settings={"ignore_unknown_options": True})
@click.argument("run")
@click.option("--node", type=click.IntRange(0), default=0, show_default=True, help="Index of the node.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def COMMAND(run: str, node: int, words: tuple[str, ...]) -> int:
    argv = command(run, node, (), words)
    os.execvp(argv[0], argv)
