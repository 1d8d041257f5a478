"""The timer of a node's first boot, under `sh`, on a machine with a power switch of ours."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from infra import guest
from tests.infra.conftest import until


class Box:
    """A machine of one folder: its power switch, its tag, and the timer's processes."""

    def __init__(self, folder: Path) -> None:
        self.off, self.tag, self.folder = folder / "off", folder / "tag", folder
        (folder / "poweroff").write_text(f"#!/bin/sh\ndate +%s.%N >>{self.off}\n")
        (folder / "poweroff").chmod(0o755)
        self.pids: list[int] = []

    def boot(self, life_s: float, clock_s: float = 0, took_s: float = 0, tells: str = 'cat "$TAG"') -> None:
        """First boot, `took_s` after a create for `life_s`, on a cloud whose clock is `clock_s` ahead."""
        left = timedelta(seconds=life_s - took_s + clock_s)
        self.expires_at = datetime.now(UTC).replace(microsecond=0) + left
        self.move(0)
        script = self.folder / "user_data"
        script.write_text(guest.first_boot(life_s, self.expires_at, tells))
        path = f"{self.folder}:{os.environ['PATH']}"
        booted = subprocess.Popen(
            ["sh", script], env={"PATH": path, "TAG": str(self.tag)}, stdout=subprocess.PIPE, start_new_session=True
        )
        self.pids.append(booted.pid)
        assert b"armed" in booted.communicate(timeout=20)[0]
        self.booted_at = time.monotonic()

    def move(self, by_s: float) -> None:
        self.tag.write_text(f"{self.expires_at + timedelta(seconds=by_s):%Y-%m-%dT%H:%M:%SZ}\n")

    def lived_s(self) -> float:
        until(self.off.exists)
        return time.monotonic() - self.booted_at


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    box = Box(tmp_path)
    yield box
    for pid in box.pids:
        subprocess.run(["pkill", "-KILL", "-s", str(pid)], check=False)


@pytest.mark.parametrize("clock_s", [0, 7200, -7200], ids=["clocks agree", "cloud ahead", "cloud behind"])
def test_it_powers_off_just_after_its_time(box: Box, clock_s: float) -> None:
    box.boot(2, clock_s)
    assert 1 < box.lived_s() < 2 + guest.SLACK_S + 3


def test_boot_that_took_long_counts(box: Box) -> None:
    box.boot(100, took_s=98)
    assert 1 < box.lived_s() < 2 + guest.SLACK_S + 3


def test_moved_end_holds(box: Box) -> None:
    box.boot(2)
    box.move(+3)
    assert 4 < box.lived_s() < 5 + guest.SLACK_S + 3


@pytest.mark.parametrize("tells", ["false", "echo", "echo soon", "echo 9999-99-99T99:99:99Z"])
def test_last_known_end_holds_where_the_tag_cannot_be_read(box: Box, tells: str) -> None:
    box.boot(1, tells=tells)
    assert 0.5 < box.lived_s() < 1 + guest.SLACK_S + 3


def test_it_outlives_a_hang_up(box: Box) -> None:
    box.boot(2)
    subprocess.run(["pkill", "-HUP", "-s", str(box.pids[0]), "-x", "sh"], check=True)
    assert 1 < box.lived_s() < 8


def test_it_holds_numbers_and_no_more() -> None:
    first = guest.first_boot(60.2, datetime(2030, 1, 1, tzinfo=UTC), "true").splitlines()
    assert first[:3] == ["#!/bin/sh", guest.MARK, "first=1893456000 life=61"]
