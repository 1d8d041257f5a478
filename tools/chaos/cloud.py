"""The local cloud as chaos sees it: its faults, by its own API, and its meter, by its own file."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import time
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from localcloud import life, meter
from localcloud.faults import FAULTS

ALIVE_S = 30.0


class CloudSide:
    """The cloud of one MEGATOK_HOME, which need not run yet."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "localcloud"

    def begin(self, rules: list[Mapping[str, Any]]) -> None:
        """Rules for a cloud that is to be started, of the faults that it has."""
        self.folder.mkdir()
        (self.folder / "faults.json").write_text(json.dumps([rule for rule in rules if rule["fault"] in FAULTS]))

    def hold(self, call: str, at: str, nth: int, seconds: float) -> str:
        """Let the nth such call from now wait at this point; the rule's id."""
        rule = {"fault": "hold", "match": {"call": call}, "at": at, "nth": nth, "seconds": seconds}
        rule["id"] = id = secrets.token_hex(4)
        if life.lives(self.folder):
            self._call("POST", body=rule)
        else:
            path = self.folder / "faults.json"
            path.write_text(json.dumps([*json.loads(path.read_text()), rule]))
        return id

    def holds(self, id: str) -> bool:
        """Whether a call waits now by that rule."""
        return life.lives(self.folder) and any(rule["id"] == id and rule["holding"] for rule in self._call("GET"))

    def release(self, id: str) -> None:
        """Let a held call go on, or hold none any more."""
        if life.lives(self.folder):
            self._call("DELETE", f"/{id}")

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

    def _call(self, method: str, path: str = "", body: Any = None) -> Any:
        """A cloud that was just started says where it listens a moment later."""
        give_up_at = time.monotonic() + ALIVE_S
        while True:
            try:
                told = json.loads((self.folder / "endpoint.json").read_text())
                link = http.client.HTTPConnection(urlsplit(told["url"]).netloc, timeout=ALIVE_S)
                link.request(
                    method, f"/v1/faults{path}", json.dumps(body), {"Authorization": f"Bearer {told['token']}"}
                )
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
