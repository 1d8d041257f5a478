"""Real SSH hosts on loopback: an unprivileged sshd each, with a home and keys of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from playbooks import remote
from spec.inventory import Node, Ports

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def make_key(path: Path) -> str:
    """A new key without a passphrase; its public half."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return " ".join(path.with_suffix(".pub").read_text().split()[:2])


class Fleet:
    """Starts hosts below one folder, and ends them. `settings`: first lines of their sshd_config, which win."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = folder / "key"
        make_key(self.key)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def up(self, name: str, *settings: str) -> Node:
        home = self.folder / name
        home.mkdir()
        host_key = make_key(home / "host_key")
        port = _free_port()
        config = home / "sshd_config"
        lines = (
            *settings,
            f"ListenAddress 127.0.0.1:{port}",
            f"HostKey {home}/host_key",
            f"AuthorizedKeysFile {self.key}.pub",
            f"SetEnv HOME={home} PATH={home}/bin:/usr/local/bin:/usr/bin:/bin",
            *("PidFile none", "UsePAM no", "StrictModes no", "MaxStartups 1000", "MaxSessions 100"),
        )
        config.write_text("\n".join(lines) + "\n")
        assert SSHD, "no sshd; install openssh-server"
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # asked for by an sshd that root starts
        log = (home / "sshd.log").open("wb")
        self.processes[name] = subprocess.Popen(
            [SSHD, "-D", "-e", "-f", str(config)], stdin=subprocess.DEVNULL, stderr=log
        )
        log.close()
        _await_port(port)
        return node(name, port, str(self.key), host_key)

    def down(self, name: str) -> None:
        process = self.processes.pop(name)
        process.kill()
        process.wait()


def _await_port(port: int) -> None:
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.01)
    raise AssertionError(f"nothing listens on {port}")


def node(name: str, port: int, key_file: str, host_key: str) -> Node:
    return Node(
        name=name,
        id=name,
        index=0,
        cloud="local",
        region="here",
        node_type="cpu",
        gpus=0,
        host="127.0.0.1",
        ssh_port=port,
        user=pwd.getpwuid(os.getuid()).pw_name,
        key_file=key_file,
        host_key=host_key,
        ports=Ports(first=40000, count=10),
        created_at=datetime.now(UTC),
        expires_at=None,
        usd_per_hour=Decimal(0),
    )


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path)
    yield fleet
    remote.close_all()
    for name in tuple(fleet.processes):
        fleet.down(name)


@pytest.fixture
def host_node(fleet: Fleet) -> Node:
    return fleet.up("run-0")
