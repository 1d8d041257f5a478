"""What every test gets: a MEGATOK_HOME of its own. The cache is shared: what lies there can be made again."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from localcloud import life

settings.register_profile("shared cores", deadline=None)  # a busy machine makes a slow example, which is no failure
settings.load_profile("shared cores")


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """MEGATOK_HOME of this test; no test may touch the user's own, and no local cloud outlives its test."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("MEGATOK_HOME", str(folder))
    yield folder
    end_local_cloud(folder / "localcloud")


def end_local_cloud(cloud: Path) -> None:
    """End the cloud of this folder, then its nodes."""
    if life.lives(cloud):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            os.kill(json.loads((cloud / "endpoint.json").read_text())["pid"], signal.SIGTERM)
    while living := [node for node in cloud.glob("nodes/*") if life.lives(node)]:
        for node in living:
            life.stop(node)
        time.sleep(0.05)
