"""Wait until servers on this node answer: `http_probe.py WANTED` writes a JSON object of name -> what became of it.

WANTED is a JSON list of objects: `name`, `url` (empty: alive is enough), `folder` (below the home), `ready_s`, `fatal`
(regular expressions of log lines after which it will not come up). Empty text means: it answers with 200.
"""

from __future__ import annotations

import http.client
import json
import re
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

POLL_S = 0.05
ASK_S = 5.0
"""For one answer; a server that loads weights may be slow to say so."""
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""The node's own addresses never go through a proxy of its environment."""


def answer(url: str) -> str:
    """The status, or why there is none."""
    try:
        with DIRECT.open(url, timeout=ASK_S) as reply:
            return str(reply.status)
    except urllib.error.HTTPError as error:
        return str(error.code)
    except (OSError, http.client.HTTPException) as error:
        return str(getattr(error, "reason", error))


def ended(folder: Path) -> str:
    """Whether the process has ended, by what its start script and the kernel say."""
    try:
        return f"ended with exit code {(folder / 'rc').read_text().strip()}"
    except OSError:
        pid = (folder / "pid").read_text().split()[0]
    return "" if Path("/proc", pid).exists() else "was killed"


def fatal_line(folder: Path, patterns: list[str]) -> str:
    try:
        lines = (folder / "log").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return next((line for line in lines for pattern in patterns if re.search(pattern, line)), "")


def state(wanted: dict[str, Any]) -> str | None:
    """None while it may still come up; empty text once it answers; else why it will not."""
    folder = Path.home() / wanted["folder"]
    status = answer(wanted["url"]) if wanted["url"] else "200"
    over = ended(folder)  # asked after the answer, which may be another program's
    if over:
        return f"{over}; {fatal_line(folder, wanted['fatal'])}".removesuffix("; ")
    if status == "200":
        return ""
    wanted["last"] = status
    line = fatal_line(folder, wanted["fatal"])
    return f"will not come up: {line}" if line else None


def main(wanted: list[dict[str, Any]]) -> None:
    began = time.monotonic()
    found: dict[str, str] = {}
    while len(found) < len(wanted):
        for each in wanted:
            if each["name"] in found:
                continue
            now = state(each)
            if now is None and time.monotonic() - began > each["ready_s"]:
                now = f"not ready after {each['ready_s']:g} s, last answer: {each['last']}"
            if now is not None:
                found[each["name"]] = now
        time.sleep(POLL_S)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
