"""A receipt against the meter, for all who kill."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from decimal import Decimal

from tools.kill.chain import Chain


def faults(chain: Chain, metered: Iterable[str], least_usd: Decimal, most_usd: Decimal | None = None) -> Iterator[str]:
    """What is wrong with it: not there, not proven, without a thing that was metered, or of another amount."""
    path = chain.home / "runs" / chain.run / "receipt.json"
    if not path.exists():
        yield "no receipt"
        return
    receipt = json.loads(path.read_text())
    if not receipt["proven"]:
        yield f"not proven: {receipt['unproven']}"
    if missing := set(metered) - {line["resource"]["id"] for line in receipt["lines"]}:
        yield f"not in the receipt: {sorted(missing)}"
    usd = Decimal(str(receipt["usd"]))
    if usd < least_usd or (most_usd is not None and usd > most_usd):
        yield f"the receipt says ${usd}, the meter ${least_usd:.6f}"
