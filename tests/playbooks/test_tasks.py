"""The Fabric collection, as a person uses it: by `fab`, from the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spec.home import ROOT
from spec.inventory import Ports
from tests.playbooks.conftest import Fleet
from tests.playbooks.servers import inventory

FAB = (str(Path(sys.executable).parent / "fab"), "-c", "playbooks")
RECIPE = str(ROOT / "recipes" / "campaigns" / "local.yaml")
TASKS = ("gates", "gateway", "nccl", "prepare", "probe", "serve", "smoke", "stop")


def fab(*arguments: str, folder: Path = ROOT, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*FAB, *arguments], cwd=folder, env=os.environ | env, capture_output=True, text=True, check=False, timeout=100
    )


@pytest.fixture
def nodes(fleet: Fleet) -> str:
    path = fleet.folder / "inventory.json"
    ports = {"run-0": Ports(first=40000, count=10), "run-1": Ports(first=40010, count=10)}
    up = [fleet.up(name).model_copy(update={"gpus": 2, "ports": ours}) for name, ours in ports.items()]
    path.write_text(inventory(*up).model_dump_json())
    return str(path)


@pytest.mark.parametrize("folder", [ROOT, ROOT / "tests"], ids=["the checkout", "below it"])
def test_all_tasks_are_listed(folder: Path) -> None:
    listed = fab("--list", "-F", "json", folder=folder).stdout
    assert tuple(sorted(task["name"] for task in json.loads(listed)["tasks"])) == TASKS


def test_a_refusal_is_one_message_and_its_exit_code() -> None:
    done = fab("probe", "--inventory", "/nowhere/inventory.json")
    assert done.returncode == 2
    assert "/nowhere/inventory.json: cannot be read" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_layout_is_refused_with_those_there_are(nodes: str) -> None:
    done = fab("serve", "--inventory", nodes, "--recipe", RECIPE, "--layout", "DP9")
    assert done.returncode == 2
    assert "no layout 'DP9' in this recipe; it has DP2xTP1, DP1xTP2" in done.stderr


def test_tasks_look_and_judge(nodes: str) -> None:
    done = fab("gates", "--inventory", nodes, "--recipe", RECIPE)
    assert done.returncode == 0, done.stderr
    assert "run-1 GPU count: not applicable: by plan: stand_in: cpu" in done.stdout
    done = fab("nccl", "--inventory", nodes, "--recipe", RECIPE)
    assert done.stdout == "not applicable, by plan: stand_in: cpu\n"


def test_prepare_says_what_an_empty_cache_lacks(nodes: str) -> None:
    done = fab("prepare", "--inventory", nodes, "--recipe", RECIPE, "--check")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert all("environment aiperf-" in line and "model smollm2: missing" in line for line in lines)
