"""First boot: user data, metadata, and the power switch that the node itself may press."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.localcloud.conftest import Program, until


def home(program: Program, id: str) -> Path:
    return program.home / "nodes" / id / "home"


def metadata(program: Program, id: str) -> dict[str, str]:
    text = (program.home / "nodes" / id / "metadata").read_text()
    return dict(line.split("=", 1) for line in text.splitlines())


def test_user_data_runs_once_as_the_node(program: Program) -> None:
    node = program.create(user_data='echo "$MEGATOK_NODE $PWD" >>booted\n')
    booted = home(program, node["id"]) / "booted"
    until(booted.exists)
    program.kill()
    program.start()
    assert until(booted.read_text).split("\n") == [f"{node['id']} {home(program, node['id'])}", ""]
    assert program.read(node["id"])["user_data"] == 'echo "$MEGATOK_NODE $PWD" >>booted\n'


def test_what_user_data_started_ends_with_the_node(program: Program) -> None:
    node = program.create(user_data="setsid sleep 300 & echo $! >pid; wait\n")
    pid = int(until(lambda: text(home(program, node["id"]) / "pid")))
    program.ask("DELETE", f"/v1/nodes/{node['id']}")
    program.ended(node["id"])
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_metadata_tells_id_tags_and_the_expiry_as_it_is_now(program: Program) -> None:
    node = program.create(tags={"team": "red", "note": "a=b"})
    told = metadata(program, node["id"])
    assert (told["id"], told["tag.team"], told["tag.note"]) == (node["id"], "red", "a=b")
    assert told["expires_at"] == node["expires_at"]
    later = (datetime.fromisoformat(node["expires_at"]) + timedelta(seconds=60)).isoformat()
    program.ask("POST", f"/v1/nodes/{node['id']}/expiry", {"expires_at": later, "tags": {"team": "green"}})
    told = metadata(program, node["id"])
    assert (told["expires_at"], told["tag.team"]) == (later, "green")
    assert program.run(node, 'cat "$LOCALCLOUD_METADATA"')[1].decode().splitlines() == [
        f"{key}={value}" for key, value in told.items()
    ]


@pytest.mark.parametrize("by", ["user data", "ssh"])
def test_power_off_ends_node_and_bill(program: Program, by: str) -> None:
    node = program.create(user_data="sleep 2; poweroff\n" if by == "user data" else "")
    if by == "ssh":
        program.run(node, "poweroff")
    assert program.ended(node["id"])["reason"] == "powered off"
    assert program.bill()["running"] == 0


def test_native_dead_outlives_its_expiry_until_powered_off(program: Program) -> None:
    program.fault("native_dead")
    node = program.create(lifetime_s=1, user_data="sleep 3; poweroff\n")
    ended = program.ended(node["id"])
    late = datetime.fromisoformat(ended["ended_at"]) - datetime.fromisoformat(node["expires_at"])
    assert (ended["reason"], late > timedelta(seconds=1)) == ("powered off", True)


def text(path: Path) -> str:
    return path.read_text() if path.exists() else ""
