"""A local cloud as a program of its own, spoken to over HTTP."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import paramiko
import pytest

ROOT = Path(__file__).parents[2]
WAIT_S = 40.0


def until(true: Callable[[], Any], limit_s: float = WAIT_S) -> Any:
    """The first answer of `true` that holds."""
    give_up_at = time.monotonic() + limit_s
    while time.monotonic() < give_up_at:
        if found := true():
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {limit_s} s")


class Program:
    """The cloud of one home, and what a client may ask it."""

    def __init__(self, home: Path, **environment: str) -> None:
        self.home = home
        self.environment = environment
        self.key = home.parent / "client_key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.key)], check=True)
        self.public_key = self.key.with_suffix(".pub").read_text()
        self.start()

    def start(self, idle_s: float = 60.0) -> None:
        self.process = self.launch(idle_s)
        self.endpoint = until(lambda: endpoint(self.home, self.process.pid))

    def launch(self, idle_s: float = 60.0) -> subprocess.Popen[bytes]:
        with (self.home.parent / "localcloud.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "localcloud", "--home", str(self.home), "--idle-s", str(idle_s)],
                cwd=ROOT,
                stdout=log,
                stderr=log,
                env=os.environ | self.environment,
            )

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def ask(
        self, method: str, path: str, body: Any = None, *, token: str | None = None, limit_s: float = 60
    ) -> httpx.Response:
        return httpx.request(
            method,
            self.endpoint["url"] + path,
            json=body,
            headers={"Authorization": f"Bearer {token or self.endpoint['token']}"},
            timeout=limit_s,
            trust_env=False,
        )

    def order(self, name: str = "run-0", lifetime_s: float = 120, **changes: Any) -> dict[str, Any]:
        return {
            "token": f"{name}-a1",
            "names": [name],
            "tags": {"team": "red"},
            "region": "here",
            "node_type": "cpu-1",
            "public_key": self.public_key,
            "lifetime_s": lifetime_s,
        } | changes

    def create(self, name: str = "run-0", **changes: Any) -> dict[str, Any]:
        answer = self.ask("POST", "/v1/nodes", self.order(name, **changes))
        assert answer.status_code == 200, answer.text
        made: dict[str, Any] = answer.json()[0]
        return made

    def fault(self, fault: str, **rule: Any) -> None:
        assert self.ask("POST", "/v1/faults", {"fault": fault, **rule}).status_code == 200

    def read(self, id: str) -> dict[str, Any]:
        node: dict[str, Any] = self.ask("GET", f"/v1/nodes/{id}").json()
        return node

    def listing(self, query: str = "") -> list[dict[str, Any]]:
        nodes: list[dict[str, Any]] = self.ask("GET", f"/v1/nodes{query}").json()
        return nodes

    def bill(self) -> dict[str, Any]:
        bill: dict[str, Any] = self.ask("GET", "/v1/bill").json()
        return bill

    def ended(self, id: str) -> dict[str, Any]:
        """The node, once it has ended."""
        node: dict[str, Any] = until(lambda: (n := self.read(id))["state"] == "terminated" and n)
        return node

    def ssh(self, node: dict[str, Any]) -> paramiko.SSHClient:
        """A client that takes the told host key and no other."""
        client = paramiko.SSHClient()
        kind, blob = node["host_key"].split()
        key = paramiko.PKey.from_type_string(kind, base64.b64decode(blob))
        client.get_host_keys().add(f"[{node['host']}]:{node['ssh_port']}", kind, key)
        client.set_missing_host_key_policy(paramiko.RejectPolicy())
        client.connect(
            node["host"],
            node["ssh_port"],
            node["user"],
            key_filename=str(self.key),
            allow_agent=False,
            look_for_keys=False,
            timeout=10,
            banner_timeout=3,
        )
        return client

    def run(
        self, node: dict[str, Any], command: str, stdin: bytes = b"", *, pty: bool = False
    ) -> tuple[int, bytes, bytes]:
        """Exit code, output and errors of a command on the node."""
        with self.ssh(node) as client:
            into, out, err = client.exec_command(command, timeout=30, get_pty=pty)
            into.write(stdin)
            into.channel.shutdown_write()
            text, errors = out.read(), err.read()
            return out.channel.recv_exit_status(), text, errors

    def close(self) -> None:
        if self.process.poll() is not None:
            self.start()
        self.ask("DELETE", "/v1/faults")
        for node in self.listing():
            self.ask("DELETE", f"/v1/nodes/{node['id']}")
        until(lambda: not any(line["ended_at"] is None and line["kind"] == "machine" for line in self.bill()["lines"]))
        self.process.terminate()
        self.process.wait()


def faults(program: Program) -> list[dict[str, Any]]:
    """The rules in force."""
    rules: list[dict[str, Any]] = program.ask("GET", "/v1/faults").json()
    return rules


def endpoint(home: Path, pid: int) -> dict[str, Any] | None:
    """What the program of this number says of itself, once it listens."""
    path = home / "endpoint.json"
    told: dict[str, Any] | None = json.loads(path.read_text()) if path.exists() else None
    return told if told and told["pid"] == pid else None


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    program = Program(tmp_path / "my cloud")
    yield program
    program.close()
