"""Runs of the whole chain: each test's own home, and nothing of it left afterwards, also where the test fails."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chain.rig import Aftermath


@pytest.fixture
def aftermath(home: Path) -> Iterator[Aftermath]:
    found = Aftermath(home)
    yield found
    for line in found.processes():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(line.split()[0]), signal.SIGKILL)


@pytest.fixture
def run_id() -> str:
    """Its own for each test: the stack's config of a run lies in the checkout, which tests share."""
    return f"test-{secrets.token_hex(4)}"
