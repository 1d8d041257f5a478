"""A server that behaves on the wire as llama.cpp does: it announces to keep a connection, streams, then closes it."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from typing import Self

HEAD = (
    b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=5, max=100\r\nContent-Type: text/event-stream\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)


@dataclass
class FakeLlama:
    """`gap_s` lies between its events; `mute` closes a request's connection without any answer."""

    gap_s: float = 0.01
    mute: bool = False
    port: int = 0
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Request line and headers, as they came."""

    def __enter__(self) -> Self:
        self._ready, self._loop = threading.Event(), asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        assert self._ready.wait(5)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._answer, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.01))
        self._loop.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line, headers = await _request(reader)
            self.requests.append((line, headers))
            if line.startswith("GET"):
                writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{"status":"ok"}')
            elif not self.mute:
                await self._stream(writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # a probe that only connects
        finally:
            writer.close()

    async def _stream(self, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        for index in range(3):
            event = b'data: {"token": %d}\n\n' % index
            writer.write(b"%x\r\n%s\r\n" % (len(event), event))
            await writer.drain()
            await asyncio.sleep(self.gap_s)
        writer.write(b"0\r\n\r\n")


async def _request(reader: asyncio.StreamReader) -> tuple[str, dict[str, str]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    line, *rest = head.strip().split("\r\n")
    headers = {name.lower(): value for name, value in (item.split(": ", 1) for item in rest)}
    await reader.readexactly(int(headers.get("content-length", 0)))
    return line, headers
