"""What every billable thing has, a machine or what is rented with it: a record, its state, and the API's form of it."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar


@dataclass(kw_only=True)
class Thing:
    """Times are seconds since the epoch; `started_at` and `ended_at` of what was billed are the meter's."""

    PRIVATE: ClassVar[tuple[str, ...]] = ("stopping", "quirks")
    """Fields that the API does not tell."""

    id: str
    kind: str
    name: str
    token: str
    tags: dict[str, str]
    region: str
    usd_per_hour: str
    created_at: float
    expires_at: float
    started_at: float | None = None
    ended_at: float | None = None
    reason: str = ""
    stopping: bool = False
    quirks: dict[str, float] = field(default_factory=dict)
    """Faults that struck when it was ordered, with their seconds."""

    @property
    def state(self) -> str:
        return self.state_at(math.inf)

    def state_at(self, at_s: float) -> str:
        if self.ended_at is not None and self.ended_at <= at_s:
            return "terminated"
        if self.stopping:
            return "stopping"
        return "running" if self.started_at is not None else "pending"

    def listed_at(self, now_s: float) -> dict[str, Any] | None:
        """What a listing shows: nothing once it is gone. Under the fault `eventual`, as it was some seconds ago."""
        then_s = now_s - self.quirks.get("eventual", 0.0)
        state = self.state_at(then_s)
        return None if state == "terminated" or self.created_at > then_s else self.shown() | {"state": state}

    def shown(self) -> dict[str, Any]:
        """The API's form."""
        fields = {key: value for key, value in asdict(self).items() if key not in self.PRIVATE}
        times = {key: stamp(fields[key]) for key in ("created_at", "started_at", "ended_at", "expires_at")}
        return fields | times | {"state": self.state}

    def subject(self) -> dict[str, str]:
        """What a fault's `match` is held against."""
        return {"id": self.id, "kind": self.kind, "name": self.name, "region": self.region, "token": self.token}


def matches(tags: Mapping[str, str], wanted: Mapping[str, str | None]) -> bool:
    """Whether each wanted tag is there, with its value where one is given."""
    return all(key in tags and value in (None, tags[key]) for key, value in wanted.items())


def stamp(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat()


def write(path: Path, text: str) -> None:
    """All of `text` or the file as it was, and only for its owner."""
    half = path.with_name(path.name + ".new")
    fd = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(text)
    half.rename(path)
