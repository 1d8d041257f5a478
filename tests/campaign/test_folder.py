from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from campaign.folder import Busy, RunFolder, folders, known, mint
from spec.errors import MegatokError, RecipeError
from spec.home import ROOT

HOLD = """
import sys
from campaign.folder import RunFolder
with RunFolder(sys.argv[1]).owned():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def folder(home: Path) -> RunFolder:
    made = RunFolder("mine")
    made.make()
    return made


def holder(folder: RunFolder) -> subprocess.Popen[str]:
    """Another process that holds the run, until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, folder.run], cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout and process.stdout.readline() == "held\n"
    return process


def test_one_process_at_a_time_owns_a_run(folder: RunFolder) -> None:
    assert folder.owner() is None
    with holder(folder) as other:
        assert folder.owner() == other.pid
        busy = f"process {other.pid} works on run mine; wait, or: megatok stop mine"
        with pytest.raises(Busy, match=busy), folder.owned():
            pass
        other.communicate()
    with folder.owned():
        pass
    assert folder.owner() is None


def test_a_dead_owner_owns_nothing(folder: RunFolder) -> None:
    with holder(folder) as other:
        other.kill()
        other.communicate()
    assert (folder.path / "lock").read_text() == str(other.pid)
    assert folder.owner() is None
    with folder.owned():
        pass


def test_of_many_that_begin_one_run_one_gets_it(home: Path) -> None:
    def make(_: int) -> bool:
        try:
            RunFolder("wanted").make()
        except RecipeError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(make, range(8))) == 1
    with pytest.raises(RecipeError, match="run wanted exists already; go on with --resume wanted, or take another id"):
        RunFolder("wanted").make()


def test_a_file_that_cannot_be_written_says_so(folder: RunFolder) -> None:
    (folder.path / "taken").mkdir()
    with pytest.raises(MegatokError, match=r"cannot write .*/mine/taken: Is a directory; free some space"):
        folder.write("taken", "text")
    assert [path.name for path in folder.path.iterdir()] == ["taken"]


def test_minted_ids_differ_and_can_be_used() -> None:
    found = {mint("Übung & Co. of a name that is much too long") for _ in range(50)}
    assert len(found) == 50
    assert all(len(name) <= 41 and name[0].isalpha() for name in found), found


@pytest.mark.parametrize("name", ["gone", "../mine", "", "mine/../mine"])
def test_an_unknown_run_is_refused_with_those_that_exist(folder: RunFolder, name: str) -> None:
    with pytest.raises(RecipeError, match="the latest are: mine"):
        known(name)


def test_runs_of_this_machine(folder: RunFolder) -> None:
    RunFolder("later").make()
    assert [each.run for each in folders()] == ["mine", "later"]


def test_api_key_is_made_once_for_the_owners_eyes(folder: RunFolder) -> None:
    key = folder.api_key()
    assert len(key) >= 32
    assert RunFolder("mine").api_key() == key
    assert folder.key_file.stat().st_mode & 0o777 == 0o600
    assert folder.path not in folder.key_file.parents
