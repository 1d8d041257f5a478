"""The bill, from its own append-only file: one line where a thing came up, one where the last of it was gone.

The start of what no process keeps (a disk, an address) says until when it bills at most; a line `until` moves that.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_UP, Decimal
from pathlib import Path
from typing import Any

from localcloud.offers import BILLING_STEP_S
from localcloud.supervisor import append, now_s
from localcloud.thing import Thing, matches, stamp

MICRO_USD = Decimal("0.000001")


@dataclass
class Line:
    """What one thing costs. Times are seconds since the epoch."""

    id: str
    kind: str
    name: str
    tags: Mapping[str, str]
    usd_per_hour: Decimal
    started_at: float
    until: float | None = None
    ended_at: float | None = None
    reason: str = ""

    def close(self, now_s: float) -> None:
        """What has reached its `until` has ended there."""
        if self.ended_at is None and self.until is not None and self.until <= now_s:
            self.ended_at, self.reason = self.until, "expired"

    def usd(self, now_s: float) -> Decimal:
        """A started second is paid whole, a started millionth of a dollar too."""
        ended_at = now_s if self.ended_at is None else self.ended_at
        up_s = Decimal(str(ended_at)) - Decimal(str(self.started_at))
        steps = max(0, math.ceil(up_s / BILLING_STEP_S))
        return (self.usd_per_hour * steps * BILLING_STEP_S / 3600).quantize(MICRO_USD, rounding=ROUND_UP)

    def shown(self, now_s: float) -> dict[str, Any]:
        """The API's form; exact dollars as text."""
        return {
            "id": self.id,
            "kind": self.kind,
            "name": self.name,
            "usd_per_hour": str(self.usd_per_hour),
            "started_at": stamp(self.started_at),
            "ended_at": stamp(self.ended_at),
            "usd": format(self.usd(now_s), "f"),
        }


@dataclass
class Meter:
    """Lines by the thing's id, in the order of the file; `read` goes on where it left off."""

    path: Path
    lines: dict[str, Line] = field(default_factory=dict)
    _offset: int = 0

    def read(self) -> bool:
        """Take in what was appended since; whether there was anything."""
        if not self.path.exists() or self.path.stat().st_size <= self._offset:
            return False
        with self.path.open("rb") as file:
            file.seek(self._offset)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._offset += len(whole)
        for text in whole.splitlines():
            self._take(json.loads(text))
        return bool(whole)

    def _take(self, event: Mapping[str, Any]) -> None:
        if event["event"] == "start":
            self.lines[event["id"]] = Line(
                id=event["id"],
                kind=event.get("kind", "machine"),
                name=event["name"],
                tags=event["tags"],
                usd_per_hour=Decimal(event["usd_per_hour"]),
                started_at=event["at"],
                until=event.get("until"),
            )
        elif event["event"] == "until":
            self.lines[event["id"]].until = event["until"]
        elif (line := self.lines[event["id"]]).ended_at is None:
            line.ended_at, line.reason = event["at"], event["reason"]

    def start(self, thing: Thing, until: float) -> None:
        """Open the bill of what has no supervisor."""
        append(str(self.path), opened(thing) | {"event": "start", "at": thing.started_at, "until": until})

    def until(self, id: str, until: float) -> None:
        append(str(self.path), {"event": "until", "id": id, "at": now_s(), "until": until})

    def stop(self, id: str, at: float, reason: str) -> None:
        """Close the bill of what has no supervisor, or not any more."""
        append(str(self.path), {"event": "stop", "id": id, "at": at, "reason": reason})


def opened(thing: Thing) -> dict[str, Any]:
    """What the first line of a thing's bill says of it."""
    return {key: getattr(thing, key) for key in ("id", "kind", "name", "tags", "usd_per_hour")}


def bill(path: Path, tags: Mapping[str, str | None]) -> dict[str, Any]:
    """What the things with these tags cost so far, read from the file alone."""
    meter = Meter(path)
    meter.read()
    lines = [line for line in meter.lines.values() if matches(line.tags, tags)]
    now = now_s()
    for line in lines:
        line.close(now)
    return {
        "running": sum(line.ended_at is None for line in lines),
        "lines": [line.shown(now) for line in lines],
        "usd": format(sum((line.usd(now) for line in lines), Decimal(0)), "f"),
    }
