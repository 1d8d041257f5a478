"""Gates: what a node must have, and that not applicable comes from the plan alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playbooks.gates import DISK_MIB, GATES, SKEW_S, STAND_IN_MIB, gates
from spec import load
from spec.facts import Facts, GpuSeen
from spec.home import ROOT
from spec.recipe import Cluster
from tests.playbooks.conftest import node
from tests.playbooks.servers import facts

CPU = load.cluster(ROOT / "recipes" / "clusters" / "local-2.yaml")
GPU = CPU.model_copy(update={"stand_in": None, "gpu": "b200", "gpus_per_node": 8})
NODE = node("run-0", 22, "key", "ssh-ed25519 AAAA")


def seen(count: int, name: str = "NVIDIA B200") -> tuple[GpuSeen, ...]:
    return tuple(GpuSeen(name=name, memory_mib=183000, driver="580.1") for _ in range(count))


def outcomes(found: Facts, cluster: Cluster = CPU) -> dict[str, str]:
    return {c.name.removeprefix("run-0 "): c.outcome for c in gates([NODE], {"run-0": found}, cluster)}


def test_a_plain_node_is_fit_to_stand_in() -> None:
    assert outcomes(facts()) == {
        **dict.fromkeys(("python", "clock", "memory", "disk", "ports"), "pass"),
        **dict.fromkeys(("GPU count", "GPU kind"), "not applicable"),
    }


@pytest.mark.parametrize(
    ("gate", "change"),
    [
        ("python", {"python": "3.10.12"}),
        ("python", {"venv": False}),
        ("clock", {"clock_skew_s": -SKEW_S - 0.1}),
        ("memory", {"memory_free_mib": 2 * STAND_IN_MIB - 1}),
        ("disk", {"cache_free_mib": DISK_MIB - 1}),
        ("ports", {"ports_taken": (40003,)}),
    ],
)
def test_what_is_missing_fails_its_gate_alone(gate: str, change: dict[str, object]) -> None:
    assert [name for name, outcome in outcomes(facts(**change)).items() if outcome == "fail"] == [gate]


@given(st.integers(0, 9), st.sampled_from(["NVIDIA B200", "NVIDIA H100"]))
def test_gpu_gates_are_not_applicable_by_plan_whatever_is_seen(count: int, name: str) -> None:
    found = outcomes(facts(gpus=seen(count, name)))
    assert (found["GPU count"], found["GPU kind"]) == ("not applicable", "not applicable")


@given(st.integers(0, 9))
def test_without_stand_in_each_gpu_that_is_not_seen_is_a_failure(count: int) -> None:
    found = outcomes(facts(gpus=seen(count), memory_free_mib=2_000_000), GPU)
    assert found["GPU count"] == ("pass" if count == 8 else "fail")


def test_another_kind_of_gpu_fails() -> None:
    assert outcomes(facts(gpus=seen(8, "NVIDIA H100")), GPU)["GPU kind"] == "fail"


def test_a_node_that_was_not_looked_at_is_unknown() -> None:
    found = gates([NODE], {}, CPU)
    assert {check.outcome for check in found} == {"unknown"}
    assert len(found) == len(GATES)
