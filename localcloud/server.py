"""The cloud's HTTP face: JSON on loopback, one thread a call, a bearer token on each."""

from __future__ import annotations

import hmac
import json
import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from localcloud import meter
from localcloud.faults import Faults, rule
from localcloud.fleet import Fleet, Order
from localcloud.offers import OFFERS
from localcloud.refusal import Garbled, Lost, Refusal

TICK_S = 0.05
log = logging.getLogger(__name__)


class Service:
    """What the calls do. Each takes the parts of its path, the query and the body, and answers a status and JSON."""

    def __init__(self, home: Path, token: str) -> None:
        self.token = token
        self.faults = Faults(home / "faults.json")
        self.fleet = Fleet(home, self.faults)
        self._meter = home / "meter.jsonl"

    def offers(self, query: Mapping[str, str], body: Any) -> Any:
        now = datetime.now(UTC).isoformat()
        wanted = query.get("node_type", "")
        return 200, [
            {
                "region": each.region,
                "node_type": each.node_type,
                "gpu": each.gpu,
                "gpus": each.gpus,
                "usd_per_hour": str(each.usd_per_hour),
                "as_of": now,
                "capacity": each.capacity,
            }
            for each in OFFERS
            if wanted in ("", each.node_type)
        ]

    def create(self, query: Mapping[str, str], body: Any) -> Any:
        order = ordered(body)
        subject = order.subject(order.names[0])
        if self.faults.strike("no_capacity", **subject):
            raise Refusal("no_capacity", f"no {order.node_type} is left in {order.region}")
        if self.faults.strike("quota", **subject):
            raise Refusal("quota_exceeded", f"this account may not have more {order.node_type}")
        group = self.fleet.create(order)
        self.faults.hold("made", {"call": "create"} | subject)
        made = [node.shown() for node in group]
        if lost := self.faults.strike("create_timeout", **subject):
            raise Lost(lost.seconds)
        if self.faults.strike("create_garbage", **subject):
            raise Garbled
        return 200, made

    def listing(self, query: Mapping[str, str], body: Any) -> Any:
        return 200, self.fleet.listing(query.get("token", ""), tags(query))

    def read(self, query: Mapping[str, str], body: Any, id: str) -> Any:
        return 200, self.fleet.read(id).shown()

    def delete(self, query: Mapping[str, str], body: Any, id: str) -> Any:
        self.fleet.read(id)
        if self.faults.strike("delete_refused", **self.fleet.subject(id)):
            raise Refusal("in_use", f"node {id} is in use")
        self.fleet.end(id)
        return 202, {}

    def expiry(self, query: Mapping[str, str], body: Any, id: str) -> Any:
        try:
            expires_at = datetime.fromisoformat(body["expires_at"]).timestamp()
        except (KeyError, TypeError, ValueError):
            raise Refusal("bad_request", f"expires_at must be a time with its zone; got {body!r}") from None
        return 200, self.fleet.extend(id, expires_at).shown()

    def bill(self, query: Mapping[str, str], body: Any) -> Any:
        return 200, meter.bill(self._meter, tags(query))

    def list_faults(self, query: Mapping[str, str], body: Any) -> Any:
        return 200, self.faults.listed()

    def add_fault(self, query: Mapping[str, str], body: Any) -> Any:
        self.faults.add(rule(body))
        return 200, self.faults.listed()

    def clear_faults(self, query: Mapping[str, str], body: Any, id: str | None = None) -> Any:
        self.faults.clear(id)
        return 200, self.faults.listed()

    def carry_out(self, subject: Mapping[str, str], call: Callable[..., Any], *parts: Any) -> Any:
        """What `call` answers; on the way, faults of any call may strike."""
        if not subject:
            return call(self, *parts)
        if self.faults.strike("throttled", **subject):
            raise Refusal("throttled", "too many calls; wait and ask again")
        if subject["call"] == "create":  # comes to its points in its own time
            return call(self, *parts)
        self.faults.hold("accepted", subject)
        answer = call(self, *parts)
        self.faults.hold("made", subject)
        return answer

    def subject(self, call: str, query: Mapping[str, str], body: Any, id: str = "") -> dict[str, str]:
        """What a fault's `match` is held against."""
        if call == "create":
            order = ordered(body)
            return {"call": call} | order.subject(order.names[0])
        return {"call": call, "token": query.get("token", "")} | self.fleet.subject(id)


ROUTES: tuple[tuple[str, str, str, Callable[..., Any]], ...] = (
    ("GET", r"/v1/offers", "offers", Service.offers),
    ("POST", r"/v1/nodes", "create", Service.create),
    ("GET", r"/v1/nodes", "list", Service.listing),
    ("GET", r"/v1/nodes/([\w-]+)", "read", Service.read),
    ("DELETE", r"/v1/nodes/([\w-]+)", "delete", Service.delete),
    ("POST", r"/v1/nodes/([\w-]+)/expiry", "expiry", Service.expiry),
    ("GET", r"/v1/bill", "bill", Service.bill),
    ("GET", r"/v1/faults", "", Service.list_faults),
    ("POST", r"/v1/faults", "", Service.add_fault),
    ("DELETE", r"/v1/faults", "", Service.clear_faults),
    ("DELETE", r"/v1/faults/([\w-]+)", "", Service.clear_faults),
)


def ordered(body: Any) -> Order:
    """A create call's body, checked."""
    try:
        order = Order(**{**body, "names": tuple(body["names"]), "lifetime_s": float(body["lifetime_s"])})
    except (KeyError, TypeError, ValueError):
        raise Refusal("bad_request", f"{body!r} is no order for nodes") from None
    if not order.names or not order.token or order.lifetime_s <= 0:
        raise Refusal("bad_request", "an order needs a token, at least one name, and lifetime_s above 0")
    return order


def tags(query: Mapping[str, str]) -> dict[str, str | None]:
    """`tag=K=V` asks for a value, `tag=K` for any."""
    if "tag" not in query:
        return {}
    key, equals, value = query["tag"].partition("=")
    return {key: value if equals else None}


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
                    subject |= service.subject(name, query, body, *found.groups())
                return service.carry_out(subject, call, query, body, *found.groups())
        raise Refusal("not_found", f"no call {self.command} {url.path}")

    def _send(self, status: int, payload: bytes) -> None:
        head = f"HTTP/1.0 {status} -\r\nContent-Type: application/json\r\nContent-Length: {len(payload)}\r\n\r\n"
        try:
            self.wfile.write(head.encode() + payload)
        except ConnectionError:
            log.info("the caller of %s %s was gone before its answer", self.command, self.path)


class Server(ThreadingHTTPServer):
    """Ends by itself once no node is up and nobody has called for `idle_s`."""

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
        return still and not self.service.fleet.living()

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
