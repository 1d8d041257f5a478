"""Measure: run a load generator on its node, detached; watch it and the servers; bring its files home.

Detached, so that a lost line does not end it. Its exit code is carried along, but what counts is in its files.
"""

from __future__ import annotations

import contextlib
import shlex
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from plan.launch import Launch
from playbooks import launch, serve
from playbooks.archive import unpack
from playbooks.clock import Clock
from playbooks.environments import fills, with_files
from playbooks.run import Host, on_all
from spec.errors import ConnectionLost, Interrupted, NodeError
from spec.facts import Facts
from spec.inventory import Inventory, Node

T = TypeVar("T")

ARTIFACTS = "artifacts"
"""Folder of the load generator's files, below its own."""
POLL_S = 1.0
"""A server that died is noticed within twice this."""
SILENCE_S = 30.0
"""A node that does not answer for so long counts as dead, with all that runs on it."""
STEP_S = 60.0
FETCH_S = 300.0
TAIL_LINES = 20


@dataclass(frozen=True)
class Measured:
    """How a load generator's run went. `rc` is None where it was ended before it was done."""

    rc: int | None
    started_at: datetime
    ended_at: datetime
    dead: tuple[str, ...] = ()
    """Servers and gateways that died meanwhile; also the client, where its node fell silent."""
    lost_s: float = 0.0
    """Time in which this machine stood still."""
    note: str = ""
    """The end of the client's log, where it did not end well."""


def measure(
    inventory: Inventory,
    facts: Mapping[str, Facts],
    client: Launch,
    watch: Sequence[Launch],
    *,
    secrets: Mapping[str, str],
    limit_s: float,
    into: Path,
    cancel: threading.Event | None = None,
) -> Measured:
    """Run `client` to its end, and leave its files in `into`.

    Ended early where one of `watch` dies, after `limit_s`, or by `cancel` (Interrupted). It is never left running.
    """
    node = inventory.nodes[client.node]
    cancel = cancel or threading.Event()
    try:
        _on(node, lambda host: _begin(host, inventory.run, client, facts[node.name], secrets), STEP_S, cancel)
        measured, is_done = _watched(inventory, client, watch, limit_s, cancel)
    finally:
        # What cannot be reached here is ended with its node.
        with contextlib.suppress(NodeError):
            _on(node, lambda host: launch.stop(host, inventory.run, [client.name]), STEP_S)
    try:
        rc, note = _on(node, lambda host: _fetch(host, inventory.run, client.name, into), FETCH_S, cancel)
    except NodeError as error:
        rc, note = None, f"its files cannot be had: {error}"
    return replace(measured, rc=rc if is_done else None, note=note)


def _on(node: Node, task: Callable[[Host], T], limit_s: float, cancel: threading.Event | None = None) -> T:
    return on_all([node], task, limit_s=limit_s, cancel=cancel)[node.name]


def _begin(host: Host, run: str, client: Launch, facts: Facts, secrets: Mapping[str, str]) -> None:
    """Start it, without the files of an earlier try. One that a dead runner left at work is ended: nobody has watched
    the servers meanwhile, and its window began before this one."""
    launch.stop(host, run, [client.name])
    host.run(f"rm -rf ~/{shlex.quote(launch.folder(run, client.name))}/{ARTIFACTS}")
    launch.start(host, run, with_files(client), fills(facts, client), secrets, systemd=facts.systemd)


def _watched(
    inventory: Inventory, client: Launch, watch: Sequence[Launch], limit_s: float, cancel: threading.Event
) -> tuple[Measured, bool]:
    """Look every second until the client has ended (True), or must be."""
    began, deadline_s, clock = datetime.now(UTC), time.monotonic() + limit_s, Clock()
    heard_s = {each.name: time.monotonic() for each in (client, *watch)}
    while True:
        now = _look(inventory, (client, *watch), cancel)
        heard_s |= dict.fromkeys(now, time.monotonic())
        silent = {name for name, at_s in heard_s.items() if time.monotonic() - at_s > SILENCE_S}
        ended = {name for name, has_ended in now.items() if has_ended}
        dead = tuple(sorted(silent | ended - {client.name}))
        if client.name in ended or dead or time.monotonic() > deadline_s:
            return Measured(None, began, datetime.now(UTC), dead, clock.lost_s), client.name in ended
        if clock.rest(POLL_S, cancel):
            raise Interrupted(f"stopped while {client.name} was at work")


def _look(inventory: Inventory, launches: Sequence[Launch], cancel: threading.Event) -> dict[str, bool]:
    """Whether each has ended; those on a node that does not answer are left out."""

    def one(host: Host, mine: Sequence[Launch]) -> dict[str, bool]:
        names = [each.name for each in mine]
        try:
            ended = launch.ended(host, inventory.run, names)
        except ConnectionLost:
            return {}
        return {name: name in ended for name in names}

    found = serve.by_node(inventory, launches, one, STEP_S, cancel)
    return {name: has_ended for looks in found.values() for name, has_ended in looks.items()}


def _fetch(host: Host, run: str, name: str, into: Path) -> tuple[int | None, str]:
    """Bring its files, as far as there are any. Its exit code, and the end of its log where that is not 0."""
    folder = launch.folder(run, name)
    packed = f"{folder}/{ARTIFACTS}.tar.gz"
    done = host.run(
        f"cd ~/{shlex.quote(folder)} && [ -d {ARTIFACTS} ] && tar czf {ARTIFACTS}.tar.gz -C {ARTIFACTS} .", check=False
    )
    into.mkdir(parents=True, exist_ok=True)
    if done.rc == 0:
        unpack(host.get(packed), into)
    rc = launch.status(host, run, [name])[name].rc
    return rc, "" if rc == 0 else launch.tail(host, run, name, lines=TAIL_LINES).rstrip()
