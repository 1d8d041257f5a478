"""The language host: the program runs in its process, as the Automation API runs inline programs."""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from pulumi.automation._server import LanguageServer
from pulumi.runtime._grpc_settings import _GRPC_CHANNEL_OPTIONS
from pulumi.runtime.proto import language_pb2, language_pb2_grpc

CALLS = 4
"""Only `Run` takes long."""


class Host(LanguageServer):
    """Runs the program that `request` names."""

    def __init__(self, engine: str) -> None:
        super().__init__(self._program)
        self._engine = engine
        self._folder = "."

    def Handshake(self, request: Any, context: grpc.ServicerContext) -> Any:
        return language_pb2.LanguageHandshakeResponse()

    def Run(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._folder = request.info.program_directory
        request.args[:] = [self._engine]  # where the inherited Run looks for it
        return super().Run(request, context)  # type: ignore[no-untyped-call]

    def _program(self) -> None:
        os.chdir(self._folder)
        sys.path.insert(0, self._folder)
        runpy.run_path("__main__.py", run_name="__main__")


def main() -> None:
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    engine = next(argument for argument in reversed(sys.argv[1:]) if not argument.startswith("-"))
    parent = os.getppid()
    server = grpc.server(ThreadPoolExecutor(CALLS), options=_GRPC_CHANNEL_OPTIONS)
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(Host(engine), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    while os.getppid() == parent and not over.wait(0.1):
        pass
    os._exit(0)  # without waiting for gRPC's own threads
