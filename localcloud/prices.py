"""What the cloud asks for its offers now: as listed, or as a fault has it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from localcloud.faults import Faults
from localcloud.offers import OFFERS, Offer

STALE_S = 365 * 86400.0
DEARER = Decimal(10)


def shown(faults: Faults, node_type: str) -> list[dict[str, Any]]:
    """The offers call's answer; `node_type` may be empty. What it tells is what a create costs from then on."""
    subject = {"call": "offers", "node_type": node_type}
    as_of = datetime.now(UTC)
    if stale := faults.strike("price_stale", **subject):
        as_of -= timedelta(seconds=stale.seconds or STALE_S)
    changes: dict[str, Any] = {"as_of": as_of.isoformat()}
    if faults.strike("price_foreign", **subject):
        changes["currency"] = "EUR"
    if faults.strike("price_unknown", **subject):
        changes["usd_per_hour"] = None
    found = [each for each in OFFERS if node_type in ("", each.node_type)]
    faults.tell("dearer", **subject)
    return [told(each, factor(faults, each.node_type)) | changes for each in found]


def factor(faults: Faults, node_type: str) -> Decimal:
    """By how much a node costs more than listed, as far as the offers call has told so."""
    dearer = faults.force("dearer", call="offers", node_type=node_type)
    return DEARER if dearer and dearer.seen else Decimal(1)


def told(offer: Offer, times: Decimal) -> dict[str, Any]:
    """The API's form."""
    return {
        "region": offer.region,
        "node_type": offer.node_type,
        "gpu": offer.gpu,
        "gpus": offer.gpus,
        "usd_per_hour": str(offer.usd_per_hour * times),
        "currency": "USD",
        "extras": [{"kind": kind, "usd_per_hour": str(usd * times)} for kind, usd in offer.extras.items()],
        "capacity": offer.capacity,
    }
