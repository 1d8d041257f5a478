"""The command line as a whole: what there is, and that each command answers in one documented form."""

from __future__ import annotations

import json
from pathlib import Path

import click
import jsonschema
import pytest

from cli import output
from cli.main import COMMANDS, app, main
from spec import schemas
from spec.home import ROOT

WITHOUT_JSON = {"ssh", "tunnel"}
"""They become the program `ssh`."""
ARGUMENTS = {
    "plan": ("nowhere.yaml",),
    "run": ("nowhere.yaml",),
    "up": ("nowhere.yaml",),
    "deploy": ("moon", "--model", "smollm2", "--budget", "1", "--hours", "1"),
    "ls": ("too", "many"),
    "doctor": ("too", "many"),
}


def command(name: str) -> click.Command:
    found = app.get_command(click.Context(app), name)
    assert found
    return found


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[lines.index("Commands:") + 1 :] if line] == list(COMMANDS)


def test_every_module_is_a_command() -> None:
    others = {"__init__", "main", "output"}
    assert {path.stem for path in (ROOT / "cli").glob("*.py")} - others == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    assert f"Usage: megatok {name} " in capsys.readouterr().out
    text = command(name).get_short_help_str(1000)
    assert text and len(text) <= 110, text


@pytest.mark.parametrize("name", COMMANDS)
def test_command_has_a_json_form(name: str) -> None:
    options = {option for parameter in command(name).params for option in parameter.opts}
    assert ("--json" in options) == (name not in WITHOUT_JSON)


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in WITHOUT_JSON])
def test_refused_command_answers_with_one_document(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main([name, *ARGUMENTS.get(name, ("gone",)), "--json"])
    said = capsys.readouterr()
    document = json.loads(said.out)
    jsonschema.validate(document, schemas.schema("run" if name == "run" else "answer"))
    assert document["exit_code"] == code == 2
    assert said.err.endswith(f"megatok: {document['message']}\n")


def test_a_mistake_of_ours_is_one_line_and_a_file(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr("cli.ls.past_runs", broken)
    assert main(["ls"]) == 1
    kept = home / "last-error.txt"
    assert capsys.readouterr().err == f"megatok: unexpected ZeroDivisionError: a mistake; details in {kept}\n"
    assert "Traceback" in kept.read_text()


@pytest.mark.parametrize("error", [KeyboardInterrupt, click.Abort])
def test_ctrl_c_where_nothing_is_rented(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("cli.ls.past_runs", stopped)
    assert main(["ls"]) == 8
    assert capsys.readouterr().err.strip() == "megatok: stopped"


def test_columns_are_as_wide_as_they_must_be() -> None:
    assert output.columns([("a", "long one"), ("bbb", "c")], ("x", "y")) == "x    y\na    long one\nbbb  c"
