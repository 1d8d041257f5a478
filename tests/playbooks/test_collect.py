"""Collect: logs of every process come home, secrets do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from playbooks import remote, serve
from playbooks.collect import collect
from spec.errors import NodeError
from tests.playbooks.conftest import Fleet
from tests.playbooks.servers import bash, facts, inventory


def test_logs_come_home_and_secrets_do_not(fleet: Fleet, tmp_path: Path) -> None:
    nodes = inventory(fleet.up("run-0"))
    serve.start(nodes, {"run-0": facts()}, [bash("one", "echo hello; sleep 300", secrets=("KEY",))], {"KEY": "hunter2"})
    collect(nodes, tmp_path / "logs")
    serve.stop(nodes, ["one"])
    files = [path for path in (tmp_path / "logs").rglob("*") if path.is_file()]
    assert (tmp_path / "logs" / "run-0" / "one" / "log").read_text() == "hello\n"
    assert not [path for path in files if b"hunter2" in path.read_bytes()]


def test_a_node_on_which_nothing_ran_is_no_failure(fleet: Fleet, tmp_path: Path) -> None:
    collect(inventory(fleet.up("run-0")), tmp_path / "logs")
    assert not (tmp_path / "logs").exists()


def test_those_that_answer_are_collected_before_the_others_are_named(fleet: Fleet, tmp_path: Path) -> None:
    nodes = inventory(fleet.up("run-0"), fleet.up("run-1"))
    serve.start(nodes, {"run-0": facts()}, [bash("one", "echo hello; exec sleep 300")], {})
    remote.close_all()
    fleet.down("run-1")
    with pytest.raises(NodeError, match="1 of 2 nodes failed: run-1"):
        collect(nodes, tmp_path / "logs")
    serve.stop(inventory(nodes.nodes[0]), ["one"])
    assert (tmp_path / "logs" / "run-0" / "one" / "log").read_text() == "hello\n"
