from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import stat
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from money.books import Books
from money.budget import close, reserve
from money.ledger import Draft, Ledger
from spec.errors import Fenced, MegatokError, RecipeError
from spec.ledger import Event

ROOT = Path(__file__).resolve().parents[2]
TEN = Decimal(10)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger((tmp_path / "ledger").as_uri())


def file_of(ledger: Ledger) -> Path:
    return Path(ledger.address.removeprefix("file://")) / "ledger.jsonl"


def again(ledger: Ledger) -> Ledger:
    return Ledger(ledger.address)


def note(ledger: Ledger, text: str, run: str = "r") -> Event:
    event = ledger.append(run, lambda _: Draft("armed", note=text))
    assert event
    return event


def assert_chain(path: Path) -> list[dict[str, object]]:
    """Read with nothing of ours: each line carries its number and the hash of the line before."""
    previous = ""
    found = []
    for number, line in enumerate(path.read_bytes().splitlines()):
        event = json.loads(line)
        assert (event["seq"], event["previous"]) == (number, previous)
        previous = sha256(line).hexdigest()
        found.append(event)
    return found


def test_another_handle_reads_what_was_appended(ledger: Ledger) -> None:
    ledger.open("r", TEN, "first")
    event = note(ledger, "é\n\u2028 stays one line")
    other = again(ledger)
    assert other.events() == ledger.events()
    assert other.events("r")[-1] == event
    assert (event.pid, event.version) == (os.getpid(), 2)
    assert other.head() == sha256(file_of(ledger).read_bytes().splitlines()[-1]).hexdigest()
    assert_chain(file_of(ledger))


def test_a_ledger_not_there_is_empty_and_reading_makes_none(ledger: Ledger) -> None:
    assert (ledger.events(), ledger.runs(), ledger.head(), ledger.epoch("r")) == ((), (), "", 0)
    assert not file_of(ledger).parent.exists()


def test_only_its_user_may_look(ledger: Ledger) -> None:
    ledger.open("r", TEN)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (file_of(ledger).parent, file_of(ledger))]
    assert modes == [0o700, 0o600]


def test_runs_are_kept_apart(ledger: Ledger) -> None:
    ledger.open("b", TEN)
    ledger.open("a", TEN)
    assert ledger.runs() == ("b", "a")
    assert [event.run for event in ledger.events("a")] == ["a"]


def test_opening_again_answers_the_same_owner(ledger: Ledger) -> None:
    assert ledger.open("r", TEN) == again(ledger).open("r", Decimal("10.00")) == 1
    assert len(ledger.events()) == 1


def test_an_open_run_keeps_its_budget(ledger: Ledger) -> None:
    ledger.open("r", TEN)
    with pytest.raises(RecipeError, match=r"budget_usd 10, not 11.*megatok down r"):
        ledger.open("r", Decimal(11))


def test_a_closed_run_opens_again_with_a_new_owner(ledger: Ledger) -> None:
    ledger.open("r", TEN)
    close(ledger, "r", "")
    assert ledger.open("r", Decimal(11)) == 2


@pytest.mark.parametrize("budget", ["0", "-1", "NaN", "Infinity"])
def test_a_budget_is_an_amount_above_nothing(ledger: Ledger, budget: str) -> None:
    with pytest.raises(RecipeError, match=budget):
        ledger.open("r", Decimal(budget))


def test_a_fence_shuts_the_older_owner_out(ledger: Ledger) -> None:
    epoch = ledger.open("r", TEN)
    assert again(ledger).fence("r") == ledger.epoch("r") == epoch + 1
    with pytest.raises(Fenced, match=r"epoch 2, ours is 1"):
        reserve(ledger, "r", epoch, "r-0-a1", Decimal(1))


def test_a_run_that_the_ledger_lost_can_be_fenced(ledger: Ledger) -> None:
    assert ledger.fence("lost") == 1


@pytest.mark.parametrize("address", ["/tmp/x", "s3:///x", "file://host/x", "file:relative", "file:///x?y", ""])
def test_an_address_of_another_form_is_named(address: str) -> None:
    with pytest.raises(RecipeError, match="file:///home/me"):
        Ledger(address)


def test_a_folder_with_a_space_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "my ledger"
    Ledger(folder.as_uri()).open("r", TEN)
    assert (folder / "ledger.jsonl").exists()


@given(st.data())
def test_cut_at_any_byte_of_its_last_line_it_is_read_and_goes_on(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder).as_uri())
        for text in ("one", "two", "ünë"):
            note(ledger, text)
        path = file_of(ledger)
        whole = path.read_bytes()
        start = whole[:-1].rindex(b"\n") + 1
        os.truncate(path, data.draw(st.integers(start, len(whole) - 1)))
        reader = data.draw(st.sampled_from([ledger, again(ledger)]))
        assert [event.note for event in reader.events()] == ["one", "two"]
        note(reader, "three")
        assert [event["note"] for event in assert_chain(path)] == ["one", "two", "three"]
        assert ledger.events() == reader.events()


def test_what_a_power_loss_left_behind_is_cut_off(ledger: Ledger) -> None:
    note(ledger, "one")
    with file_of(ledger).open("ab") as file:
        file.write(bytes(5000))
    note(again(ledger), "two")
    assert [event["note"] for event in assert_chain(file_of(ledger))] == ["one", "two"]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b'"two"', b'"2"', "line 3 .*does not follow"),
        (b'"kind":"armed","token":"","usd":null,"resources":[],"note":"two"', b'"kind":"gift"', "line 2 .*kind"),
        (b'{"version":2,"seq":1', b'{"version":0,"seq":1', "line 2 .*another version: version"),
        (b'{"version":2,"seq":1', b'"seq":1', "line 2 .*JSON"),
        (b'{"version":2,"seq":1', b"\n", "line 2 .*JSON"),
    ],
)
def test_a_damaged_line_is_named_with_the_way_out(ledger: Ledger, old: bytes, new: bytes, why: str) -> None:
    for text in ("one", "two", "three"):
        note(ledger, text)
    path = file_of(ledger)
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    other = again(ledger)
    for _ in range(2):
        with pytest.raises(MegatokError, match=f"{why}.*megatok down"):
            other.events()
    with pytest.raises(MegatokError, match=why):
        note(other, "four")


def test_the_way_out_of_a_damaged_line_works(ledger: Ledger) -> None:
    for text in ("one", "two", "three"):
        note(ledger, text)
    path = file_of(ledger)
    path.write_bytes(path.read_bytes().replace(b'"two"', b'"2"', 1))
    with pytest.raises(MegatokError, match="head -n 2"):
        again(ledger).events()
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    assert [event.note for event in again(ledger).events()] == ["one", "2"]


def test_a_new_file_in_the_place_of_the_old_is_noticed(ledger: Ledger) -> None:
    note(ledger, "old")
    file_of(ledger).unlink()
    fresh = again(ledger)
    for text in ("new", "newer", "newest"):
        note(fresh, text)
    note(ledger, "last")
    assert [event.note for event in ledger.events()] == ["new", "newer", "newest", "last"]
    assert_chain(file_of(ledger))


def test_a_file_taken_away_is_empty(ledger: Ledger) -> None:
    note(ledger, "old")
    file_of(ledger).unlink()
    assert (ledger.events(), ledger.head()) == ((), "")


def test_a_full_disk_leaves_nothing_half_written(ledger: Ledger) -> None:
    """A limit on the size of files stops the write in the middle of the line, as a full disk does."""
    note(ledger, "one")
    path = file_of(ledger)
    whole = path.read_bytes()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 100, before[1]))
    try:
        with pytest.raises(MegatokError, match=r"cannot take a line: File too large; nothing was written.*make room"):
            note(ledger, "two")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_bytes() == whole
    note(ledger, "three")
    assert [event["note"] for event in assert_chain(path)] == ["one", "three"]


def test_a_disk_that_fails_at_the_last_moment_leaves_nothing(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    note(ledger, "one")
    whole = file_of(ledger).read_bytes()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(MegatokError, match="No space left on device; nothing was written"):
            note(ledger, "two")
    assert file_of(ledger).read_bytes() == whole
    note(ledger, "three")
    assert_chain(file_of(ledger))


def test_a_line_does_not_go_to_a_file_that_was_moved_away(ledger: Ledger, tmp_path: Path) -> None:
    note(ledger, "one")
    path = file_of(ledger)
    with path.open("rb") as held, ThreadPoolExecutor(1) as pool:
        fcntl.flock(held, fcntl.LOCK_EX)
        late = pool.submit(note, ledger, "two")
        time.sleep(0.05)
        path.rename(tmp_path / "away")
        fcntl.flock(held, fcntl.LOCK_UN)
        late.result(10)
    assert [event["note"] for event in assert_chain(path)] == ["two"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MegatokError, match=r"file/ledger/ledger.jsonl cannot be opened: Not a directory; give"):
        note(Ledger((tmp_path / "file" / "ledger").as_uri()), "x")


WRITER = """
import sys
from decimal import Decimal
from concurrent.futures import ThreadPoolExecutor
from money.budget import reserve
from money.ledger import Ledger
from spec.errors import OverBudget

ledger = Ledger(sys.argv[1])
epoch = ledger.open("r", Decimal(50))

def one(number):
    try:
        reserve(ledger, "r", epoch, f"r-{sys.argv[2]}{number:02}-a1", Decimal(1))
    except OverBudget:
        return 0
    return 1

with ThreadPoolExecutor(8) as pool:
    print(sum(pool.map(one, range(20))))
"""


def test_processes_and_threads_side_by_side_keep_chain_and_budget(ledger: Ledger) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, ledger.address, str(number)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        for number in range(1, 5)
    ]
    reserved = [int(writer.communicate(timeout=60)[0]) for writer in writers]
    kinds = [event["kind"] for event in assert_chain(file_of(ledger))]
    assert (sum(reserved), kinds.count("reserve"), kinds.count("open")) == (50, 50, 1)
    assert len(ledger.events()) == 51


KILLED = """
import sys
from money.ledger import Draft, Ledger
ledger = Ledger(sys.argv[1])
while True:
    print(ledger.append("r", lambda _: Draft("armed", note="x" * 2000)).seq, flush=True)
"""


def test_killed_while_it_writes_it_loses_nothing_that_it_told(ledger: Ledger) -> None:
    for round_ in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", KILLED, ledger.address], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout
        told = [writer.stdout.readline() for _ in range(20 + round_)]
        writer.kill()
        told += writer.communicate()[0].splitlines(keepends=True)
        last = int([line for line in told if line.endswith("\n")][-1])
        assert len(again(ledger).events()) >= last + 1
        note(ledger, "alive")
    assert_chain(file_of(ledger))


def test_a_lock_held_elsewhere_is_waited_for(ledger: Ledger) -> None:
    inside, done = threading.Event(), threading.Event()

    def slow(_: Books) -> Draft:
        inside.set()
        done.wait(10)
        return Draft("armed", note="slow")

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(ledger.append, "r", slow)
        inside.wait(10)
        second = pool.submit(note, again(ledger), "quick")
        time.sleep(0.05)
        assert not second.done()
        done.set()
        assert first.result(10) is not None
    assert [event.note for event in ledger.events()] == ["slow", "quick"]


def test_an_append_does_not_read_the_past_again(ledger: Ledger) -> None:
    """By bytes asked of the file, not by time: the machine that tests is shared."""
    note(ledger, "x" * 100_000)
    note(ledger, "small")
    before = _bytes_read()
    for _ in range(10):
        note(ledger, "small")
    assert _bytes_read() - before < 100_000


def _bytes_read() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])
