"""Prepare: what is there and sound is kept, what is not is told. Nothing is installed here: that needs a network."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from plan.launch import Launch
from playbooks.environments import env_folder, fills, is_locked, lock, model_folder, with_files
from playbooks.prepare import prepare
from spec import load
from spec.errors import GateFailed, RecipeError
from spec.facts import Facts
from spec.inventory import Node
from tests.playbooks.conftest import Fleet
from tests.playbooks.servers import facts

MODEL = load.model("smollm2")
TOOLS = ("llamacpp", "aiperf")


@pytest.fixture
def seen(fleet: Fleet) -> Facts:
    return facts(cache=str(fleet.folder / "cache"))


@pytest.fixture
def full(seen: Facts) -> Path:
    """A cache that has all; the model's folder."""
    for tool in TOOLS:
        env = Path(env_folder(seen, tool))
        (env / "bin").mkdir(parents=True)
        (env / "bin" / "python").touch()
        (env / ".complete").touch()
    folder = Path(model_folder(seen, MODEL.name))
    folder.mkdir(parents=True)
    (folder / "model.gguf").write_bytes(b"weights")
    write_manifest(folder, MODEL.quantisation)
    return folder


def write_manifest(folder: Path, quantisation: str) -> None:
    path = folder / "model.gguf"
    known = {
        "bytes": path.stat().st_size,
        "mtime_ns": path.stat().st_mtime_ns,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }
    wanted = {"package": MODEL.package, "file": MODEL.file, "quantisation": quantisation}
    text = json.dumps({"version": 1, "wanted": wanted, "files": {"model.gguf": known}})
    (folder / "manifest.json").write_text(text)


def lacks(node: Node, seen: Facts) -> tuple[str, ...]:
    return prepare([node], {"run-0": seen}, TOOLS, MODEL, check=True)["run-0"]


def test_what_is_there_is_kept(host_node: Node, seen: Facts, full: Path) -> None:
    assert prepare([host_node], {"run-0": seen}, TOOLS, MODEL) == {"run-0": ()}
    assert lacks(host_node, seen) == ()


def test_an_empty_cache_lacks_all_and_a_check_leaves_it_so(host_node: Node, seen: Facts) -> None:
    names = [Path(env_folder(seen, tool)).name for tool in TOOLS]
    assert lacks(host_node, seen) == (
        *(f"environment {name}: missing" for name in names),
        f"model {MODEL.name}: missing",
    )
    assert not Path(seen.cache).exists()


def test_an_environment_that_was_not_finished_or_lost_its_python_is_made_again(
    host_node: Node, seen: Facts, full: Path
) -> None:
    (Path(env_folder(seen, "llamacpp")) / ".complete").unlink()
    (Path(env_folder(seen, "aiperf")) / "bin" / "python").unlink()
    assert len(lacks(host_node, seen)) == 2


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"weight", "model.gguf has 6 bytes, not 7"), (b"WEIGHTS", "model.gguf has another SHA-256")],
)
def test_a_damaged_model_is_seen(host_node: Node, seen: Facts, full: Path, content: bytes, reason: str) -> None:
    (full / "model.gguf").write_bytes(content)
    os.utime(full / "model.gguf", (0, 0))
    assert lacks(host_node, seen) == (f"model smollm2: {reason}",)
    assert (full / "manifest.json").exists()


def test_a_copy_with_another_time_is_as_good(host_node: Node, seen: Facts, full: Path) -> None:
    os.utime(full / "model.gguf", (0, 0))
    assert lacks(host_node, seen) == ()


def test_a_model_of_another_quantisation_is_made_again(host_node: Node, seen: Facts, full: Path) -> None:
    write_manifest(full, "Q8_0")
    assert lacks(host_node, seen) == ("model smollm2: made from something else",)


def test_a_missing_program_is_told_with_the_line_that_installs_it(host_node: Node, seen: Facts) -> None:
    with pytest.raises(GateFailed, match="run-0 has no nginx; install it there with: apt-get install -y nginx-light"):
        prepare([host_node], {"run-0": seen}, ["nginx"], MODEL, check=True)


def test_places_and_files_of_a_launch() -> None:
    launch = Launch(
        name="one", node=0, tool="llamacpp", argv=(), model="smollm2", files=(("s.py", "{file:llamacpp_server.py}"),)
    )
    found = fills(facts(cache="/c"), launch)
    assert found["model"] == "/c/models/smollm2"
    assert found["env"].startswith("/c/envs/llamacpp-")
    assert "xllamacpp" in with_files(launch).files[0][1]


def test_a_tool_without_a_lock() -> None:
    assert not is_locked("nginx")
    with pytest.raises(RecipeError, match="tool 'nginx' has no lock in tools/envs; known: aiperf, llamacpp"):
        lock("nginx")
