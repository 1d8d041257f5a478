from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from plan.launch import Launch
from plan.loads import aiperf
from plan.make import Plan, make
from plan.price import Tariff
from plan.render import render
from spec import load
from tests.expected import matches

GOLDEN = Path(__file__).parent.parent / "golden"
CASES = sorted(path for path in GOLDEN.iterdir() if path.is_dir())
WITH_KEY = "knobs"


def planned(case: Path) -> Plan:
    campaign = load.campaign(case / "recipe.yaml")
    cluster = campaign.cluster
    price = load.price(cluster.cloud, cluster.node_type).usd_per_hour
    model, gpu = load.model(campaign.model), load.gpu(cluster.gpu)
    return make(campaign, model, gpu, Tariff(price, 60), key=case.name == WITH_KEY)


def launches(plan: Plan) -> Iterator[Launch]:
    for boot in plan.boots:
        yield from boot.servers
        for front in boot.gateways:
            yield from [front.launch] if front.launch else []
            yield from (aiperf.launch(cell, front.placement, plan.campaign) for cell in front.cells)


def test_default_case_is_the_default_campaign() -> None:
    assert (GOLDEN / "default" / "recipe.yaml").read_text() == (load.RECIPES / "campaigns" / "local.yaml").read_text()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_plan_reads_as_expected(case: Path) -> None:
    matches(render(planned(case)), case / "plan.txt")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_files_of_processes_are_as_expected(case: Path) -> None:
    for launch in launches(planned(case)):
        for name, text in launch.files:
            if not text.startswith("{file:"):
                matches(text, case / launch.name / name)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_same_recipe_gives_the_same_plan(case: Path) -> None:
    assert planned(case) == planned(case)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_names_of_processes_are_unique(case: Path) -> None:
    names = [launch.name for launch in launches(planned(case))]
    assert len(names) == len(set(names))
