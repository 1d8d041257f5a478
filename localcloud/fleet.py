"""All nodes of one home: ordered, listed, extended, ended, and watched over."""

from __future__ import annotations

import secrets
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from localcloud import boot, life, ports, prices
from localcloud.extras import REMEMBERED_S, Extras
from localcloud.faults import Faults
from localcloud.meter import Meter
from localcloud.node import Node, load
from localcloud.offers import Offer, offer
from localcloud.refusal import Refusal
from localcloud.supervisor import end_marked, now_s

LIVENESS_S = 1.0  # between two looks at every supervisor
NODE_FAULTS = ("ssh_silent", "host_key_changed", "boot_never", "eventual", "spot_notice", "die", "native_dead")


@dataclass(frozen=True)
class Order:
    """A create call: all of `names`, or none."""

    token: str
    names: tuple[str, ...]
    tags: Mapping[str, str]
    region: str
    node_type: str
    public_key: str
    lifetime_s: float
    user_data: str = ""
    max_usd_per_hour: str = "Infinity"
    """A node that costs more now is not made."""

    def subject(self, name: str) -> dict[str, str]:
        """What a fault's `match` is held against."""
        what = {"call": "create", "kind": "machine", "name": name, "token": self.token}
        return what | {"region": self.region, "node_type": self.node_type}


class Fleet:
    """Records change under `_changed`, which wakes who waits for one. What began and ended when is the meter's word."""

    def __init__(self, home: Path, faults: Faults) -> None:
        self._folder = home / "nodes"
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._faults = faults
        self._meter = Meter(home / "meter.jsonl")
        self._changed = threading.Condition()
        self._booting: set[str] = set()
        self._supervisors: list[subprocess.Popen[bytes]] = []
        self._looked_at = 0.0
        self.extras = Extras(self._folder, Meter(self._meter.path))
        self._nodes = {node.id: node for node in map(load, remembered(self._folder))}
        self.tend()

    def create(self, order: Order) -> list[Node]:
        """Make the group and wait until it runs. The same token is the same group, also while it is being made."""
        with self._changed:
            group = [node for node in self._nodes.values() if node.token == order.token]
            if group and tuple(node.name for node in group) != order.names:
                raise Refusal("bad_request", f"token {order.token!r} was used for {', '.join(n.name for n in group)}")
            fresh = not group
            if fresh:
                group = self._admit(order)
        try:
            if fresh:
                self._boot(order, group)
            with self._changed:
                self._changed.wait_for(lambda: settled(group))
        finally:
            if not all(node.state == "running" for node in group):
                for node in group:
                    self.end(node.id)
        if not all(node.state == "running" for node in group):
            raise Refusal("no_capacity", f"{', '.join(order.names)} did not come up; all of the group was ended")
        return group

    def all(self) -> list[Node]:
        with self._changed:
            return list(self._nodes.values())

    def read(self, id: str) -> Node:
        if id not in self._nodes:
            raise Refusal("not_found", f"no node {id!r}")
        return self._nodes[id]

    def gone(self, id: str) -> bool:
        return id not in self._nodes or self._nodes[id].ended_at is not None

    def end(self, id: str) -> None:
        """Ask for the node's end; ended already is fine."""
        node = self.read(id)
        with self._changed:
            if node.ended_at is None and not node.stopping:
                node.stopping = True
                node.save(self._folder / id)
                self._changed.notify_all()
        life.stop(self._folder / id)

    def extend(self, id: str, expires_at: float, tags: Mapping[str, str]) -> Node:
        """Move the end of a node, and of what came with it."""
        node = self.read(id)
        with self._changed:
            if node.ended_at is not None or node.stopping:
                raise Refusal("not_found", f"node {id} has ended")
            node.expires_at = expires_at
            node.tags |= tags
            node.save(self._folder / id)
        self.extras.extend(node)
        return node

    def living(self) -> list[Node]:
        """Nodes that are not gone."""
        with self._changed:
            return [node for node in self._nodes.values() if node.ended_at is None]

    def tend(self) -> None:
        """Take in what the meter says, and end what outlived its supervisor or its time. To be called all the time."""
        self.extras.tend()
        with self._changed:
            self._take_in()
            stopping = [node for node in self.living() if node.stopping]
            if stopping or time.monotonic() - self._looked_at >= LIVENESS_S:
                self._looked_at = time.monotonic()
                self._supervisors = [child for child in self._supervisors if child.poll() is None]
                for node in stopping:
                    life.stop(self._folder / node.id)
                dead = [node for node in self.living() if self._dead(node)]
                self._take_in()  # a supervisor's last word may have come between
                for node in dead:
                    self._bury(node)

    def _admit(self, order: Order) -> list[Node]:
        """Write the group down as pending, if it may be."""
        found = offer(order.region, order.node_type)
        if found is None:
            raise Refusal("bad_request", f"no offer of {order.node_type!r} in {order.region!r}")
        used = sum(n.region == order.region and n.node_type == order.node_type for n in self.living())
        if used + len(order.names) > found.capacity:
            raise Refusal("no_capacity", f"{found.region} has {found.capacity - used} {found.node_type} left")
        times = prices.factor(self._faults, order.node_type)
        if found.usd_per_hour * times > Decimal(order.max_usd_per_hour):
            raise Refusal("no_capacity", f"{order.node_type} costs {found.usd_per_hour * times} USD/h now")
        group = [written(order, name, found, times) for name in order.names]
        for node in group:
            subject = order.subject(node.name)
            node.quirks = {
                fault: rule.seconds for fault in NODE_FAULTS if (rule := self._faults.strike(fault, **subject))
            }
            (self._folder / node.id).mkdir(mode=0o700)
            node.save(self._folder / node.id)
        self._nodes |= {node.id: node for node in group}
        self._booting |= {node.id for node in group}
        return group

    def _boot(self, order: Order, group: list[Node]) -> None:
        """Start the group, unless it is ended while it waits to be."""
        try:
            subject = order.subject(order.names[0])
            self._faults.hold("accepted", subject, lambda: any(node.stopping for node in group))
            if slow := self._faults.strike("create_slow", **subject):
                with self._changed:
                    self._changed.wait_for(lambda: any(node.stopping for node in group), slow.seconds)
            for node in group:
                if not node.stopping and "boot_never" not in node.quirks:
                    self._start(node)
        finally:
            with self._changed:
                self._booting -= {node.id for node in group}

    def _start(self, node: Node) -> None:
        self.extras.make(node)
        folder = self._folder / node.id
        block = ports.take()
        node.ssh_port = block.ssh_port
        boot.layout(node, folder)
        node.save(folder)
        self._supervisors.append(boot.start(node, folder, self._meter.path, block))

    def _take_in(self) -> None:
        if not self._meter.read():
            return
        for node in self.living():
            if line := self._meter.lines.get(node.id):
                node.started_at = line.started_at
                if line.ended_at is not None:
                    node.ended_at, node.reason = line.ended_at, line.reason
                    node.save(self._folder / node.id)
        self._changed.notify_all()

    def _dead(self, node: Node) -> bool:
        """Whether nothing will end this node any more but us."""
        if node.id in self._booting or life.lives(self._folder / node.id):
            return False
        waits = "boot_never" in node.quirks and not node.stopping and now_s() < node.expires_at
        return not waits

    def _bury(self, node: Node) -> None:
        """End what a lost supervisor left, and close the bill when the last of it was gone."""
        if node.ended_at is not None:
            return
        folder = self._folder / node.id
        left_over = end_marked(node.id)
        for disk in (folder / "home", boot.temporary(node.id)):
            shutil.rmtree(disk, ignore_errors=True)
        if node.started_at is not None:
            ended_at = now_s() if left_over else max(node.started_at, life.last_beat_s(folder))
            self._meter.stop(node.id, ended_at, "lost")
            self._take_in()
        else:
            node.ended_at, node.reason = now_s(), "deleted" if node.stopping else "never came up"
            node.save(folder)
            self._changed.notify_all()


def settled(group: list[Node]) -> bool:
    """Whether all of it runs, or some of it never will."""
    states = {node.state for node in group}
    return states == {"running"} or bool(states & {"stopping", "terminated"})


def remembered(nodes: Path) -> list[Path]:
    """Folders of nodes; those that ended long ago are removed."""
    folders = [path.parent for path in nodes.glob("*/node.json")]
    old = [path for path in folders if (load(path).ended_at or now_s()) < now_s() - REMEMBERED_S]
    for path in old:
        shutil.rmtree(path)
    return [path for path in folders if path not in old]


def written(order: Order, name: str, found: Offer, times: Decimal) -> Node:
    """A new node's record, at `times` the listed price."""
    return Node(
        id=f"n-{secrets.token_hex(6)}",
        name=name,
        token=order.token,
        tags=dict(order.tags),
        region=found.region,
        node_type=found.node_type,
        gpu=found.gpu,
        gpus=found.gpus,
        usd_per_hour=str(found.usd_per_hour * times),
        public_key=order.public_key,
        user_data=order.user_data,
        extras={kind: str(usd_per_hour * times) for kind, usd_per_hour in found.extras.items()},
        created_at=now_s(),
        expires_at=now_s() + order.lifetime_s,
        user=boot.USER.pw_name,
    )
