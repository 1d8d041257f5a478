"""The look at a node, on a real sshd; and which ports count as taken."""

from __future__ import annotations

import platform
import socket

import pytest

from playbooks import serve
from playbooks.probe import probe
from spec.errors import NodeError
from spec.inventory import Node, Ports
from tests.playbooks.conftest import Fleet
from tests.playbooks.servers import facts, healthy, inventory


def test_what_is_seen_is_so(fleet: Fleet, host_node: Node) -> None:
    seen = probe([host_node])["run-0"]
    assert seen.kernel == platform.release()
    assert seen.home == str(fleet.folder / "run-0")
    assert seen.cache == f"{seen.home}/.cache/megatok"
    assert 0 < seen.memory_free_mib <= seen.memory_mib
    assert abs(seen.clock_skew_s) < 2
    assert "lo" in seen.interfaces


def test_the_cache_that_nodes_share_is_seen(fleet: Fleet) -> None:
    shared = fleet.folder / "shared"
    home = fleet.folder / "run-0"
    node = fleet.up("run-0", f"SetEnv MEGATOK_CACHE={shared} HOME={home} PATH=/usr/bin:/bin")
    assert probe([node])["run-0"].cache == str(shared)


def test_a_port_counts_as_taken_unless_what_holds_it_is_ours(host_node: Node) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        first = other.getsockname()[1]
        node = host_node.model_copy(update={"ports": Ports(first=first, count=1)})
        assert probe([node])["run-0"].ports_taken == (first,)
    nodes = inventory(node)
    serve.start(nodes, {"run-0": facts()}, [healthy("one", first)], {})
    assert probe([node])["run-0"].ports_taken == ()
    serve.stop(nodes, ["one"])


def test_a_node_without_python_is_told_so(fleet: Fleet) -> None:
    bare = fleet.folder / "bare"
    bare.mkdir()
    for name in ("bash", "timeout", "sleep"):
        (bare / name).symlink_to(f"/bin/{name}")
    node = fleet.up("run-0", f"SetEnv HOME={fleet.folder}/run-0 PATH={bare}")
    with pytest.raises(NodeError, match="no python3 on PATH; install it"):
        probe([node])
