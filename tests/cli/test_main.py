"""The command line as a whole: what there is, and that each command answers in one documented form."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest

from cli import output
from cli.main import COMMANDS, app, main
from money.budget import close
from money.ledger import Ledger
from money.receipt import build
from spec import schemas
from spec.home import ROOT, ledger_address

WITHOUT_JSON = {"ssh", "tunnel"}
"""They become the program `ssh`."""
ARGUMENTS = {
    "plan": ("nowhere.yaml",),
    "run": ("nowhere.yaml",),
    "up": ("nowhere.yaml",),
    "deploy": ("moon", "--model", "smollm2", "--budget", "1", "--hours", "1"),
    "budget": ("--day", "much"),
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


def answered(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    """The data of a command's answer, after its schema."""
    assert main([*words, "--json"]) == code
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, schemas.schema("answer"))
    data: dict[str, Any] = document["data"]
    return data


def test_budget_sets_and_lifts_limits_each_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEGATOK_OWNER", "ann")
    assert answered(capsys, "status")["limits"] is None
    assert answered(capsys, "budget")["day"] == {"limit_usd": None, "used_usd": "0"}
    assert answered(capsys, "budget", "--day", "5")["day"]["limit_usd"] == "5"
    both = answered(capsys, "budget", "--month", "70.50")
    assert (both["owner"], both["day"]["limit_usd"], both["month"]["limit_usd"]) == ("ann", "5", "70.50")
    assert answered(capsys, "status")["limits"]["month"]["limit_usd"] == "70.50"
    assert answered(capsys, "budget", "--owner", "bob")["day"]["limit_usd"] is None
    assert answered(capsys, "budget", "--day", "none")["day"]["limit_usd"] is None
    assert main(["budget"]) == 0
    assert "of $70.5000 spent or set aside, $70.5000 left" in capsys.readouterr().out
    assert main(["budget", "--day", "much"]) == 2


@pytest.mark.parametrize("words", [("up", "local", "--budget"), ("budget", "--day")])
def test_budget_that_no_amount_holds_is_refused(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "1e30"]) == 2
    assert "1e30 is more than a budget can be; give at most 1000000000000" in capsys.readouterr().err


def test_audit_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    found = answered(capsys, "audit")
    assert (found["things"], found["creates"], found["runs"], found["unproven"]) == ([], [], [], [])
    assert sorted(one["cloud"] for one in found["clouds"] if one["answered"]) == ["local", "ssh"]
    assert main(["audit"]) == 0
    assert capsys.readouterr().out == "nothing stands\n"
    assert main(["audit", "--verify"]) == 0
    assert "nothing that tells an unused ledger from a lost one" in capsys.readouterr().out
    assert main(["audit", "--verify", "--fix"]) == 2


def test_audit_verifies_the_ledger_against_receipts_outside_of_it(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A ledger cut short, and one with a changed line, are found out; of a consistent one it says what it shows."""
    ledger = Ledger(ledger_address())
    ledger.open("run", Decimal(1))
    receipt = build(
        ledger.events(), "run", cloud_usd={}, simulated=True, unproven=(), ledger=ledger, now=datetime.now(UTC)
    )
    folder = home / "runs" / "run"
    folder.mkdir(parents=True)
    (folder / "receipt.json").write_text(receipt.model_dump_json())
    close(ledger, "run", "done")
    assert len(answered(capsys, "audit", "--verify")["shows"]) == 4

    path = home / "ledger" / "ledger.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0].replace(b'"usd":"1"', b'"usd":"9"') + lines[1])
    (fault, other) = answered(capsys, "audit", "--verify", code=1)["faults"]
    assert "line 2: it does not hold the hash of line 1" in fault
    assert str(folder / "receipt.json") in other
    path.unlink()
    assert main(["audit", "--verify"]) == 1
    assert "CHANGED: " in capsys.readouterr().out
