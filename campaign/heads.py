"""Heads of the ledger's hash chain that lie outside of it: each receipt holds the one of its time."""

from __future__ import annotations

from campaign.folder import folders
from money.ledger import Ledger
from money.verify import Verified, verify
from spec.errors import MegatokError
from spec.receipt import read


def verified(address: str) -> Verified:
    """The ledger's chain against the receipts of this machine's runs, and those kept beside the ledger."""
    ledger = Ledger(address)
    kept = {f"{name} beside the ledger": one.ledger_head for name, one in ledger.receipts().items()}
    return verify(ledger, _of_runs(address) | kept)


def _of_runs(address: str) -> dict[str, str]:
    """By path. A receipt of another ledger says nothing about this one."""
    found = {}
    for folder in folders():
        path = folder.path / "receipt.json"
        if not path.exists():
            continue
        try:
            receipt = read(path.read_bytes())
        except ValueError as error:
            raise MegatokError(f"the receipt {path} cannot be read: {error}; move it away, then verify again") from None
        if receipt.ledger == address:
            found[str(path)] = receipt.ledger_head
    return found
