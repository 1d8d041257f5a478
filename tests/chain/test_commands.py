"""Each command on a cluster that stands, one after another: its exit code, and its answer against the schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from spec import schemas
from tests.chain.rig import Aftermath, megatok, recipe

pytestmark = pytest.mark.timeout(400)


def answered(*words: str | Path, code: int = 0) -> dict[str, Any]:
    """The data of a command's answer, which is the only thing on standard output."""
    done = megatok(*words, "--json")
    assert done.rc == code, done.err
    answer = json.loads(done.out)
    jsonschema.validate(answer, schemas.schema("answer"))
    assert (answer["command"], answer["exit_code"]) == (words[0], code)
    data: dict[str, Any] = answer["data"]
    return data


def test_every_command(aftermath: Aftermath, tmp_path: Path, run_id: str) -> None:
    small = recipe(tmp_path)
    assert answered("plan", small)["worst_usd"] == "0.017084"
    (node,) = answered("up", small, "--id", run_id)["inventory"]["nodes"]
    assert answered("up", small, "--id", run_id)["inventory"]["nodes"] == [node]
    (standing,) = answered("status", run_id)["runs"]
    assert (standing["machines"], standing["budget_usd"]) == (1, "0.1000")
    assert answered("prepare", run_id, "--check")["check"]
    assert answered("prepare", run_id)["changes"] == {node["name"]: []}
    assert {check["outcome"] for check in answered("gate", run_id)["checks"]} == {"pass", "not applicable"}

    assert "smoke failed" in answered_message("smoke", run_id, code=5)
    (endpoint,) = answered("serve", run_id)["endpoints"]
    assert answered("serve", run_id)["endpoints"] == [endpoint]
    assert [check["outcome"] for check in answered("smoke", run_id)["checks"]] == ["pass"]
    assert "no DP9xTP9 gateway in this campaign" in answered_message("smoke", run_id, "--layout", "DP9xTP9", code=2)

    name = f"{node['name']}/dp1xtp1-server-0/log"
    assert name in answered("logs", run_id)["names"]
    assert answered("logs", run_id, name, "--lines", "5")["text"]
    (longer,) = answered("extend", run_id, "--hours", "0.1")["inventory"]["nodes"]
    assert longer["expires_at"] > node["expires_at"]
    assert "budget" in answered_message("extend", run_id, "--hours", "100", code=3)
    echoed = megatok("ssh", run_id, "--", "echo", "$MEGATOK_NODE")
    assert (echoed.rc, echoed.out.strip()) == (0, node["id"])

    assert answered("measure", run_id)["cells"][0]["valid"]
    assert answered("report", run_id)["files"]
    receipt = answered("down", run_id)
    assert receipt["proven"] and receipt["lines"][0]["resource"]["id"] == node["id"]
    assert [run["run"] for run in answered("ls")["runs"]] == [run_id]
    assert "has no nodes" in answered_message("prepare", run_id, code=2)
    assert "nothing" in answered_message("status", run_id, code=2)
    assert answered("down", run_id)["proven"]
    aftermath.nothing(run_id, nodes=1)


def answered_message(*words: str | Path, code: int) -> str:
    """What a refused command says, here and there the same."""
    done = megatok(*words, "--json")
    assert done.rc == code, done.err
    answer = json.loads(done.out)
    jsonschema.validate(answer, schemas.schema("answer"))
    assert answer["message"] == done.complaint()
    return done.complaint()
