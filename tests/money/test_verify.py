from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from money import budget, receipt
from money.ledger import Ledger
from money.verify import verify
from spec.errors import MegatokError
from spec.receipt import Receipt

RUN = "r"


def ended(ledger: Ledger, run: str = RUN) -> Receipt:
    """A run that came and went, and its receipt, of which the ledger keeps a copy."""
    ledger.open(run, Decimal(1))
    budget.close(ledger, run, "done")
    now = datetime(2026, 1, 1, tzinfo=UTC)
    made = receipt.build(ledger.events(), run, cloud_usd={}, simulated=True, unproven=(), ledger=ledger, now=now)
    ledger.keep_receipt(made)
    return made


def heads(ledger: Ledger) -> dict[str, str]:
    return {name: one.ledger_head for name, one in ledger.receipts().items()}


def test_receipts_are_kept_and_found_by_another_handle(address: str) -> None:
    ledger = Ledger(address)
    made = [ended(ledger, run) for run in ("a", "b")]
    ledger.keep_receipt(made[0])
    found = Ledger(address).receipts()
    assert list(found.values()) == made
    assert [name[:2] for name in found] == ["a-", "b-"]


def test_a_whole_ledger_says_what_it_shows_and_what_not(address: str) -> None:
    ledger = Ledger(address)
    ended(ledger)
    ledger.open("later", Decimal(1))
    found = verify(Ledger(address), heads(ledger))
    assert (found.lines, found.faults) == (3, ())
    text = "\n".join(found.shows)
    assert "lines 1 to 2 are as they were" in text
    assert "not shown: what came after line 2" in text
    assert "not shown: that nobody rewrote the ledger who could also change every copy of every receipt" in text
    assert ledger.events() == Ledger(address).events()


def test_without_a_receipt_a_rewrite_cannot_be_excluded(address: str) -> None:
    ledger = Ledger(address)
    assert "tells an unused ledger from a lost one" in verify(ledger, {"before anything": ""}).shows[0]
    ledger.open(RUN, Decimal(1))
    assert "not shown: that the ledger was not rewritten as a whole" in "\n".join(verify(ledger, {}).shows)


def test_each_change_of_the_past_is_named(tmp_path: Path) -> None:
    ledger, path = Ledger(tmp_path.as_uri()), tmp_path / "ledger.jsonl"
    ended(ledger)
    whole, kept = path.read_bytes(), heads(ledger)
    for before, after, fault in (
        (b'"usd":"1"', b'"usd":"9"', "line 2: it does not hold the hash of line 1"),
        (b'"kind":"close"', b'"kind":"gift"', "line 2: it is no event: kind"),
        (whole.splitlines(keepends=True)[0], b"", "line 1: it says that it is number 2: lines are missing or moved"),
        (b'"note":"done"', b'"note":"gone"', "receipt r-.*: the line with hash .* is not in the ledger"),
    ):
        path.write_bytes(whole.replace(before, after))
        found = verify(Ledger(tmp_path.as_uri()), kept)
        assert found.shows == ()
        assert any(re.search(fault, one) for one in found.faults), found.faults


def test_a_rewrite_that_chains_is_shown_by_a_receipt_alone(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path.as_uri())
    ended(ledger)
    kept = heads(ledger)
    (tmp_path / "ledger.jsonl").unlink()
    ended(Ledger(tmp_path.as_uri()))
    assert not verify(Ledger(tmp_path.as_uri()), {}).faults
    assert "is not in the ledger" in verify(Ledger(tmp_path.as_uri()), kept).faults[0]


def test_a_receipt_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path.as_uri())
    ended(ledger)
    (tmp_path / "receipts" / "x.json").write_text("{}")
    with pytest.raises(MegatokError, match=r"receipt x\.json .* cannot be read: run Field required; move it away"):
        ledger.receipts()
