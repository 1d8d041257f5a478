"""Two machines and one ledger in a bucket: one rents, the other is its reaper, and both see the same."""

from __future__ import annotations

import shutil
import socket

import pytest

from cli.main import main
from money.ledger import Ledger
from tests.chain.rig import Aftermath, order
from tests.money.conftest import s3, s3_address

__all__ = ["s3", "s3_address"]


def told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(words) == 0
    return capsys.readouterr().out


def test_reaper_elsewhere_is_a_switch_and_receipts_lie_in_the_bucket(
    aftermath: Aftermath, s3_address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEGATOK_LEDGER", s3_address)
    order()
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(socket, "gethostname", lambda: "another")
        assert "by right" in told(capsys, "audit", "--fix", "--every", "5")
    assert "reaper armed" in told(capsys, "status")
    assert "all proven gone" in told(capsys, "down", "run")
    shutil.rmtree(aftermath.home / "runs", ignore_errors=True)
    assert [receipt.proven for receipt in Ledger(s3_address).receipts().values()] == [True]
    assert "shown: 1 receipts hold the hash of a line of this ledger" in told(capsys, "audit", "--verify")
    assert not (aftermath.home / "ledger").exists()
    assert not any(aftermath.bills().values())
