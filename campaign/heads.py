"""Heads of the ledger's hash chain that lie outside of it: each receipt holds the one of its time."""

from __future__ import annotations

from campaign.folder import RECEIPT, folders
from money.ledger import Ledger
from money.verify import Verified, verify


def verified(address: str) -> Verified:
    """The ledger's chain against the receipts of this machine's runs, and those kept beside the ledger."""
    ledger = Ledger(address)
    kept = {f"{name} beside the ledger": one.ledger_head for name, one in ledger.receipts().items()}
    return verify(ledger, _of_runs(address) | kept)


def _of_runs(address: str) -> dict[str, str]:
    """By path. A receipt of another ledger says nothing about this one."""
    receipts = ((folder.path / RECEIPT, folder.receipt()) for folder in folders())
    return {str(path): one.ledger_head for path, one in receipts if one and one.ledger == address}
