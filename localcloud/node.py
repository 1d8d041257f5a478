"""One node as the cloud knows it: a record in a file, and what the API shows of it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from localcloud.ports import COUNT


@dataclass
class Node:
    """Times are seconds since the epoch; `started_at` and `ended_at` of a node that came up are the meter's."""

    id: str
    name: str
    token: str
    tags: dict[str, str]
    region: str
    node_type: str
    gpu: str
    gpus: int
    usd_per_hour: str
    public_key: str
    created_at: float
    expires_at: float
    ssh_port: int = 0
    user: str = ""
    host_key: str = ""
    started_at: float | None = None
    ended_at: float | None = None
    reason: str = ""
    stopping: bool = False
    quirks: dict[str, float] = field(default_factory=dict)
    """Faults that struck this node when it was ordered, with their seconds."""

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
        fields = asdict(self)
        for private in ("public_key", "stopping", "quirks"):
            del fields[private]
        times = {key: stamp(fields[key]) for key in ("created_at", "started_at", "ended_at", "expires_at")}
        ports = {"first": self.ssh_port + 1, "count": COUNT}
        return fields | times | {"state": self.state, "host": "127.0.0.1", "ports": ports}

    def save(self, folder: Path) -> None:
        """The record, and beside it the expiry for the supervisor, which reads no more than that of it."""
        write(folder / "node.json", json.dumps(asdict(self)))
        write(folder / "expires_at", str(self.expires_at))


def load(folder: Path) -> Node:
    return Node(**json.loads((folder / "node.json").read_text()))


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
