"""The local cloud as chaos sees it: its faults, by its own API, and its meter, by its own file."""

from __future__ import annotations

import http.client
import json
import os
import time
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from localcloud import life, meter

ALIVE_S = 30.0


class CloudSide:
    """The cloud of one MEGATOK_HOME, which need not run yet."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "localcloud"

    def begin(self, rules: list[Mapping[str, Any]]) -> None:
        """Rules for a cloud that is to be started."""
        self.folder.mkdir()
        (self.folder / "faults.json").write_text(json.dumps(rules))

    def hold(self, rule: Mapping[str, Any]) -> None:
        if life.lives(self.folder):
            self._call("POST", rule)
        else:
            path = self.folder / "faults.json"
            path.write_text(json.dumps([*json.loads(path.read_text()), rule]))

    def holds(self) -> bool:
        """Whether a call waits now."""
        return life.lives(self.folder) and any(rule.get("holding") for rule in self._call("GET"))

    def release(self) -> None:
        """Let a held call go on, and none be held that was not yet; other faults stay."""
        if not life.lives(self.folder):
            return
        others = [rule for rule in self._call("GET") if rule["fault"] != "hold"]
        self._call("DELETE")
        for rule in others:
            self._call("POST", rule)

    def bill(self) -> Mapping[str, Any]:
        """The meter: `running`, `lines`, and exact dollars."""
        return meter.bill(self.folder / "meter.jsonl", {})

    def running(self) -> int:
        return int(self.bill()["running"])

    def usd(self) -> Decimal:
        return Decimal(self.bill()["usd"])

    def supervisors(self) -> list[int]:
        """Processes on which nodes hang."""
        living = [node for node in sorted(self.folder.glob("nodes/*")) if life.lives(node)]
        return [int(text) for node in living if (text := (node / "lock").read_text()).isdigit()]

    def _call(self, method: str, body: Any = None) -> Any:
        """A cloud that was just started says where it listens a moment later."""
        give_up_at = time.monotonic() + ALIVE_S
        while True:
            try:
                told = json.loads((self.folder / "endpoint.json").read_text())
                link = http.client.HTTPConnection(urlsplit(told["url"]).netloc, timeout=ALIVE_S)
                link.request(method, "/v1/faults", json.dumps(body), {"Authorization": f"Bearer {told['token']}"})
                return json.loads(link.getresponse().read())
            except (OSError, ValueError, http.client.HTTPException):
                if time.monotonic() > give_up_at:
                    raise
                time.sleep(0.02)


def kill(pid: int) -> bool:
    """Whether there was such a process."""
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        return False
    return True
