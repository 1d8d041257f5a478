"""What a plan hands to playbooks: replicas on nodes, and one `Launch` for each long process."""

from __future__ import annotations

from dataclasses import dataclass

from spec.inventory import Ports
from spec.layout import LayoutShape

API_KEY = "MEGATOK_API_KEY"
"""Environment variable in which a server finds the key that clients must show."""

SYSTEM_PATH = ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
"""For programs of the system: Debian keeps servers in /usr/sbin, which is not on a plain user's path."""


@dataclass(frozen=True)
class Seat:
    """A node as far as planning needs it. Before rent, addresses and ports are assumed ones."""

    name: str
    host: str
    gpus: int
    ports: Ports


@dataclass(frozen=True)
class Replica:
    """One full copy of the model: on which node, which of its GPUs, and the address that it serves."""

    index: int
    node: int
    gpus: tuple[int, ...]
    host: str
    port: int

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"


@dataclass(frozen=True)
class Placement:
    """Where a layout stands. `endpoints` is what a client is told: the gateway, or each replica where there is none."""

    layout: LayoutShape
    replicas: tuple[Replica, ...]
    gateway: str
    gateway_node: int
    gateway_host: str
    gateway_port: int
    """0 where the gateway is `none`."""
    gateway_own_port: int
    """For what the gateway tells of itself (metrics); 0 where it is `none`."""
    client_node: int

    @property
    def endpoints(self) -> tuple[str, ...]:
        if self.gateway == "none":
            return tuple(replica.url for replica in self.replicas)
        return (f"http://{self.gateway_host}:{self.gateway_port}",)


@dataclass(frozen=True)
class Launch:
    """One long process on one node.

    In `argv`, `env` and `files`, `{env}` stands for the folder of the tool's environment, `{dir}` for the process' own
    folder on the node, `{cache}` for the node's cache, `{model}` for the folder of the prepared model. Playbooks fill
    them in.
    """

    name: str
    node: int
    tool: str
    """Foreign tool whose locked environment it needs (`tools/envs/NAME.txt`); empty for a program of the system."""
    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    """Relative name and text, written into `{dir}` before the start."""
    check: tuple[str, ...] = ()
    """The program's own check of its config, run before the start; empty where it has none."""
    port: int = 0
    health: str = ""
    """Path that answers 200 once it is ready; empty where nothing listens."""
    ready_s: float = 60.0
    fatal: tuple[str, ...] = ()
    """Regular expressions: a log line that matches means it will not come up."""
    secrets: tuple[str, ...] = ()
    """Names of environment variables whose values playbooks pass on (mode 600, never in arguments)."""
    model: str = ""
    """Name of the prepared model that `{model}` stands for; empty where it needs none."""
