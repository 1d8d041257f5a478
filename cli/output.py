"""What goes to standard output (answers) and to standard error (everything else)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from spec.answer import Answer

JSON = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")


def progress(line: str) -> None:
    """A line for the person who waits."""
    print(line, file=sys.stderr, flush=True)


def complain(text: str) -> None:
    print(f"megatok: {text}", file=sys.stderr, flush=True)


def out(text: str) -> None:
    print(text, flush=True)


def answer(command: str, as_json: bool, text: str, data: dict[str, Any], code: int = 0, message: str = "") -> int:
    """Print a command's answer in the form that was asked; hands `code` through."""
    if as_json:
        out(Answer(command=command, exit_code=code, message=message, data=data).model_dump_json(indent=1))
    elif text:
        out(text)
    return code


def columns(rows: Sequence[Sequence[str]], heads: Sequence[str]) -> str:
    """A plain table, each column as wide as it must be."""
    lines = [list(heads), *[list(row) for row in rows]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)


