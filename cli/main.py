"""Entry point: finds the command's module by name, so that one command does not pay for the imports of the others."""

from __future__ import annotations

import importlib
import sys
import traceback

import click

from cli.output import answer, complain
from spec.errors import MegatokError
from spec.home import home

COMMANDS = (
    *("plan", "run", "deploy"),
    *("up", "prepare", "gate", "serve", "smoke", "measure", "down"),
    *("status", "ls", "logs", "ssh", "tunnel", "stop", "extend", "report", "doctor"),
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


def main() -> int:
    """Run the command line; the exit code."""
    try:
        code = app.main(prog_name="megatok", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    except click.Abort:
        complain("stopped")
        return 8
    except MegatokError as error:
        return _refused(error)
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except KeyboardInterrupt:
        complain("stopped")
        return 8
    except Exception as error:
        return _unexpected(error)


def _refused(error: MegatokError) -> int:
    """One message; as a document too where one was asked for (`run` has written its own by then)."""
    words = sys.argv[1:]
    if "--json" in words and words[0] != "run":
        answer(words[0], True, "", {}, error.exit_code, str(error))
    complain(str(error))
    return error.exit_code


def _unexpected(error: Exception) -> int:
    """A mistake of ours: one line for the user, the traceback in a file."""
    try:
        path = home() / "last-error.txt"
        path.write_text("".join(traceback.format_exception(error)))
        complain(f"unexpected {type(error).__name__}: {error}; details in {path}")
    except OSError:
        complain(f"unexpected {type(error).__name__}: {error}")
    return 1
