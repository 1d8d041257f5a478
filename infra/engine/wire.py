"""Pulumi's provider protocol over gRPC for one resource kind. Blocking calls are fine: each has a thread of its own.

On the wire protocol and not on `pulumi.provider.experimental`: that one runs every call in one event loop, has no
partial create, and answers an error with a traceback.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

import grpc
from google.protobuf import empty_pb2, json_format, struct_pb2
from pulumi.runtime import rpc
from pulumi.runtime.proto import ResourceProviderServicer, plugin_pb2, provider_pb2, status_pb2

from spec.errors import MegatokError

VERSION = "0.1.0"
UNKNOWN: str = rpc.UNKNOWN
"""Stands for a value that only a real create can tell."""

Values = Mapping[str, Any]
"""JSON values by property name."""


@dataclass(frozen=True)
class Difference:
    """What a resource that exists would need: `replaces` names properties that need a new one, `updates` the others."""

    replaces: tuple[str, ...] = ()
    updates: tuple[str, ...] = ()


class PartialCreate(Exception):
    """The create failed, and something may exist under `id`: the engine keeps it, and its next destroy deletes it."""

    def __init__(self, id: str, state: Values, reason: MegatokError) -> None:
        super().__init__(str(reason))
        self.id = id
        self.state = state
        self.reason = reason


@dataclass(frozen=True)
class Checked:
    inputs: Values
    failures: Mapping[str, str] = field(default_factory=dict)
    """Property -> what is wrong with it."""


class Kind(Protocol):
    """A resource kind. Errors are classes of `spec.errors`, or PartialCreate from `create`."""

    def check(self, inputs: Values) -> Checked: ...

    def diff(self, state: Values, old: Values, new: Values) -> Difference: ...

    def create(self, inputs: Values, preview: bool) -> tuple[str, Values]: ...

    def read(self, id: str, state: Values, inputs: Values) -> Values | None:
        """The state now; None where it is gone."""

    def update(self, id: str, state: Values, inputs: Values, preview: bool) -> Values: ...

    def delete(self, id: str, state: Values, inputs: Values) -> None: ...

    def cancel(self) -> None:
        """Begin nothing new; calls in flight go on."""


class Servicer(ResourceProviderServicer):
    """Translates; decides nothing."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    def Handshake(self, request: Any, context: grpc.ServicerContext) -> Any:
        return provider_pb2.ProviderHandshakeResponse()

    def Attach(self, request: Any, context: grpc.ServicerContext) -> Any:
        return empty_pb2.Empty()

    def GetPluginInfo(self, request: Any, context: grpc.ServicerContext) -> Any:
        return plugin_pb2.PluginInfo(version=VERSION)

    def GetSchema(self, request: Any, context: grpc.ServicerContext) -> Any:
        return provider_pb2.GetSchemaResponse(schema=json.dumps({"name": "megatok", "version": VERSION}))

    def CheckConfig(self, request: Any, context: grpc.ServicerContext) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: Any, context: grpc.ServicerContext) -> Any:
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    def Configure(self, request: Any, context: grpc.ServicerContext) -> Any:
        return provider_pb2.ConfigureResponse(supportsPreview=True)

    def Check(self, request: Any, context: grpc.ServicerContext) -> Any:
        checked = _answer(context, self._kind.check, values(request.news))
        failures = [provider_pb2.CheckFailure(property=name, reason=why) for name, why in checked.failures.items()]
        return provider_pb2.CheckResponse(inputs=struct(checked.inputs), failures=failures)

    def Diff(self, request: Any, context: grpc.ServicerContext) -> Any:
        sides = values(request.olds), values(request.old_inputs), values(request.news)
        return _difference(_answer(context, self._kind.diff, *sides))

    def Create(self, request: Any, context: grpc.ServicerContext) -> Any:
        try:
            made, state = _answer(context, self._kind.create, values(request.properties), request.preview)
        except PartialCreate as partial:
            _abort_partly(context, partial, request.properties)
        return provider_pb2.CreateResponse(id=made, properties=struct(state))

    def Read(self, request: Any, context: grpc.ServicerContext) -> Any:
        state = _answer(context, self._kind.read, request.id, values(request.properties), values(request.inputs))
        if state is None:
            return provider_pb2.ReadResponse()
        return provider_pb2.ReadResponse(id=request.id, properties=struct(state), inputs=request.inputs)

    def Update(self, request: Any, context: grpc.ServicerContext) -> Any:
        sides = values(request.olds), values(request.news)
        return provider_pb2.UpdateResponse(
            properties=struct(_answer(context, self._kind.update, request.id, *sides, request.preview))
        )

    def Delete(self, request: Any, context: grpc.ServicerContext) -> Any:
        _answer(context, self._kind.delete, request.id, values(request.properties), values(request.old_inputs))
        return empty_pb2.Empty()

    def Cancel(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._kind.cancel()
        return empty_pb2.Empty()


def values(message: struct_pb2.Struct) -> dict[str, Any]:
    """A protobuf struct knows only floats: what is whole was an int."""
    return {name: _whole(value) for name, value in json_format.MessageToDict(message).items()}


def struct(state: Values) -> struct_pb2.Struct:
    message = struct_pb2.Struct()
    message.update(dict(state))
    return message


def _whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return {name: _whole(item) for name, item in value.items()} if isinstance(value, dict) else value


def _answer(context: grpc.ServicerContext, call: Any, *arguments: Any) -> Any:
    """An error crosses to the user, and to `infra.stack`, as one line that begins with its class."""
    try:
        return call(*arguments)
    except MegatokError as error:
        context.abort(grpc.StatusCode.UNKNOWN, line(error))


def line(error: MegatokError) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _abort_partly(context: grpc.ServicerContext, partial: PartialCreate, inputs: struct_pb2.Struct) -> NoReturn:
    reason = line(partial.reason)
    detail = provider_pb2.ErrorResourceInitFailed(
        id=partial.id, properties=struct(partial.state), reasons=[reason], inputs=inputs
    )
    status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=reason)
    status.details.add().Pack(detail)
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(grpc.StatusCode.UNKNOWN, reason)
    raise AssertionError("abort raises")


def _difference(found: Difference) -> Any:
    response, change = provider_pb2.DiffResponse, provider_pb2.PropertyDiff
    changed = {name: change(kind=change.UPDATE_REPLACE, inputDiff=True) for name in found.replaces}
    changed |= {name: change(kind=change.UPDATE, inputDiff=True) for name in found.updates}
    return response(
        changes=response.DIFF_SOME if changed else response.DIFF_NONE,
        replaces=found.replaces,
        diffs=list(changed),
        detailedDiff=changed,
        hasDetailedDiff=True,
        # The same group under the same name: the old machine must be gone and settled before a new one is reserved.
        deleteBeforeReplace=bool(found.replaces),
    )
