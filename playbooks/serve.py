"""Serve: start engines and gateways side by side, wait until each answers, see which died, stop them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from plan.launch import Launch
from playbooks import gateway, launch
from playbooks.environments import fills, with_files
from playbooks.run import Host, on_all
from playbooks.scripts import python
from spec.errors import ConnectionLost, GateFailed, NodeError
from spec.facts import Facts
from spec.inventory import Inventory, Node

T = TypeVar("T")

START_S = 60.0
"""Beside the wait for health: files, config check and start of all processes of a node."""
LOOK_S = 30.0
STOP_S = 60.0
TAIL_LINES = 15

Problems = dict[str, str]
"""Name of a launch, and why it does not serve."""


def start(
    inventory: Inventory,
    facts: Mapping[str, Facts],
    launches: Sequence[Launch],
    secrets: Mapping[str, str],
    *,
    cancel: threading.Event | None = None,
) -> None:
    """Start what does not run yet; GateFailed, with the end of each log, where one does not come up."""

    def one(host: Host, mine: Sequence[Launch]) -> Problems:
        return _start(host, inventory.run, facts[host.node.name], mine, secrets)

    wait_s = max((each.ready_s for each in launches), default=0.0)
    found = by_node(inventory, launches, one, START_S + wait_s, cancel)
    problems = [f"{name} on {node}: {why}" for node, bad in found.items() for name, why in bad.items()]
    if problems:
        raise GateFailed("; ".join(problems))


def stop(inventory: Inventory, names: Sequence[str]) -> None:
    """End processes of this run, wherever they run; those that never ran are stopped already."""
    if names:
        on_all(inventory.nodes, lambda host: launch.stop(host, inventory.run, names), limit_s=STOP_S)


def dead(inventory: Inventory, launches: Sequence[Launch]) -> tuple[str, ...]:
    """Those that do not run; all of a node that does not answer."""

    def one(host: Host, mine: Sequence[Launch]) -> tuple[str, ...]:
        names = [each.name for each in mine]
        try:
            return launch.ended(host, inventory.run, names)
        except ConnectionLost:
            return tuple(names)

    found = by_node(inventory, launches, one, LOOK_S)
    return tuple(name for names in found.values() for name in names)


def by_node(
    inventory: Inventory,
    launches: Sequence[Launch],
    task: Callable[[Host, Sequence[Launch]], T],
    limit_s: float,
    cancel: threading.Event | None = None,
) -> dict[str, T]:
    """Run `task` on each node that has launches, with those of its own."""
    mine: dict[str, list[Launch]] = {}
    for each in launches:
        mine.setdefault(inventory.nodes[each.node].name, []).append(each)
    nodes = [node for node in inventory.nodes if node.name in mine]
    return on_all(nodes, lambda host: task(host, mine[host.node.name]), limit_s=limit_s, cancel=cancel)


def _start(host: Host, run: str, facts: Facts, launches: Sequence[Launch], secrets: Mapping[str, str]) -> Problems:
    """All are started before the first is waited for."""
    problems = _unfit(host, run, facts, launches)
    begun = []
    for each in launches:
        if each.name in problems:
            continue
        try:
            whole = with_files(each)
            launch.start(host, run, whole, fills(facts, each), secrets, systemd=facts.systemd)
            begun.append(each)
        except ConnectionLost:
            raise
        except NodeError as error:
            problems[each.name] = str(error)
    return {**problems, **_await(host, run, begun)}


def _unfit(host: Host, run: str, facts: Facts, launches: Sequence[Launch]) -> Problems:
    """What can be said before the start: its program is not there, or its port is another's."""
    found = {each.name: gateway.absent(host.node.name, facts, each.argv[0]) for each in launches if not each.tool}
    now = launch.status(host, run, [each.name for each in launches])
    asked = [each for each in launches if each.port and not now[each.name].alive]
    script = "\n".join(f"(: <>/dev/tcp/{host.node.host}/{each.port}) 2>/dev/null && echo {each.port}" for each in asked)
    taken = host.run(f"{script}\ntrue").out.split()
    for each in asked:
        if str(each.port) in taken:
            found[each.name] = f"port {each.port} is taken by another process; end that first, or take other ports"
    return {name: why for name, why in found.items() if why}


def _await(host: Host, run: str, launches: Sequence[Launch]) -> Problems:
    """Wait, from the node itself, until each answers; a process that ended or cannot come up is told at once."""
    if not launches:
        return {}
    wanted = [_wanted(host.node, run, each) for each in launches]
    wait_s = max(each.ready_s for each in launches)
    found = json.loads(host.run(python("http_probe.py", json.dumps(wanted)), limit_s=wait_s + LOOK_S).out)
    return {name: f"{why}\n{_log(host, run, name)}" for name, why in found.items() if why}


def _wanted(node: Node, run: str, each: Launch) -> dict[str, object]:
    return {
        "name": each.name,
        "url": f"http://{node.host}:{each.port}{each.health}" if each.health else "",
        "folder": launch.folder(run, each.name),
        "ready_s": each.ready_s,
        "fatal": each.fatal,
    }


def _log(host: Host, run: str, name: str) -> str:
    return launch.tail(host, run, name, lines=TAIL_LINES).rstrip()
