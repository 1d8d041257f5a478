"""NCCL's environment: not applicable by plan, written once, and no interface that is not there."""

from __future__ import annotations

import pytest

from playbooks.launch import ROOT
from playbooks.nccl import nccl, text
from spec.errors import GateFailed
from tests.playbooks.conftest import Fleet
from tests.playbooks.servers import facts
from tests.playbooks.test_gates import CPU, GPU


def test_a_stand_in_gets_none(fleet: Fleet) -> None:
    assert nccl([fleet.up("run-0")], {"run-0": facts()}, CPU) == {"run-0": ()}
    assert not (fleet.folder / "run-0" / ROOT).exists()


def test_it_is_written_once(fleet: Fleet) -> None:
    nodes = [fleet.up("run-0")]
    assert nccl(nodes, {"run-0": facts()}, GPU) == {"run-0": ("nccl.env: NCCL_SOCKET_IFNAME=eth0",)}
    assert nccl(nodes, {"run-0": facts()}, GPU) == {"run-0": ()}


def test_an_interface_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(GateFailed, match="run-0 has no network interface 'bond0'; it has eth0, eth1"):
        text("run-0", facts(interfaces=("eth0", "eth1", "lo")), "bond0")


def test_loopback_alone_is_refused() -> None:
    with pytest.raises(GateFailed, match="it has only the loopback"):
        text("run-0", facts(interfaces=("lo",)), "")
