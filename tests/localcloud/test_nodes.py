"""Nodes as a client meets them, on both SSH servers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.localcloud.conftest import Program, until


@pytest.fixture(params=["sshd", "embedded"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Program, dict[str, Any]]]:
    program = Program(tmp_path / "my cloud", LOCALCLOUD_SSHD=request.param, SECRET="not for nodes")
    yield program, program.create()
    program.close()


Served = tuple[Program, dict[str, Any]]


def test_exit_code_output_and_input_pass(served: Served) -> None:
    program, node = served
    assert program.run(node, "cat; echo oops >&2; exit 7", b"hello") == (7, b"hello", b"oops\n")


def test_large_output_passes_whole(served: Served) -> None:
    program, node = served
    assert program.run(node, "head -c 20000000 /dev/zero")[1] == bytes(20_000_000)


def test_command_runs_in_a_home_of_its_own(served: Served) -> None:
    program, node = served
    _, out, _ = program.run(node, 'pwd; echo "$HOME"; echo "$MEGATOK_NODE"; echo "${SECRET-none}"')
    home = str(program.home / "nodes" / node["id"] / "home")
    assert out.decode().split("\n") == [home, home, node["id"], "none", ""]


def test_temporary_files_end_with_the_node(served: Served) -> None:
    program, node = served
    made = Path(program.run(node, "mktemp")[1].decode().strip())
    assert made.exists()
    program.ask("DELETE", f"/v1/nodes/{node['id']}")
    program.ended(node["id"])
    assert not made.parent.exists()


def test_script_on_input_runs_without_a_command(served: Served) -> None:
    program, node = served
    with program.ssh(node) as client:
        channel = client.get_transport().open_session()  # type: ignore[union-attr]
        channel.invoke_shell()
        channel.sendall(b"exit 5\n")
        assert channel.recv_exit_status() == 5


def test_terminal_is_one(served: Served) -> None:
    program, node = served
    status, out, _ = program.run(node, "test -t 0 && test -t 1 && stty size", pty=True)
    assert (status, out.split()) == (0, [b"24", b"80"])


def test_sftp_begins_in_the_home(served: Served) -> None:
    program, node = served
    with program.ssh(node) as client, client.open_sftp() as sftp:
        with sftp.open("note", "w") as file:
            file.write("hello")
        assert sftp.normalize(".") == str(program.home / "nodes" / node["id"] / "home")
    assert program.run(node, "cat note")[1] == b"hello"


def test_tunnel_reaches_the_node_s_ports(served: Served) -> None:
    program, node = served
    with program.ssh(node) as client:
        channel = client.get_transport().open_channel(  # type: ignore[union-attr]
            "direct-tcpip", ("127.0.0.1", node["ssh_port"]), ("127.0.0.1", 1)
        )
        assert channel.recv(4) == b"SSH-"


@pytest.mark.parametrize(
    "left_behind",
    [
        "setsid nohup sleep {s} >/dev/null 2>&1 </dev/null &",
        "(setsid env -i sleep {s} >/dev/null 2>&1 </dev/null &)",
        "setsid sh -c 'setsid sleep {s} & setsid sleep {s} &' >/dev/null 2>&1 </dev/null &",
    ],
    ids=["session of its own", "without the mark", "forked twice"],
)
def test_delete_ends_what_left_its_session(served: Served, left_behind: str) -> None:
    program, node = served
    seconds = f"9{os.getpid()}.{node['ssh_port']}"
    program.run(node, left_behind.format(s=seconds))
    until(lambda: sleepers(seconds))
    program.ask("DELETE", f"/v1/nodes/{node['id']}")
    program.ended(node["id"])
    assert sleepers(seconds) == ""


def test_delete_frees_ports_and_disk(served: Served) -> None:
    program, node = served
    program.ask("DELETE", f"/v1/nodes/{node['id']}")
    program.ended(node["id"])
    assert not (program.home / "nodes" / node["id"] / "home").exists()
    with pytest.raises(OSError):
        program.ssh(node)


def sleepers(seconds: str) -> str:
    return subprocess.run(["pgrep", "-f", f"sleep {seconds}"], capture_output=True, text=True, check=False).stdout
