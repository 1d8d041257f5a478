"""The cloud's HTTP face: JSON on loopback, one thread a call, a bearer token on each."""

from __future__ import annotations

import hmac
import json
import logging
import re
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from localcloud import calls
from localcloud.calls import ROUTES, Service
from localcloud.refusal import Garbled, Lost, Refusal

TICK_S = 0.05
log = logging.getLogger(__name__)


class Handler(BaseHTTPRequestHandler):
    """One call. HTTP/1.0: the connection ends with it, so that no idle one holds a thread."""

    server: Server

    def do_GET(self) -> None:
        with self.server.busy():
            self._answer()

    do_POST = do_DELETE = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        log.info(format, *args)

    def _answer(self) -> None:
        subject: dict[str, str] = {}
        try:
            status, payload = self._call(subject)
            answer = json.dumps(payload).encode()
        except Refusal as refusal:
            status, answer = refusal.status, json.dumps({"error": refusal.code, "message": str(refusal)}).encode()
        except Lost as lost:
            time.sleep(lost.after_s)
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        except Garbled:
            status, answer = 200, b"<html>\x00\xff half an ans"
        self._send(status, answer)
        if subject:
            self.server.service.faults.hold("answered", subject)

    def _call(self, subject: dict[str, str]) -> Any:
        """Status and JSON of the answer. `subject` gets what faults know the call by: nothing of a call to faults."""
        service = self.server.service
        if not hmac.compare_digest(self.headers.get("Authorization", ""), f"Bearer {service.token}"):
            raise Refusal("denied", "the Authorization header lacks this cloud's token")
        log.info("%s %s", self.command, self.path)
        url = urlsplit(self.path)
        query = {key: values[-1] for key, values in parse_qs(url.query).items()}
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            body = json.loads(raw) if raw else None
        except ValueError:
            raise Refusal("bad_request", "the body is not JSON") from None
        for method, path, name, call in ROUTES:
            found = re.fullmatch(path, url.path)
            if found and method == self.command:
                if name:
                    subject |= calls.subject(service, name, query, body, *found.groups())
                return calls.carry_out(service, subject, call, query, body, *found.groups())
        raise Refusal("not_found", f"no call {self.command} {url.path}")

    def _send(self, status: int, payload: bytes) -> None:
        head = f"HTTP/1.0 {status} -\r\nContent-Type: application/json\r\nContent-Length: {len(payload)}\r\n\r\n"
        try:
            self.wfile.write(head.encode() + payload)
        except ConnectionError:
            log.info("the caller of %s %s was gone before its answer", self.command, self.path)


class Server(ThreadingHTTPServer):
    """Ends by itself once nothing is up and nobody has called for `idle_s`."""

    request_queue_size = 512
    daemon_threads = True

    def __init__(self, service: Service, idle_s: float) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.service = service
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._calls = 0
        self._called_at = time.monotonic()

    def busy(self) -> Busy:
        return Busy(self)

    def count(self, change: int) -> None:
        with self._lock:
            self._calls += change
            self._called_at = time.monotonic()

    def idle(self) -> bool:
        with self._lock:
            still = self._calls == 0 and time.monotonic() - self._called_at >= self._idle_s
        return still and not (self.service.fleet.living() or self.service.fleet.extras.living())

    def serve(self) -> None:
        """Answer calls and tend the nodes until idle."""
        threading.Thread(target=self.serve_forever, args=(TICK_S,), daemon=True).start()
        while not self.idle():
            self.service.fleet.tend()
            time.sleep(TICK_S)
        self.shutdown()
        self.server_close()


class Busy:
    """A call in progress: keeps the server from ending."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def __enter__(self) -> None:
        self._server.count(+1)

    def __exit__(self, *_: object) -> None:
        self._server.count(-1)
