"""What kill and chaos hold against a receipt."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tools.kill import receipt
from tools.kill.chain import Chain

GOOD = {"proven": True, "unproven": [], "usd": "0.5", "lines": [{"resource": {"id": "a"}}]}


def found(home: Path, told: dict[str, Any] | None) -> list[str]:
    folder = home / "runs" / "r"
    folder.mkdir(parents=True)
    if told is not None:
        (folder / "receipt.json").write_text(json.dumps(told))
    return list(receipt.faults(Chain(home, "r"), ["a"], Decimal("0.4"), Decimal("0.6")))


def test_true_receipt_has_no_fault(tmp_path: Path) -> None:
    assert found(tmp_path, GOOD) == []


@pytest.mark.parametrize(
    ("told", "fault"),
    [
        (None, "no receipt"),
        (GOOD | {"proven": False, "unproven": ["why"]}, "not proven: ['why']"),
        (GOOD | {"lines": []}, "not in the receipt: ['a']"),
        (GOOD | {"usd": "0.3"}, "the receipt says $0.3, the meter $0.400000"),
        (GOOD | {"usd": "0.7"}, "the receipt says $0.7, the meter $0.400000"),
    ],
)
def test_false_receipt_has_one(tmp_path: Path, told: dict[str, Any] | None, fault: str) -> None:
    assert found(tmp_path, told) == [fault]
