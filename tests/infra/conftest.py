"""Nodes of the local cloud, also in the part of hosts that exist."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra.clouds import CLOUDS
from infra.provider import job as jobs
from infra.provider import switches
from infra.provider.group import NodeGroups
from tests.infra import memory_cloud
from tests.infra.memory_cloud import MemoryCloud

WAIT_S = 40.0


def until(true: Callable[[], Any]) -> Any:
    """The first answer of `true` that holds."""
    give_up_at = time.monotonic() + WAIT_S
    while time.monotonic() < give_up_at:
        if found := true():
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {WAIT_S} s")


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> MemoryCloud:
    """A cloud in memory, called `memory`; nothing waits for it."""
    fresh = MemoryCloud()
    monkeypatch.setitem(CLOUDS, "memory", "tests.infra.memory_cloud")
    monkeypatch.setattr(memory_cloud, "CLOUD", fresh)
    monkeypatch.setattr(switches, "ARM_S", 0.0)
    monkeypatch.setattr(jobs, "PATIENCE_S", 0.0)
    return fresh


@pytest.fixture
def groups(memory: MemoryCloud) -> NodeGroups:
    """A plug-in's process."""
    return NodeGroups()


@pytest.fixture(scope="session")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A private key; its public half lies beside it."""
    path = tmp_path_factory.mktemp("key") / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path
