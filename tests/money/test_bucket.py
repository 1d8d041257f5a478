"""What is true of a bucket alone; what is true of both places is in the tests beside this."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import boto3
import pytest

from money.bucket import Bucket
from money.ledger import Draft, Ledger
from spec.errors import MegatokError
from tests.money.shelf import Shelf, refusal

ROOT = Path(__file__).resolve().parents[2]


def note(ledger: Ledger, text: str) -> None:
    ledger.append("r", lambda _: Draft("armed", note=text))


def on(shelf: Shelf) -> Ledger:
    return Ledger("s3://shelf/ledger", where=shelf.bucket())


def test_each_event_is_a_numbered_object(s3_address: str) -> None:
    ledger = Ledger(s3_address)
    for number in range(3):
        note(ledger, str(number))
    bucket, _, prefix = s3_address.removeprefix("s3://").partition("/")
    listed = boto3.client("s3").list_objects_v2(Bucket=bucket, Prefix=prefix)["Contents"]
    assert [one["Key"] for one in listed] == [f"{prefix}/events/{number:012}.json" for number in range(3)]
    assert [event.note for event in Ledger(s3_address).events()] == ["0", "1", "2"]


def test_who_comes_second_looks_again_before_it_writes() -> None:
    shelf = Shelf()
    first, second, seen = on(shelf), on(shelf), list[int]()

    def decide(books: Any) -> Draft:
        seen.append(books.account("r").epoch)
        if len(seen) == 1:
            first.fence("r")
        return Draft("armed", note="second")

    second.append("r", decide)
    assert seen == [0, 1]
    assert [event.kind for event in on(shelf).events()] == ["fence", "armed"]


def test_a_long_ledger_is_read_in_pages_and_then_only_what_is_new() -> None:
    shelf = Shelf()
    writer = on(shelf)
    for number in range(25):
        note(writer, str(number))
    reader = on(shelf)
    assert len(reader.events()) == 25
    shelf.calls.clear()
    note(writer, "new")
    note(reader, "newer")
    assert (shelf.calls.count("get"), shelf.calls.count("list")) == (1, 2)


def test_a_ledger_that_was_replaced_is_read_anew() -> None:
    shelf = Shelf()
    ledger = on(shelf)
    note(ledger, "old")
    shelf.objects.clear()
    for text in ("new", "newer"):
        note(on(shelf), text)
    note(ledger, "newest")
    assert [event.note for event in ledger.events()] == ["new", "newer", "newest"]


ACTS: list[Callable[[Ledger], object]] = [
    lambda ledger: ledger.events(),
    lambda ledger: ledger.open("r", Decimal(1)),
    lambda ledger: ledger.receipts(),
]


@pytest.mark.parametrize("act", ACTS)
def test_a_bucket_that_is_not_there_is_named(s3_address: str, act: Callable[[Ledger], object]) -> None:
    with pytest.raises(MegatokError, match=r"s3://not-there/x .*NoSuchBucket.*see that it exists"):
        act(Ledger("s3://not-there/x"))


def test_a_store_nobody_serves_is_said_after_some_tries(s3_address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("time.sleep", lambda _: None)
    with pytest.raises(MegatokError, match="cannot be read: Could not connect"):
        Ledger(s3_address).events()


def test_a_writer_without_the_right_is_told_that_nothing_was_written() -> None:
    class Locked(Shelf):
        def put_object(self, **_: Any) -> dict[str, str]:
            raise refusal(403, "AccessDenied")

    locked = Locked()
    with pytest.raises(MegatokError, match="AccessDenied.*nothing was written and nothing may be created"):
        note(Ledger("s3://shelf/ledger", where=Bucket("shelf", "ledger", locked)), "x")


def test_only_who_uses_a_bucket_loads_its_library() -> None:
    code = "import sys, money.budget, money.verify, money.reaper; sys.exit('boto3' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
