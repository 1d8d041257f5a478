"""Private names of Pulumi's SDK on which infra/engine/ stands. A new SDK that lacks one fails here, by its name."""

from __future__ import annotations

import inspect
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

from spec.home import ROOT

PINNED = "3.272.0"
NAMES = (
    "pulumi.automation._cmd:OnOutput",
    "pulumi.automation._local_workspace:LocalWorkspace._run_pulumi_cmd_sync",
    "pulumi.automation._server:LanguageServer.Run",
    "pulumi.automation._server:LanguageServer.GetPluginInfo",
    "pulumi.automation.errors:create_command_error",
    "pulumi.runtime._grpc_settings:_GRPC_CHANNEL_OPTIONS",
    "pulumi.runtime.proto.language_pb2:LanguageHandshakeResponse",
    "pulumi.runtime.proto.language_pb2_grpc:add_LanguageRuntimeServicer_to_server",
    "pulumi.runtime.proto.provider_pb2:ErrorResourceInitFailed",
    "pulumi.runtime.proto.provider_pb2_grpc:add_ResourceProviderServicer_to_server",
    "pulumi.runtime.proto.status_pb2:Status",
    "pulumi.runtime.proto:ResourceProviderServicer",
    "pulumi.runtime.rpc:UNKNOWN",
)
PARAMETERS = {
    "pulumi.automation._cmd:PulumiCommand.run": "self args cwd additional_env on_output on_error",
    "pulumi.automation._local_workspace:LocalWorkspace.create_stack": "self stack_name",
    "pulumi.automation._local_workspace:LocalWorkspace.select_stack": "self stack_name",
    "pulumi.automation._local_workspace:LocalWorkspace.stack_outputs": "self stack_name",
}
"""What we override, with the parameters that the SDK passes."""


def found(name: str) -> object:
    module, _, path = name.partition(":")
    thing: object = import_module(module)
    for part in path.split("."):
        thing = getattr(thing, part)
    return thing


def test_the_sdk_is_the_one_that_this_was_written_for() -> None:
    assert version("pulumi") == PINNED, (
        f"Pulumi's SDK changed: read infra/engine/ against it, then pin it in {__name__}"
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_private_name_is_there(name: str) -> None:
    assert found(name) is not None


@pytest.mark.parametrize("name", PARAMETERS)
def test_what_is_overridden_has_these_parameters(name: str) -> None:
    parameters = inspect.signature(found(name)).parameters  # type: ignore[arg-type]
    assert " ".join(parameters) == PARAMETERS[name]


def test_private_pulumi_is_used_in_infra_engine_only() -> None:
    files = [path for path in (ROOT / "infra").rglob("*.py") if "engine" not in path.relative_to(ROOT).parts]
    assert not [path for path in files if _uses_private(path)]


def _uses_private(path: Path) -> bool:
    return any(word in path.read_text() for word in ("pulumi.automation._", "pulumi.runtime", "grpc"))
