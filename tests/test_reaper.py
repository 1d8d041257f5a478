"""The files of docs/reaper/: each starts a command that exists, as often as its heartbeat says."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import click
import pytest
import yaml

from cli.main import app
from spec.home import ROOT

FOLDER = ROOT / "docs" / "reaper"


def unit(name: str) -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None, strict=False)
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read(FOLDER / name)
    return found


def every_minutes(command: str) -> float:
    """Parsed by the command itself, as the words after `megatok` are given to it."""
    words = shlex.split(command)
    name, *rest = words[words.index(next(word for word in words if word.endswith("megatok"))) + 1 :]
    found = app.get_command(click.Context(app), name)
    assert found
    given = found.make_context(name, rest).params
    assert given["fix"] and not given["names"]
    return float(given["every"])


def test_timer_starts_the_service_as_often_as_it_says() -> None:
    timer, service = unit("megatok-audit.timer"), unit("megatok-audit.service")
    minutes = every_minutes(service["Service"]["ExecStart"])
    assert timer["Timer"]["OnCalendar"] == f"*:0/{minutes:.0f}"
    assert timer["Install"]["WantedBy"] == "timers.target"
    assert float(service["Service"]["TimeoutStartSec"]) < minutes * 60


def test_workflow_runs_as_often_as_it_says() -> None:
    text = (FOLDER / "audit-workflow.yml").read_text()
    told = yaml.safe_load(text)
    steps = told["jobs"]["audit"]["steps"]
    (command,) = (step["run"] for step in steps if "audit" in step.get("run", ""))
    (schedule,) = told[True]["schedule"]  # `on` is a boolean to YAML 1.1
    assert schedule["cron"] == f"*/{every_minutes(command):.0f} * * * *"
    assert told["jobs"]["audit"]["timeout-minutes"] < every_minutes(command)
    assert not told["concurrency"]["cancel-in-progress"]
    secret = re.findall(r"^\s+(\w*(?:KEY|TOKEN|SECRET)\w*): (.*)$", text, re.MULTILINE)
    assert secret and all("secrets." in value for _, value in secret)


def test_cron_line_runs_as_often_as_it_says() -> None:
    page = (ROOT / "docs" / "reaper.md").read_text()
    (line,) = re.findall(r"^    (\*/\d+ \* \* \* \* .*)$", page, re.MULTILINE)
    words = line.partition("/opt/megatok/.venv/bin/")[2].partition(" >>")[0]
    assert line.startswith(f"*/{every_minutes(words):.0f} ")


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    for path in FOLDER.glob("megatok-audit.*"):
        text = path.read_text().replace("/opt/megatok/.venv/bin/megatok", "/bin/true")
        (tmp_path / path.name).write_text(text.replace("User=megatok\n", ""))
    checked = subprocess.run(
        ["systemd-analyze", "verify", *map(str, tmp_path.glob("megatok-audit.*"))],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert "megatok-audit" not in checked.stderr, checked.stderr
