"""The installer of tool environments: kept when complete, refused with the reason. Nothing is downloaded here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from playbooks.environments import LOCKS
from playbooks.files import toolenv
from spec.home import ROOT

LOCKED = sorted(LOCKS.glob("*.txt"))


def run(cache: Path, locks: Path, *names: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "playbooks" / "files" / "toolenv.py"), str(locks), *names]
    env = os.environ | {"MEGATOK_CACHE": str(cache), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)


def test_one_that_is_complete_is_kept(tmp_path: Path) -> None:
    lock = tmp_path / "some-tool.txt"
    lock.write_text("some-tool==1\n")
    env = tmp_path / "cache" / "envs" / toolenv.title(lock)
    (env / "bin").mkdir(parents=True)
    (env / "bin" / "python").touch()
    (env / ".complete").touch()
    done = run(tmp_path / "cache", tmp_path, "some-tool")
    assert done.stdout == f"kept some-tool {env}\n"


def test_a_changed_lock_is_another_environment(tmp_path: Path) -> None:
    lock = tmp_path / "some-tool.txt"
    lock.write_text("some-tool==1\n")
    first = toolenv.title(lock)
    lock.write_text("some-tool==2\n")
    assert re.fullmatch(r"some-tool-[0-9a-f]{12}", first)
    assert toolenv.title(lock) != first


def test_an_unknown_tool_is_refused_with_those_there_are(tmp_path: Path) -> None:
    done = run(tmp_path, LOCKS, "nginx")
    assert done.returncode == 1
    assert "environment nginx: there is no lock nginx.txt; known: aiperf, llamacpp" in done.stderr


def test_an_installer_that_fails_is_told_and_leaves_nothing_complete(tmp_path: Path) -> None:
    (tmp_path / "uv.txt").write_text("uv==0 --hash=sha256:00\n")
    (tmp_path / "some-tool.txt").write_text("some-tool==1\n")
    done = run(tmp_path / "cache", tmp_path, "some-tool")
    assert done.returncode == 1
    assert done.stderr.startswith("environment some-tool: pip install -q --no-deps ended with")
    assert not list((tmp_path / "cache").rglob(".complete"))


@pytest.mark.parametrize("lock", LOCKED, ids=lambda path: path.stem)
def test_each_line_of_a_lock_is_pinned_with_hashes_and_names_no_index(lock: Path) -> None:
    entries = re.sub(r"\\\n", "", lock.read_text()).splitlines()
    bad = [
        entry for entry in entries if not re.fullmatch(r"[\w.-]+==\S+( ; .*?)?(\s+--hash=sha256:[0-9a-f]{64})+", entry)
    ]
    assert entries
    assert not bad
