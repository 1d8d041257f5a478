"""The plug-in as the engine meets it: over gRPC, with the messages that the engine sends."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc, status_pb2

from infra.clouds import CLOUDS
from infra.engine.wire import Servicer, struct, values
from infra.provider.group import NodeGroups
from spec.errors import NoCapacity, Unanswered
from spec.home import ledger_address
from tests.infra import memory_cloud
from tests.infra.memory_cloud import MemoryCloud

INPUTS = {
    "run": "r",
    "index": 0,
    "count": 1,
    "cloud": "memory",
    "node_type": "b300x8",
    "lifetime_s": 600,
    "budget_usd": "1",
    "public_key": "ssh-ed25519 AAAA",
    "key_file": "/key",
}


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> MemoryCloud:
    fresh = MemoryCloud()
    monkeypatch.setitem(CLOUDS, "memory", "tests.infra.memory_cloud")
    monkeypatch.setattr(memory_cloud, "CLOUD", fresh)
    return fresh


@pytest.fixture
def plugin(cloud: MemoryCloud) -> Iterator[Any]:
    server = grpc.server(ThreadPoolExecutor(8))
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(Servicer(NodeGroups()), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield provider_pb2_grpc.ResourceProviderStub(channel)
    server.stop(0)


def checked(plugin: Any, **changes: Any) -> struct_pb2.Struct:
    wanted = struct({**INPUTS, "ledger": ledger_address(), **changes})
    answer = plugin.Check(provider_pb2.CheckRequest(news=wanted))
    assert not answer.failures
    inputs: struct_pb2.Struct = answer.inputs
    return inputs


def test_a_group_lives_and_ends(plugin: Any, cloud: MemoryCloud) -> None:
    news = checked(plugin)
    made = plugin.Create(provider_pb2.CreateRequest(properties=news))
    state = values(made.properties)
    assert (made.id, state["nodes"][0]["ssh_port"]) == ("r-0-a1", 22)

    same = plugin.Diff(provider_pb2.DiffRequest(id=made.id, olds=made.properties, old_inputs=news, news=news))
    assert same.changes == provider_pb2.DiffResponse.DIFF_NONE

    read = plugin.Read(provider_pb2.ReadRequest(id=made.id, properties=made.properties, inputs=news))
    assert (read.id, values(read.properties)) == (made.id, state)

    plugin.Delete(provider_pb2.DeleteRequest(id=made.id, properties=made.properties, old_inputs=news))
    assert not cloud.inventory()
    gone = plugin.Read(provider_pb2.ReadRequest(id=made.id, properties=made.properties, inputs=news))
    assert gone.id == ""


def test_another_node_type_replaces_delete_first(plugin: Any) -> None:
    news = checked(plugin)
    made = plugin.Create(provider_pb2.CreateRequest(properties=news))
    other = checked(plugin, node_type="b200x8")
    answer = plugin.Diff(provider_pb2.DiffRequest(olds=made.properties, old_inputs=news, news=other))
    assert (list(answer.replaces), answer.deleteBeforeReplace) == (["node_type"], True)


def test_bad_inputs_are_failures_of_their_property(plugin: Any) -> None:
    answer = plugin.Check(
        provider_pb2.CheckRequest(news=struct({**INPUTS, "ledger": ledger_address(), "cloud": "mars"}))
    )
    assert [(failure.property, "unknown cloud" in failure.reason) for failure in answer.failures] == [("cloud", True)]


def test_an_error_is_one_line_with_its_class(plugin: Any, cloud: MemoryCloud) -> None:
    def full(_: Any) -> None:
        raise NoCapacity("full,\n  try later")

    cloud.before = full
    with pytest.raises(grpc.RpcError) as caught:
        plugin.Create(provider_pb2.CreateRequest(properties=checked(plugin)))
    assert caught.value.details().startswith("NoCapacity: no place for 1 x b300x8 on memory: near: full, try later")


def test_an_unknown_outcome_reaches_the_engine_with_its_id(plugin: Any, cloud: MemoryCloud) -> None:
    def lost(_: Any) -> None:
        cloud.dumb = Unanswered("nobody answers")
        cloud.dumb.retryable = False
        raise Unanswered("lost")

    cloud.after = lost
    with pytest.raises(grpc.RpcError) as caught:
        plugin.Create(provider_pb2.CreateRequest(properties=checked(plugin)))
    status = status_pb2.Status()
    status.ParseFromString(dict(caught.value.trailing_metadata())["grpc-status-details-bin"])
    failed = provider_pb2.ErrorResourceInitFailed()
    assert status.details[0].Unpack(failed)
    assert (failed.id, list(failed.reasons)) == ("r-0-a1", ["Unanswered: nobody answers"])
    assert values(failed.properties)["nodes"] == []


def test_many_creates_wait_at_once(plugin: Any, cloud: MemoryCloud) -> None:
    """Eight creates meet at a barrier: one that waited for another would never come."""
    barrier = threading.Barrier(8, timeout=20)
    cloud.before = lambda _: none(barrier.wait())
    news = [checked(plugin, index=index, budget_usd="9") for index in range(8)]
    calls = [plugin.Create.future(provider_pb2.CreateRequest(properties=one)) for one in news]
    assert {call.result().id for call in calls} == {f"r-{n}-a1" for n in range(8)}


def none(_: object) -> None:
    """For a lambda that is only called."""


def test_a_cancel_stops_what_has_not_begun(plugin: Any, cloud: MemoryCloud) -> None:
    news = checked(plugin)
    plugin.Cancel(empty_pb2.Empty())
    with pytest.raises(grpc.RpcError, match="Interrupted: "):
        plugin.Create(provider_pb2.CreateRequest(properties=news))
    assert not cloud.created


def test_numbers_cross_as_they_were() -> None:
    state = {"whole": 3, "part": 0.5, "text": "0.10", "none": None, "list": [1, {"x": 2}], "yes": True}
    assert json.dumps(values(struct(state)), sort_keys=True) == json.dumps(state, sort_keys=True)
