"""Collect: bring the logs of everything that ran home, before the nodes go."""

from __future__ import annotations

from pathlib import Path

from playbooks.archive import unpack
from playbooks.launch import ROOT
from playbooks.run import Host, on_all
from spec.inventory import Inventory

LIMIT_S = 300.0
PACKED = "logs.tar.gz"


def collect(inventory: Inventory, into: Path) -> None:
    """Each process' log, exit code and config, as `into/NODE/NAME/`; NodeError once every node was tried."""
    on_all(inventory.nodes, lambda host: _collect(host, inventory.run, into / host.node.name), limit_s=LIMIT_S)


def _collect(host: Host, run: str, into: Path) -> None:
    """Without `env`, which holds secrets, and without what `measure` has brought already."""
    folder = f"{ROOT}/{run}"
    script = (
        f"cd ~/{folder} 2>/dev/null || exit 0\n"
        f"tar czf ../{run}.part --exclude=env --exclude=artifacts --exclude=artifacts.tar.gz . || [ $? = 1 ] || exit\n"
        f"mv ../{run}.part {PACKED} && echo packed"
    )  # 1: a log grew while it was read
    if "packed" not in host.run(script, limit_s=LIMIT_S).out:
        return
    unpack(host.get(f"{folder}/{PACKED}"), into)
