"""What holds when something is killed: the cloud, a supervisor, an SSH server."""

from __future__ import annotations

import json
import os
import signal
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.localcloud.conftest import Program, until


def pid(program: Program, node: str, file: str) -> int:
    return int((program.home / "nodes" / node / file).read_text())


def gone(number: int) -> bool:
    """Ended; a zombie that nobody reaps has ended too."""
    stat = Path(f"/proc/{number}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_killed_cloud_finds_its_nodes_again(program: Program) -> None:
    node = program.create()
    program.kill()
    program.start()
    assert program.read(node["id"]) == node
    assert program.run(node, "echo here")[1] == b"here\n"
    assert program.create()["id"] == node["id"]
    assert program.bill()["running"] == 1


def test_killed_cloud_forgets_what_it_had_not_begun(program: Program) -> None:
    program.fault("create_slow", seconds=60)
    with pytest.raises(Exception, match="timed out"):
        program.ask("POST", "/v1/nodes", program.order(), limit_s=0.3)
    program.kill()
    program.start()
    assert program.listing() == []
    assert program.bill()["lines"] == []


def test_node_expires_while_the_cloud_is_dead(program: Program) -> None:
    node = program.create(lifetime_s=2)
    server = pid(program, node["id"], "sshd.pid")
    program.kill()
    until(lambda: gone(server))
    until(lambda: '"stop"' in (program.home / "meter.jsonl").read_text())
    stop = json.loads((program.home / "meter.jsonl").read_text().splitlines()[-1])
    assert stop["reason"] == "expired"
    program.start()
    late_s = datetime.fromisoformat(program.ended(node["id"])["ended_at"]) - datetime.fromisoformat(node["expires_at"])
    assert timedelta(0) <= late_s < timedelta(seconds=2)


@pytest.mark.parametrize("cloud_dead", [False, True])
def test_lost_supervisor_ends_node_and_bill(program: Program, cloud_dead: bool) -> None:
    node = program.create()
    server = pid(program, node["id"], "sshd.pid")
    if cloud_dead:
        program.kill()
    os.kill(pid(program, node["id"], "lock"), signal.SIGKILL)
    if cloud_dead:
        program.start()
    assert program.ended(node["id"])["reason"] == "lost"
    assert gone(server)
    assert program.bill()["running"] == 0


def test_ended_ssh_server_is_a_power_off(program: Program) -> None:
    node = program.create()
    os.kill(pid(program, node["id"], "sshd.pid"), signal.SIGTERM)
    assert program.ended(node["id"])["reason"] == "powered off"


def test_one_cloud_for_each_home(program: Program) -> None:
    second = program.launch()
    assert second.wait(timeout=20) == 3
    assert program.listing() == []


def test_cloud_ends_when_idle_and_empty(program: Program) -> None:
    program.process.terminate()
    program.process.wait()
    program.start(idle_s=3.0)
    node = program.create(lifetime_s=60)
    with pytest.raises(Exception, match="timed out"):
        program.process.wait(timeout=4.5)
    program.ask("DELETE", f"/v1/nodes/{node['id']}")
    assert program.process.wait(timeout=20) == 0
    assert not (program.home / "endpoint.json").exists()
