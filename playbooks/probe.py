"""What nodes are: one look at each, in one round trip, before anything is decided or changed."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence

from playbooks.files.toolenv import PYTHONS
from playbooks.launch import ROOT
from playbooks.run import Host, on_all
from playbooks.scripts import python
from spec.errors import NodeError
from spec.facts import Facts
from spec.inventory import Node

LIMIT_S = 60.0
"""Drivers of eight GPUs that were never asked may take half a minute to answer."""


def probe(nodes: Sequence[Node], *, cancel: threading.Event | None = None) -> dict[str, Facts]:
    """Facts by node name."""
    return on_all(nodes, _look, limit_s=LIMIT_S, cancel=cancel)


def _look(host: Host) -> Facts:
    ports = host.node.ports
    script = python("probe.py", str(ports.first), str(ports.count), ROOT, ",".join(PYTHONS))
    began_s = time.time()
    done = host.run(script, limit_s=LIMIT_S, check=False)
    ended_s = time.time()
    if done.rc == 127:
        raise NodeError(
            "no python3 on PATH; install it, on Debian and Ubuntu with: apt-get install -y python3 python3-venv"
        )
    if done.rc:
        raise NodeError(f"the look at the node ended with {done.rc}: {done.err.strip()[-500:]}")
    seen = json.loads(done.out)
    clock_s = seen.pop("clock_s")
    # It was read at some moment of the look, which takes seconds on a busy machine: the least that it can be off.
    skew_s = clock_s - min(max(clock_s, began_s), ended_s)
    return Facts.model_validate({**seen, "clock_skew_s": skew_s})
