"""What a node is, as one look at it found: what gates judge, and what `prepare` and `serve` go by."""

from __future__ import annotations

from spec.base import Natural, Seq, Spec


class GpuSeen(Spec):
    """One device, as its driver reports it."""

    name: str
    memory_mib: Natural
    driver: str


class Facts(Spec):
    """One node."""

    distribution: str
    """`debian 12`."""
    kernel: str
    machine: str
    """`x86_64`."""
    cpus: Natural
    memory_mib: Natural
    memory_free_mib: Natural
    python: str
    """Version of the one that tools get, `3.11.7`."""
    venv: bool
    """Whether that Python can make an environment with pip in it."""
    systemd: bool
    """Whether systemd runs this node, so that long processes can be its units."""
    sudo: bool
    """Root, or may become it without a password."""
    user: str
    home: str
    cache: str
    """Folder, as an absolute path, of what can be made again; nodes may share it."""
    cache_free_mib: Natural
    gpus: Seq[GpuSeen]
    programs: Seq[str]
    """Those of nginx, haproxy, curl and nvidia-smi that are there."""
    versions: dict[str, str] = {}
    """Of those programs, as each tells it."""
    interfaces: Seq[str]
    """Names of network interfaces."""
    ports_taken: Seq[int]
    """Of the node's own range: those on which something listens that we did not start."""
    clock_skew_s: float
    """The node's clock minus the asking machine's: the least that it can be, as the look itself takes time."""
