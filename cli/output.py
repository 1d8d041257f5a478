"""What goes to standard output (answers) and to standard error (everything else)."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import IO, Any

import click

from spec.answer import Answer
from spec.base import MOST_USD, shown
from spec.errors import MegatokError
from spec.receipt import Receipt
from spec.record import Check, RunDocument

JSON = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")


class Unwritten(MegatokError):
    """Standard output takes no more."""


def progress(line: str) -> None:
    """A line for the person who waits. Where nobody reads any more, the work goes on: nodes must be given back."""
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        _mute(sys.stderr)


def complain(text: str) -> None:
    progress(f"megatok: {text}")


def out(text: str) -> None:
    try:
        print(text, flush=True)
    except OSError as error:
        _mute(sys.stdout)
        raise Unwritten(f"the answer cannot be written to standard output: {error.strerror}") from error


def _mute(stream: IO[str]) -> None:
    """Python would try once more when it ends, and end with an exit code of its own."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def answer(command: str, as_json: bool, text: str, data: dict[str, Any], code: int = 0, message: str = "") -> int:
    """Print a command's answer in the form that was asked; hands `code` through."""
    if as_json:
        out(Answer(command=command, exit_code=code, message=message, data=data).model_dump_json(indent=1))
    elif text:
        out(text)
    return code


def refusal(command: str, code: int, message: str) -> str:
    """The document of a command that came to nothing."""
    if command != "run":
        return Answer(command=command, exit_code=code, message=message).model_dump_json(indent=1)
    return RunDocument(
        run="",
        title="",
        recipe="",
        simulated=False,
        stand_in=None,
        exit_code=code,
        message=message,
        phases=(),
        cells=(),
        receipt=None,
        folder="",
    ).model_dump_json(indent=1)


def columns(rows: Sequence[Sequence[str]], heads: Sequence[str]) -> str:
    """A plain table, each column as wide as it must be."""
    lines = [list(heads), *[list(row) for row in rows]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)


class _Usd(click.ParamType[Decimal]):
    """An exact amount above zero, that a budget can be."""

    name = "usd"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Decimal:
        try:
            amount = Decimal(str(value))
        except ArithmeticError:
            self.fail(f"{value!r} is not an amount of dollars", param, ctx)
        if not amount.is_finite() or amount <= 0:
            self.fail(f"{value} is not above zero", param, ctx)
        if amount > MOST_USD:
            self.fail(f"{value} is more than a budget can be; give at most {MOST_USD}", param, ctx)
        return amount


BUDGET = click.option("--budget", type=_Usd(), metavar="USD", help="Takes the place of the recipe's budget_usd.")
USD = _Usd()
LAYOUT = click.option("--layout", metavar="DPnxTPn", help="Of the campaign's layouts; its first where not given.")
GATEWAY = click.option("--gateway", metavar="NAME", help="Of the campaign's gateways; its first where not given.")


def checks_table(checks: Sequence[Check]) -> str:
    return columns([(check.name, check.outcome, check.detail) for check in checks], ("check", "outcome", "detail"))


def check_data(checks: Sequence[Check]) -> dict[str, Any]:
    return {"checks": [check.model_dump() for check in checks]}


SHOWN = 2
"""Sightings in the table: what proves a thing gone; a later `down` adds more to the receipt."""


def receipt_table(receipt: Receipt) -> str:
    """Each billable id, and the proof that it is gone."""
    rows = [
        (
            line.resource.name or line.resource.id,
            line.resource.id,
            _clock(line.created_at),
            _clock(line.deleted_at),
            ", ".join(map(_clock, line.absent_at[:SHOWN])) or "never",
            f"${shown(line.usd)}",
            "proven" if line.proven else "NOT PROVEN",
        )
        for line in receipt.lines
    ]
    table = columns(rows, ("name", "id", "created", "deleted", "seen absent", "cost", "gone"))
    money = "play money" if receipt.simulated else "US dollars"
    more = f", and at most ${shown(receipt.held_usd)} more that is not settled yet," if receipt.held_usd else ""
    total = f"total ${shown(receipt.usd)}{more} of ${shown(receipt.budget_usd)} ({money})"
    state = "all proven gone" if receipt.proven else "NOT proven gone: " + "; ".join(receipt.unproven)
    return "\n".join([table if rows else "nothing billable was ever made", f"{total}; {state}"])


def _clock(at: datetime | None) -> str:
    return f"{at:%H:%M:%SZ}" if at else "-"
