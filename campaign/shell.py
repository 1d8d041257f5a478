"""The ssh command line that reaches a node of a run."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from campaign.folder import known
from infra import stack
from spec.errors import RecipeError, Unfit


def command(run: str, index: int, options: Sequence[str], words: Sequence[str]) -> list[str]:
    """argv of OpenSSH with the run's key, the node's pinned host key, and nothing of the user's own configuration."""
    folder = known(run)
    inventory = folder.inventory() or stack.inventory(run)
    if inventory is None or index >= len(inventory.nodes):
        count = len(inventory.nodes) if inventory else 0
        raise RecipeError(f"run {run} has {count} nodes, and none with index {index}")
    if shutil.which("ssh") is None:
        raise Unfit("no ssh on PATH; install the OpenSSH client (Debian: apt-get install openssh-client)")
    node = inventory.nodes[index]
    pinned = folder.write(f"known_hosts-{index}", f"[{node.host}]:{node.ssh_port} {node.host_key}\n")
    return [
        "ssh", "-F", "none", "-i", node.key_file, "-p", str(node.ssh_port),
        "-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none", "-o", "StrictHostKeyChecking=yes",
        "-o", f"UserKnownHostsFile={pinned}", "-o", "GlobalKnownHostsFile=none", "-o", "LogLevel=ERROR",
        *options, f"{node.user}@{node.host}", *words,
    ]  # fmt: skip
