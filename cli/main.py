"""Entry point: finds the command's module by name, so that one command does not pay for the imports of the others."""

from __future__ import annotations

import contextlib
import importlib
import sys
import traceback
from collections.abc import Sequence

import click

from cli.output import Unwritten, complain, out, refusal
from spec.errors import MegatokError
from spec.home import home

COMMANDS = (
    *("plan", "run", "deploy"),
    *("up", "prepare", "gate", "serve", "smoke", "measure", "down"),
    *("status", "audit", "budget", "ls", "logs", "ssh", "tunnel", "stop", "extend", "report", "doctor"),
)


WIDTH = 110
"""Of help texts, where the terminal has it."""


class Lazy(click.Group):
    """A command is the module `cli.NAME` with a `COMMAND`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = importlib.import_module(f"cli.{cmd_name}").COMMAND
        return found


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDTH})
@click.version_option("0.1.0", prog_name="megatok")
def app() -> None:
    """Rent nodes, serve a model on them, measure it, give them back, and prove it.

    Exit codes: 0 done; 2 bad recipe or arguments; 3 over budget; 4 no capacity; 5 a gate failed; 6 a result is
    invalid; 7 teardown unproven, something may still be billed; 8 interrupted, torn down; 10 this machine is unfit;
    1 anything else.
    """


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    given = list(sys.argv[1:] if words is None else words)
    try:
        code = app.main(given, prog_name="megatok", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.UsageError as error:
        return _refused(given, 2, f"{error.format_message()}\n{_help(error)}")
    except MegatokError as error:
        return _refused(given, error.exit_code, str(error))
    except (click.Abort, KeyboardInterrupt):
        return _refused(given, 8, "stopped")
    except Exception as error:
        return _refused(given, 1, _unexpected(error))


def _refused(given: Sequence[str], code: int, message: str) -> int:
    """One message; as a document too where one was asked for."""
    if given and "--json" in given:
        with contextlib.suppress(Unwritten):
            out(refusal(given[0], code, message))
    complain(message)
    return code


def _help(error: click.UsageError) -> str:
    return f"see: {error.ctx.command_path} --help" if error.ctx else "see: megatok --help"


def _unexpected(error: Exception) -> str:
    """A mistake of ours: one line for the user, the traceback in a file."""
    said = f"unexpected {type(error).__name__}: {error}"
    try:
        path = home() / "last-error.txt"
        path.write_text("".join(traceback.format_exception(error)))
    except OSError:
        return said
    return f"{said}; details in {path}"
