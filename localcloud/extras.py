"""Disks and addresses: made with a node, billed apart, and there until they are deleted or expire, whatever became of
the node. No process keeps them: the meter itself stops at their expiry, also while no cloud runs."""

from __future__ import annotations

import json
import secrets
import shutil
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

from localcloud.meter import Meter
from localcloud.node import Node
from localcloud.supervisor import now_s
from localcloud.thing import Thing, write

REMEMBERED_S = 86400.0  # how long what has ended can still be read


@dataclass(kw_only=True)
class Extra(Thing):
    """A disk or an address of a node."""

    node: str
    """Its id; until that machine is gone, this is in use."""


class Extras:
    """All of one home. Each has a folder beside those of the nodes."""

    def __init__(self, folder: Path, meter: Meter) -> None:
        self._folder = folder
        self._meter = meter
        self._lock = threading.RLock()
        self._things: dict[str, Extra] = {}
        meter.read()
        for path in folder.glob("*/extra.json"):
            self._recall(path)

    def make(self, node: Node) -> None:
        """What comes with `node`: billed from now on, with its tags and its expiry."""
        for kind, usd_per_hour in node.extras.items():
            made = Extra(
                id=f"{kind[0]}-{secrets.token_hex(6)}",
                kind=kind,
                name=f"{node.name}-{kind}",
                token=node.token,
                tags=dict(node.tags),
                region=node.region,
                usd_per_hour=usd_per_hour,
                created_at=now_s(),
                expires_at=node.expires_at,
                started_at=now_s(),
                quirks={key: value for key, value in node.quirks.items() if key == "eventual"},
                node=node.id,
            )
            with self._lock:
                (self._folder / made.id).mkdir(mode=0o700)
                self._save(made)
                self._meter.start(made, until=made.expires_at)
                self._things[made.id] = made

    def all(self) -> list[Extra]:
        with self._lock:
            return list(self._things.values())

    def living(self) -> list[Extra]:
        return [each for each in self.all() if each.ended_at is None]

    def end(self, extra: Extra, at: float, reason: str) -> None:
        """Ended already is fine."""
        with self._lock:
            if extra.ended_at is None:
                self._meter.stop(extra.id, at, reason)
                extra.ended_at, extra.reason = at, reason
                self._save(extra)

    def extend(self, node: Node) -> None:
        """Give what came with `node` its expiry and tags."""
        with self._lock:
            for extra in self.living():
                if extra.node == node.id and now_s() < extra.expires_at:
                    self._meter.until(extra.id, node.expires_at)
                    extra.expires_at, extra.tags = node.expires_at, dict(node.tags)
                    self._save(extra)

    def tend(self) -> None:
        """End what has expired."""
        for extra in self.living():
            if extra.expires_at <= now_s():
                self.end(extra, extra.expires_at, "expired")

    def _save(self, extra: Extra) -> None:
        write(self._folder / extra.id / "extra.json", json.dumps(asdict(extra)))

    def _recall(self, path: Path) -> None:
        """One that an earlier cloud made; what began and ended when is the meter's word."""
        extra = Extra(**json.loads(path.read_text()))
        line = self._meter.lines.get(extra.id)
        if line is None or (line.ended_at or now_s()) < now_s() - REMEMBERED_S:
            shutil.rmtree(path.parent)
            return
        extra.ended_at, extra.reason, extra.expires_at = line.ended_at, line.reason, line.until or extra.expires_at
        self._things[extra.id] = extra
