"""A block of ports for each node, its own on the whole machine, also against other local clouds."""

from __future__ import annotations

import random
import socket
from dataclasses import dataclass

from localcloud.refusal import Refusal

COUNT = 24  # for what runs on the node; the port before them is its SSH server's
FIRST, END = 20000, 32768  # below Linux's range for outgoing connections, so that none of those sits on a node's port


@dataclass
class Block:
    """`claim` is an abstract socket named after the block: who holds it open owns the ports, and the kernel frees it
    with its last holder, however that ends."""

    ssh_port: int
    claim: socket.socket

    @property
    def first(self) -> int:
        return self.ssh_port + 1


def take() -> Block:
    """A block that nobody has claimed and whose ports can all be bound now."""
    starts = list(range(FIRST, END - COUNT, COUNT + 1))
    random.shuffle(starts)
    for start in starts:
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0localcloud-ports-{start}")
            for port in range(start, start + COUNT + 1):
                bind(port)
        except OSError:
            claim.close()
            continue
        return Block(start, claim)
    raise Refusal("no_capacity", f"no block of {COUNT + 1} ports is free on 127.0.0.1 from {FIRST} to {END}")


def bind(port: int) -> None:
    """OSError where `port` is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
