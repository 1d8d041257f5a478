"""Runs a provider plug-in under the engine: its port on standard output, its end when the engine ends."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

import grpc
from pulumi.runtime._grpc_settings import _GRPC_CHANNEL_OPTIONS
from pulumi.runtime.proto import provider_pb2_grpc

from infra.engine.wire import Kind, Servicer

CALLS = 256
"""Calls at once: each one may wait minutes for a cloud."""
LOOK_S = 0.1


class Flights(grpc.ServerInterceptor):  # type: ignore[misc]
    """Counts calls in flight, so that an end can wait for them: what a create has made must still reach the ledger."""

    def __init__(self) -> None:
        self._count = 0
        self._none = threading.Condition()

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        handler = continuation(details)
        if handler is None or handler.unary_unary is None:
            return handler
        return grpc.unary_unary_rpc_method_handler(
            self._counted(handler.unary_unary), handler.request_deserializer, handler.response_serializer
        )

    def wait(self) -> None:
        with self._none:
            self._none.wait_for(lambda: self._count == 0)

    def _counted(self, call: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def counted(request: Any, context: Any) -> Any:
            with self._none:
                self._count += 1
            try:
                return call(request, context)
            finally:
                with self._none:
                    self._count -= 1
                    self._none.notify_all()

        return counted


def serve(kind: Kind) -> None:
    """Serve until a signal, or until the parent, the engine, is gone. Then nothing new, and what is in flight ends."""
    engine = os.getppid()
    over = threading.Event()
    flights = Flights()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _setter(over))
    server = grpc.server(ThreadPoolExecutor(CALLS), interceptors=(flights,), options=_GRPC_CHANNEL_OPTIONS)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(Servicer(kind), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    while os.getppid() == engine and not over.wait(LOOK_S):
        pass
    kind.cancel()
    flights.wait()
    os._exit(0)  # without waiting for gRPC's own threads


def _setter(event: threading.Event) -> Callable[[int, FrameType | None], None]:
    def handle(_number: int, _frame: FrameType | None) -> None:
        event.set()

    return handle
