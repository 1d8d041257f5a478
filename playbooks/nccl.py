"""NCCL's environment, one file a node. Not applicable, by plan, where a processor stands in for a GPU."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from playbooks.launch import ROOT
from playbooks.run import Host, on_all
from spec.errors import GateFailed
from spec.facts import Facts
from spec.inventory import Node
from spec.recipe import Cluster

FILE = f"{ROOT}/nccl.env"
"""Below the home of the node's user; lines of NAME=VALUE."""
LIMIT_S = 60.0


def nccl(
    nodes: Sequence[Node],
    facts: Mapping[str, Facts],
    cluster: Cluster,
    *,
    interface: str = "",
    cancel: threading.Event | None = None,
) -> dict[str, tuple[str, ...]]:
    """Write the file where it differs, and say so by node. `interface`: for bootstrap; else the default route's."""
    if cluster.stand_in:
        return {node.name: () for node in nodes}
    texts = {node.name: text(node.name, facts[node.name], interface) for node in nodes}
    return on_all(nodes, lambda host: _write(host, texts[host.node.name]), limit_s=LIMIT_S, cancel=cancel)


def text(node: str, facts: Facts, interface: str) -> str:
    """NCCL falls back in silence, or hangs, where the interface that it is told of does not exist: refused here."""
    usable = [name for name in facts.interfaces if name != "lo"]
    chosen = interface or next(iter(usable), "")
    if chosen not in usable:
        wanted = f"network interface {interface!r}" if interface else "network interface"
        raise GateFailed(f"{node} has no {wanted}; it has {', '.join(usable) or 'only the loopback'}")
    return f"NCCL_SOCKET_IFNAME={chosen}\nNCCL_DEBUG=WARN\n"


def _write(host: Host, wanted: str) -> tuple[str, ...]:
    if host.run(f"cat ~/{FILE} 2>/dev/null; true").out == wanted:
        return ()
    host.put(wanted.encode(), FILE)
    return (f"nccl.env: {wanted.split(maxsplit=1)[0]}",)
