"""What every test gets: a MEGATOK_HOME of its own. The cache is shared: what lies there can be made again."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """MEGATOK_HOME of this test; no test may touch the user's own."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("MEGATOK_HOME", str(folder))
    return folder
