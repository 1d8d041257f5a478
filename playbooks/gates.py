"""Gates: whether a node is fit, judged from its facts alone. Not applicable comes from the plan, never from looking."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from playbooks.files.toolenv import PYTHONS
from spec.facts import Facts
from spec.inventory import Node
from spec.recipe import Cluster
from spec.record import Check

Outcome = Literal["pass", "fail", "not applicable", "unknown"]
Verdict = tuple[Outcome, str]

SKEW_S = 2.0
"""Records of several nodes are put beside each other; SSH's round trip hides less than this."""
DISK_MIB = 512
"""For logs and the load generator's files: 0.2 MiB a cell (measured), and room to move."""
STAND_IN_MIB = 640
"""Free memory for each processor server: 340-560 MiB resident (measured)."""
GPU_MIB = 8192
"""Free memory for each GPU: an engine's process with its pinned buffers. Our choice, no measurement yet."""


def gates(nodes: Sequence[Node], facts: Mapping[str, Facts], cluster: Cluster) -> tuple[Check, ...]:
    """Every gate of every node; the caller decides what a failure costs. Unknown where a node was not looked at."""
    return tuple(check for node in nodes for check in _of_node(node, facts.get(node.name), cluster))


def _of_node(node: Node, facts: Facts | None, cluster: Cluster) -> list[Check]:
    checks = []
    for what, judge in GATES.items():
        outcome, detail = judge(node, facts, cluster) if facts else ("unknown", "the node was not looked at")
        checks.append(Check(name=f"{node.name} {what}", outcome=outcome, detail=detail))
    return checks


def _judge(good: bool, detail: str) -> Verdict:
    return ("pass" if good else "fail"), detail


def _python(_: Node, facts: Facts, __: Cluster) -> Verdict:
    if not facts.python.startswith(tuple(PYTHONS)):
        return "fail", f"Python is {facts.python}; install one of {', '.join(PYTHONS)}"
    if not facts.venv:
        return "fail", "python3 has no venv; install it with: apt-get install -y python3-venv"
    return "pass", facts.python


def _clock(_: Node, facts: Facts, __: Cluster) -> Verdict:
    return _judge(abs(facts.clock_skew_s) <= SKEW_S, f"{facts.clock_skew_s:+.2f} s from ours, at most {SKEW_S:g}")


def _memory(node: Node, facts: Facts, cluster: Cluster) -> Verdict:
    wanted = max(1, cluster.gpus_per_node) * (STAND_IN_MIB if cluster.stand_in else GPU_MIB)
    return _judge(facts.memory_free_mib >= wanted, f"{facts.memory_free_mib} MiB free, {wanted} needed")


def _disk(_: Node, facts: Facts, __: Cluster) -> Verdict:
    return _judge(
        facts.cache_free_mib >= DISK_MIB, f"{facts.cache_free_mib} MiB free at {facts.cache}, {DISK_MIB} needed"
    )


def _ports(node: Node, facts: Facts, _: Cluster) -> Verdict:
    span = f"{node.ports.first}-{node.ports.first + node.ports.count - 1}"
    if facts.ports_taken:
        return "fail", f"of {span}, other programs listen on {', '.join(map(str, facts.ports_taken))}"
    return "pass", f"{span} free"


def _gpus(_: Node, facts: Facts, cluster: Cluster) -> Verdict:
    if cluster.stand_in:
        return "not applicable", f"by plan: stand_in: {cluster.stand_in}"
    if len(facts.gpus) != cluster.gpus_per_node:
        return "fail", f"{len(facts.gpus)} GPUs seen, {cluster.gpus_per_node} expected"
    return "pass", f"{len(facts.gpus)} x {facts.gpus[0].name}, driver {facts.gpus[0].driver}"


def _gpu_kind(_: Node, facts: Facts, cluster: Cluster) -> Verdict:
    if cluster.stand_in:
        return "not applicable", f"by plan: stand_in: {cluster.stand_in}"
    names = sorted({gpu.name for gpu in facts.gpus})
    good = bool(names) and all(cluster.gpu.lower() in name.lower() for name in names)
    return _judge(good, f"{', '.join(names) or 'none'} seen, {cluster.gpu} expected")


GATES: dict[str, Callable[[Node, Facts, Cluster], Verdict]] = {
    "python": _python,
    "clock": _clock,
    "memory": _memory,
    "disk": _disk,
    "ports": _ports,
    "GPU count": _gpus,
    "GPU kind": _gpu_kind,
}
