from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from money import budget, receipt
from money.ledger import Ledger
from spec import load, schemas, strict_yaml
from spec.answer import Answer
from spec.base import Spec
from spec.inventory import Inventory, Node, Ports, Switch
from spec.layout import LayoutShape
from spec.ledger import Resource
from spec.recipe import CellKey, Workload
from spec.record import Forecast, Phase, Record, RunDocument
from tests.expected import matches
from tests.report import conftest as sample

DOCS = load.RECIPES.parent / "docs" / "schemas"
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
KINDS = {"campaigns": "recipe", "clusters": "cluster", "workloads": "workload", "models": "model", "gpus": "gpu"}


def refusals(name: str, value: object) -> list[str]:
    kind = jsonschema.Draft202012Validator
    checker = kind(schemas.schema(name), format_checker=kind.FORMAT_CHECKER)
    return [f"{error.json_path}: {error.message}" for error in checker.iter_errors(value)]


@pytest.mark.parametrize("name", schemas.SCHEMAS)
def test_published_schema_is_current(name: str) -> None:
    matches(schemas.text(name), DOCS / f"{name}.json")


@pytest.mark.parametrize("name", schemas.SCHEMAS)
def test_schema_is_a_schema(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schemas.schema(name))


def test_no_schema_without_a_type() -> None:
    assert {path.stem for path in DOCS.iterdir()} == set(schemas.SCHEMAS)


@pytest.mark.parametrize(
    "path", sorted(load.RECIPES.rglob("*.yaml")), ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_recipe_is_valid_against_its_schema(path: Path) -> None:
    name = KINDS.get(path.parent.name, path.parent.name)
    assert not refusals(name, strict_yaml.parse(path.read_text(), str(path)).value)


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("recipe", {"lifetime_m": 30}),
        ("recipe", {"sweep": []}),
        ("recipe", {"budget_usd": True}),
        ("recipe", {"sweep": [{"layout": ["TP2"], "gateway": ["none"], "concurrency": [1]}]}),
        ("cluster", {"nodes": 0}),
        ("cluster", {"name": "Two Nodes"}),
    ],
)
def test_schema_refuses_what_the_loader_refuses(name: str, broken: dict[str, Any]) -> None:
    path = {"recipe": "campaigns/local.yaml", "cluster": "clusters/local-2.yaml"}[name]
    value = strict_yaml.parse((load.RECIPES / path).read_text(), path).value
    assert not refusals(name, value)
    assert refusals(name, {**value, **broken})


def test_written_files_are_valid_against_their_schemas(tmp_path: Path) -> None:
    for name, spec in written(tmp_path):
        value = json.loads(spec.model_dump_json())
        assert not refusals(name, value)
        assert type(spec).model_validate_json(spec.model_dump_json()) == spec, "and can be read back"


def test_ledger_lines_are_valid_against_their_schema(tmp_path: Path) -> None:
    spent(tmp_path)
    lines = (tmp_path / "ledger.jsonl").read_text().splitlines()
    assert len(lines) > 5
    assert not [refusal for line in lines for refusal in refusals("event", json.loads(line))]


def spent(folder: Path) -> Ledger:
    """A ledger in which one node lived and died."""
    ledger = Ledger(folder.as_uri())
    epoch = ledger.open("run", Decimal(1))
    machine = Resource(cloud="local", region="here", kind="machine", id="m-1")
    budget.reserve(ledger, "run", epoch, "run-0-a1", Decimal("0.1"))
    budget.intent(ledger, "run", epoch, "run-0-a1", "create")
    budget.commit(ledger, "run", "run-0-a1", (machine,), NOON)
    budget.settle(ledger, "run", "run-0-a1", machine, Decimal("0.05"), NOON, NOON + timedelta(minutes=15))
    for seconds in (901, 902):
        budget.sighting(ledger, "run", (machine,), NOON + timedelta(seconds=seconds))
    return ledger


def written(folder: Path) -> Iterator[tuple[str, Spec]]:
    ledger = spent(folder)
    proof = receipt.build(
        ledger.events(), "run", cloud_usd={"m-1": Decimal("0.05")}, simulated=True, unproven=(), ledger=ledger, now=NOON
    )
    measured = record()
    phase = Phase(name="provision", started_at=NOON, seconds=2.5, own_s=2.5)
    yield "event", ledger.events()[0]
    yield "receipt", proof
    yield "inventory", Inventory(run="run", stand_in="cpu", nodes=(node(),))
    yield "record", measured
    yield "record", measured.model_copy(update={"figures": None, "forecast": None, "valid": False})
    yield "run", document(phases=(phase,), cells=(measured,), receipt=proof)
    yield "run", document(phases=(), cells=(), receipt=None)
    yield "answer", Answer(command="status", exit_code=0, data={"runs": [{"run": "run", "usd": "0.05"}]})


def node() -> Node:
    return Node(
        name="run-0", id="m-1", index=0, cloud="local", region="here", node_type="cpu-2", gpus=2, host="127.0.0.1",
        ssh_port=20000, user="me", key_file="/home/me/key", host_key="ssh-ed25519 AAAA",
        ports=Ports(first=20001, count=24), created_at=NOON,
        expires_at=NOON + timedelta(hours=1), usd_per_hour=Decimal("0.20"),
        switches=(Switch(kind="native", armed=True, fires_at=NOON + timedelta(hours=1)),),
    )  # fmt: skip


def record() -> Record:
    key = CellKey(layout=LayoutShape(dp=2), gateway="nginx", concurrency=4)
    workload = Workload(name="chat-tiny", isl_tokens=64, osl_tokens=32, requests=16)
    found = sample.cell("run", key, workload, (0.2, 0.01), stand_in=True, usd_per_hour=Decimal("0.4"))
    return found.model_copy(update={"forecast": Forecast(output_tok_per_s=100, low=30, high=200, source="calibration")})


def document(**parts: Any) -> RunDocument:
    return RunDocument(
        run="run", title="DP2 or TP2", recipe="recipes/campaigns/local.yaml", simulated=True, stand_in="cpu",
        exit_code=0, message="", folder="runs/run", **parts,
    )  # fmt: skip
