"""A run with known secrets: what it leaves, says and shows to other users of the machine holds none of them."""

from __future__ import annotations

import gzip
import json
import secrets
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.clouds.local.program import call
from spec.errors import MegatokError
from tests.chain.rig import Aftermath, Runner, recipe

pytestmark = pytest.mark.timeout(400)

TOKENS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "PULUMI_ACCESS_TOKEN")
"""In the environment of many users, each for a program that we start or talk to."""


class Onlooker:
    """Reads every process's arguments, and what the cloud tells of its nodes, over and over."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(0.1):
            for entry in Path("/proc").glob("[0-9]*"):
                try:
                    self.seen.add((entry / "cmdline").read_bytes())
                except OSError:
                    continue
            try:
                nodes = call("GET", "/v1/nodes", query={"tag": "megatok-run"})
            except MegatokError:
                continue
            self.seen |= {json.dumps(node).encode() for node in nodes}


def contents(path: Path) -> Iterator[bytes]:
    """A file as it is, and unpacked."""
    data = path.read_bytes()
    yield data
    if data.startswith(b"\x1f\x8b"):
        yield gzip.decompress(data)


def holders(folder: Path, known: dict[str, bytes]) -> set[tuple[str, str]]:
    """Which files hold which secret."""
    found = set()
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_file():
            continue
        for data in contents(path):
            found |= {(str(path.relative_to(folder)), name) for name, secret in known.items() if secret in data}
    return found


def test_known_secrets_are_found_nowhere(aftermath: Aftermath, tmp_path: Path, run_id: str) -> None:
    env = {name: f"known-{secrets.token_hex(16)}" for name in TOKENS}
    onlooker = Onlooker()
    runner = Runner("run", recipe(tmp_path), "--id", run_id, env=env)
    runner.said("measure cell 1")
    home = aftermath.home
    private_key = (home / "keys" / "id_ed25519").read_bytes()
    known = {name: value.encode() for name, value in env.items()} | {
        "api key": (home / "keys" / f"{run_id}.api-key").read_bytes(),
        "passphrase": (home / "passphrase").read_bytes().strip(),
        "private key": private_key.splitlines()[2],
    }
    meanwhile = holders(home, known)
    assert list(home.glob("localcloud/nodes/*/user_data"))
    done = runner.end()
    onlooker.stop()
    assert done.rc == 0, done.err

    own = {(f"keys/{run_id}.api-key", "api key"), ("passphrase", "passphrase"), ("keys/id_ed25519", "private key")}
    assert holders(home, known) == own
    assert all(stat.S_IMODE((home / path).stat().st_mode) == 0o600 for path, _ in own)
    assert {(path, name) for path, name in meanwhile if not on_a_node(path, name)} == own
    said = (done.out + done.err).encode()
    assert [name for name in known if known[name] in said] == []
    assert any(b"infra.provider" in seen for seen in onlooker.seen) and any(b'"host_key"' in x for x in onlooker.seen)
    assert [name for name in known for seen in onlooker.seen if known[name] in seen] == []
    aftermath.nothing(run_id, nodes=1)


def on_a_node(path: str, name: str) -> bool:
    """The key that its own server checks, in a file that goes with the node; never in its user data."""
    on_disk = path.startswith("localcloud/nodes/") and not path.endswith("/user_data")
    return name == "api key" and on_disk
