"""What happens to a ledger that is cut, cannot be written, or cannot be read: it is said, and nothing is created."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from money import budget
from money.chain import digest
from money.ledger import Ledger
from money.limits import set_limits
from money.reaper import beat
from money.verify import verify
from spec.errors import MegatokError
from spec.ledger import Resource, Scope
from tests.money.shelf import Fault, Shelf

RUN, TOKEN, NEXT = "r", "r-0-a1", "r-1-a1"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER, LAST = NOON + timedelta(hours=1), NOON + timedelta(hours=2)
MACHINE = Resource(cloud="local", region="here", kind="machine", id="m")
ONE = Decimal(1)
NOBODY = 65534

STEPS: dict[str, Callable[[Ledger], object]] = {
    "open": lambda ledger: ledger.open(RUN, Decimal(10), owner="me"),
    "limit": lambda ledger: set_limits(ledger, "me", Decimal(5), None),
    "heartbeat": lambda ledger: beat(ledger, [Scope(cloud="local", account="a", regions=("here",))], LATER),
    "reserve": lambda ledger: budget.reserve(ledger, RUN, 1, TOKEN, ONE, LATER),
    "intent": lambda ledger: budget.intent(ledger, RUN, 1, TOKEN, "create"),
    "commit": lambda ledger: budget.commit(ledger, RUN, TOKEN, (MACHINE,), NOON),
    "armed": lambda ledger: budget.armed(ledger, RUN, TOKEN, "native", (MACHINE,), LATER),
    "extend": lambda ledger: budget.extend(ledger, RUN, 1, TOKEN, ONE, LAST),
    "unextend": lambda ledger: budget.unextend(ledger, RUN, 1, TOKEN, LAST, "refused"),
    "release": lambda ledger: budget.release(ledger, RUN, TOKEN, "no SSH"),
    "settle": lambda ledger: budget.settle(ledger, RUN, TOKEN, MACHINE, ONE, NOON, LATER),
    "sighting": lambda ledger: budget.sighting(ledger, RUN, (MACHINE,), LATER),
    "close": lambda ledger: budget.close(ledger, RUN, "done"),
    "fence": lambda ledger: ledger.fence(RUN),
}
"""Every write that there is, in an order that is allowed."""
CREATES: list[Callable[[Ledger], object]] = [
    lambda ledger: budget.reserve(ledger, RUN, 1, NEXT, ONE),
    lambda ledger: budget.intent(ledger, RUN, 1, TOKEN, "create"),
    lambda ledger: budget.extend(ledger, RUN, 1, TOKEN, ONE, LAST),
]


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where that can be had, as hundreds of durable writes wait long for a disk; open to other users."""
    memory = Path("/dev/shm")
    made = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def file_of(folder: Path) -> Path:
    return folder / "ledger.jsonl"


def begun(ledger: Ledger) -> Ledger:
    for name in ("open", "reserve", "intent"):
        STEPS[name](ledger)
    return ledger


def fits(ledger: Ledger) -> None:
    budget.reserve(ledger, RUN, 1, NEXT, ONE)


def test_cut_at_each_byte_of_its_last_two_events(folder: Path) -> None:
    """What is left reads as whole events and goes on; that acknowledged events are gone shows in `verify`."""
    ledger = begun(Ledger(folder.as_uri()))
    STEPS["commit"](ledger)
    head, whole = ledger.head(), file_of(folder).read_bytes()
    lines = whole.splitlines(keepends=True)
    for length in range(len(whole) - len(lines[-1]) - len(lines[-2]), len(whole) + 1):
        file_of(folder).write_bytes(whole[:length])
        left = whole[:length].count(b"\n")
        cut = Ledger(folder.as_uri())
        assert [event.kind for event in cut.events()] == ["open", "reserve", "intent", "commit"][:left]
        for _ in range(2):
            found = verify(cut, {"receipt": head})
            assert bool(found.faults) == (left < len(lines)), length
            fits(cut)
        assert not verify(cut, {}).faults
        assert len(Ledger(folder.as_uri()).events()) == left + 1 + 1


@pytest.mark.parametrize("lost", [1, 2])
def test_a_bucket_that_lost_its_last_events(lost: int) -> None:
    shelf = Shelf()
    ledger = begun(Ledger("s3://shelf/ledger", where=shelf.bucket()))
    head = ledger.head()
    for key in sorted(shelf.objects)[-lost:]:
        del shelf.objects[key]
    for reader in (ledger, Ledger("s3://shelf/ledger", where=shelf.bucket())):
        assert len(reader.events()) == 3 - lost
        assert "is not in the ledger" in verify(reader, {"receipt": head}).faults[0]
    fits(ledger)
    assert len(Ledger("s3://shelf/ledger", where=shelf.bucket()).events()) == 4 - lost


@pytest.mark.parametrize("room", [0, 1, 150])
def test_a_disk_full_at_each_write(folder: Path, room: int) -> None:
    """A limit on the size of files stops the write before, at or in the middle of its line, as a full disk does."""
    ledger, before = Ledger(folder.as_uri()), resource.getrlimit(resource.RLIMIT_FSIZE)
    for name, step in STEPS.items():
        whole = file_of(folder).read_bytes() if ledger.head() else b""
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + room, before[1]))
        try:
            with pytest.raises(MegatokError, match="nothing was written and nothing may be created; make room"):
                step(ledger)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert file_of(folder).read_bytes() == whole
        step(ledger)
        assert Ledger(folder.as_uri()).events()[-1].kind == name
    assert not verify(ledger, {"receipt": ledger.head()}).faults


def test_a_disk_that_is_really_full(folder: Path) -> None:
    """Lines longer than a page, as the last page of a file has room on any disk."""
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("this user may not mount a small disk")
    try:
        ledger = begun(Ledger(disk.as_uri()))
        whole = file_of(disk).read_bytes()
        with contextlib.suppress(OSError), (disk / "ballast").open("wb", buffering=0) as ballast:
            while True:
                ballast.write(bytes(4096))
        with pytest.raises(MegatokError, match="No space left on device; nothing was written"):
            budget.intent(ledger, RUN, 1, TOKEN, "x" * 9000)
        assert file_of(disk).read_bytes() == whole
        (disk / "ballast").unlink()
        budget.intent(ledger, RUN, 1, TOKEN, "x" * 9000)
        assert len(Ledger(disk.as_uri()).events()) == 4
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("fault", ["lost before", "busy before"])
def test_a_bucket_that_does_not_answer_at_each_write(fault: Fault) -> None:
    shelf = Shelf()
    ledger = Ledger("s3://shelf/ledger", where=shelf.bucket())
    for number, step in enumerate(STEPS.values()):
        shelf.faults = [fault] * 4
        with pytest.raises(MegatokError, match="did not say whether it took a line.*nothing may be created"):
            step(ledger)
        assert len(ledger.events()) == number
        step(ledger)
    assert [event.kind for event in ledger.events()] == list(STEPS)


@pytest.mark.parametrize("fault", ["lost after", "busy after"])
def test_an_answer_that_is_lost_is_read_back(fault: Fault) -> None:
    shelf = Shelf()
    ledger = Ledger("s3://shelf/ledger", where=shelf.bucket())
    for step in STEPS.values():
        shelf.faults = [fault]
        step(ledger)
    assert [event.kind for event in ledger.events()] == list(STEPS)
    assert shelf.calls.count("put") == len(STEPS)


@pytest.mark.parametrize("has_ledger", [True, False])
def test_a_folder_that_may_only_be_read(folder: Path, has_ledger: bool) -> None:
    """Root may write anywhere, so it becomes nobody for a moment."""
    if has_ledger:
        begun(Ledger(folder.as_uri()))
        file_of(folder).chmod(0o444)
    folder.chmod(0o555)
    ledger, me = Ledger(folder.as_uri()), os.geteuid()
    if me == 0:
        os.seteuid(NOBODY)
    try:
        assert len(ledger.events()) == 3 * has_ledger
        for create in [*CREATES, STEPS["open"]]:
            with pytest.raises(MegatokError, match="cannot be opened: Permission denied; give this user the rights"):
                create(ledger)
    finally:
        os.seteuid(me)
    folder.chmod(0o755)


def older(line: bytes) -> bytes:
    """As version 1 wrote it."""
    event = json.loads(line)
    for name in ("owner", "day_usd", "month_usd", "scopes"):
        del event[name]
    return json.dumps(event | {"version": 1}, separators=(",", ":")).encode()


def rewrite(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Each line by `change`, chained anew by hand."""
    previous, lines = "", []
    for line in path.read_bytes().splitlines():
        changed = json.loads(change(line)) | {"previous": previous}
        lines.append(json.dumps(changed, separators=(",", ":")).encode())
        previous = digest(lines[-1])
    path.write_bytes(b"".join(line + b"\n" for line in lines))


def test_a_ledger_of_the_first_version_is_read_and_goes_on(folder: Path) -> None:
    begun(Ledger(folder.as_uri()))
    rewrite(file_of(folder), older)
    ledger = Ledger(folder.as_uri())
    assert {event.version for event in ledger.events()} == {1}
    STEPS["commit"](ledger)
    fits(ledger)
    assert [event.version for event in ledger.events()] == [1, 1, 1, 2, 2]
    assert budget.spend(ledger.events(), RUN).reserved_usd == 2
    assert not verify(ledger, {}).faults


HARMS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "newer": (
        lambda data: data.replace(b'"version":2', b'"version":3'),
        "of version 3, this program reads up to 2",
    ),
    "unknown": (
        lambda data: data.replace(b'"kind":"reserve"', b'"kind":"gift"'),
        "damaged.*kind.*megatok down",
    ),
    "changed": (lambda data: data.replace(b'"usd":"10"', b'"usd":"99"'), "line 2 .*does not follow"),
    "garbage": (lambda data: b"garbage\n" + data, "line 1 .*damaged"),
    "lost middle": (lambda data: b"".join(data.splitlines(True)[::2]), "line 2 .*does not follow"),
}


@pytest.mark.parametrize("create", CREATES)
@pytest.mark.parametrize("harm", HARMS)
def test_nothing_is_created_on_a_budget_that_cannot_be_read(
    folder: Path, harm: str, create: Callable[[Ledger], object]
) -> None:
    handles = [begun(Ledger(folder.as_uri())), Ledger(folder.as_uri())]
    change, why = HARMS[harm]
    data = change(file_of(folder).read_bytes())
    file_of(folder).write_bytes(data)
    for ledger in handles[1:]:
        with pytest.raises(MegatokError, match=why):
            create(ledger)
        with pytest.raises(MegatokError, match=why):
            ledger.open("other", ONE)
    assert file_of(folder).read_bytes() == data


@pytest.mark.parametrize("create", CREATES)
def test_nothing_is_created_on_a_bucket_that_cannot_be_read(create: Callable[[Ledger], object]) -> None:
    shelf = Shelf()
    begun(Ledger("s3://shelf/ledger", where=shelf.bucket()))
    keys = sorted(shelf.objects)
    cut = shelf.objects[keys[-1]][:100]
    for harmed, why in (
        ({keys[0]: b"?", keys[1]: b"?"}, "line 1 .*damaged.*move all objects from ledger/events/000000000000.json on"),
        ({name: shelf.objects[name] for name in keys[1:]}, "lacks its object ledger/events/000000000000.json"),
        ({**shelf.objects, keys[-1]: cut}, "line 3 .*damaged"),
    ):
        other = Shelf(dict(harmed))
        with pytest.raises(MegatokError, match=why):
            create(Ledger("s3://shelf/ledger", where=other.bucket()))
        assert other.objects == harmed


def test_a_ledger_that_is_gone_is_empty_and_creates_nothing(folder: Path) -> None:
    ledger = begun(Ledger(folder.as_uri()))
    file_of(folder).unlink()
    for create in CREATES:
        with pytest.raises(MegatokError, match="no open budget"):
            create(ledger)
        assert ledger.head() == ""
