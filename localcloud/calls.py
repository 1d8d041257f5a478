"""What the calls do. Each takes service, query, body and the parts of its path, and answers status and JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from localcloud import meter, prices
from localcloud.extras import Extra
from localcloud.faults import Faults, rule
from localcloud.fleet import Fleet, Order
from localcloud.offers import REGIONS
from localcloud.refusal import Garbled, Lost, Refusal
from localcloud.supervisor import now_s
from localcloud.thing import Thing, matches, stamp

Query = Mapping[str, str]
TIMES = {"now", "as_of", "created_at", "started_at", "ended_at", "expires_at"}


@dataclass(frozen=True)
class Service:
    """One cloud: who may call, what goes wrong, and what there is."""

    token: str
    account: str
    faults: Faults
    fleet: Fleet
    meter: Path

    def known(self, id: str) -> Thing | None:
        """A machine, a disk or an address."""
        return next((each for each in (*self.fleet.all(), *self.fleet.extras.all()) if each.id == id), None)

    def thing(self, id: str) -> Thing:
        return self.known(id) or self.fleet.read(id)  # which says what it does not know


def offers(service: Service, query: Query, body: Any) -> Any:
    return 200, prices.shown(service.faults, query.get("node_type", ""))


def create(service: Service, query: Query, body: Any) -> Any:
    order = ordered(body)
    subject = order.subject(order.names[0])
    if service.faults.strike("no_capacity", **subject):
        raise Refusal("no_capacity", f"no {order.node_type} is left in {order.region}")
    if service.faults.strike("quota", **subject):
        raise Refusal("quota_exceeded", f"this account may not have more {order.node_type}")
    group = service.fleet.create(order)
    service.faults.hold("made", subject)
    if lost := service.faults.strike("create_timeout", **subject):
        raise Lost(lost.seconds)
    if service.faults.strike("create_garbage", **subject):
        raise Garbled
    return 200, [node.shown() for node in group]


def nodes(service: Service, query: Query, body: Any) -> Any:
    return 200, listed(service.fleet.all(), query)


def resources(service: Service, query: Query, body: Any) -> Any:
    return 200, listed([*service.fleet.all(), *service.fleet.extras.all()], query)


def read(service: Service, query: Query, body: Any, id: str) -> Any:
    return 200, service.thing(id).shown()


def delete(service: Service, query: Query, body: Any, id: str) -> Any:
    thing = service.thing(id)
    subject = thing.subject()
    if service.faults.strike("delete_refused", **subject):
        raise Refusal("in_use", f"{thing.kind} {id} is in use")
    if isinstance(thing, Extra) and not service.fleet.gone(thing.node):
        raise Refusal("in_use", f"{thing.kind} {id} is in use by node {thing.node}")
    if thing.kind == "disk" and service.faults.strike("disk_stuck", **subject):
        raise Refusal("in_use", f"disk {id} is still being detached")
    if service.faults.strike("delete_lost", **subject):
        return 202, {}
    if isinstance(thing, Extra):
        service.fleet.extras.end(thing, now_s(), "deleted")
    else:
        service.fleet.end(id)
    return 202, {}


def expiry(service: Service, query: Query, body: Any, id: str) -> Any:
    try:
        expires_at = datetime.fromisoformat(body["expires_at"]).timestamp() - skew_s(service)
        tags = {str(key): str(value) for key, value in body.get("tags", {}).items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Refusal("bad_request", f"expires_at must be a time with its zone; got {body!r}") from None
    return 200, service.fleet.extend(id, expires_at, tags).shown()


def bill(service: Service, query: Query, body: Any) -> Any:
    return 200, meter.bill(service.meter, tags(query))


def clock(service: Service, query: Query, body: Any) -> Any:
    return 200, {"now": stamp(now_s())}


def account(service: Service, query: Query, body: Any) -> Any:
    return 200, {"account": service.account, "regions": REGIONS}


def list_faults(service: Service, query: Query, body: Any) -> Any:
    return 200, service.faults.listed()


def add_fault(service: Service, query: Query, body: Any) -> Any:
    service.faults.add(rule(body))
    return 200, service.faults.listed()


def clear_faults(service: Service, query: Query, body: Any, id: str | None = None) -> Any:
    service.faults.clear(id)
    return 200, service.faults.listed()


Call = Callable[..., Any]
THING = r"/v1/(?:nodes|resources)/([\w-]+)"
ROUTES: tuple[tuple[str, str, str, Call], ...] = (
    ("GET", r"/v1/offers", "offers", offers),
    ("POST", r"/v1/nodes", "create", create),
    ("GET", r"/v1/nodes", "list", nodes),
    ("GET", r"/v1/resources", "list", resources),
    ("GET", THING, "read", read),
    ("DELETE", THING, "delete", delete),
    ("POST", r"/v1/nodes/([\w-]+)/expiry", "expiry", expiry),
    ("GET", r"/v1/bill", "bill", bill),
    ("GET", r"/v1/clock", "clock", clock),
    ("GET", r"/v1/account", "account", account),
    ("GET", r"/v1/faults", "", list_faults),
    ("POST", r"/v1/faults", "", add_fault),
    ("DELETE", r"/v1/faults", "", clear_faults),
    ("DELETE", r"/v1/faults/([\w-]+)", "", clear_faults),
)


def carry_out(service: Service, subject: Mapping[str, str], call: Call, *parts: Any) -> Any:
    """What `call` answers; on the way, faults of any call may strike. A call to faults has no subject, so none do."""
    if not subject:
        return call(service, *parts)
    if service.faults.strike("unreachable", **subject):
        raise Lost(0.0)
    if service.faults.strike("throttled", **subject):
        raise Refusal("throttled", "too many calls; wait and ask again")
    if call is not create:  # which comes to its points in its own time
        service.faults.hold("accepted", subject)
    status, answer = call(service, *parts)
    if call is not create:
        service.faults.hold("made", subject)
    return status, shifted(answer, skew_s(service))


def subject(service: Service, call: str, query: Query, body: Any, id: str = "") -> dict[str, str]:
    """What a fault's `match` is held against."""
    if call == "create":
        order = ordered(body)
        return order.subject(order.names[0])
    found = service.known(id)
    asked = {"id": id, "token": query.get("token", ""), "node_type": query.get("node_type", "")}
    return {"call": call} | asked | (found.subject() if found else {})


def skew_s(service: Service) -> float:
    """How far the clock that this cloud shows is off."""
    found = service.faults.force("clock_skew")
    return found.seconds if found else 0.0


def shifted(answer: Any, by_s: float) -> Any:
    """`answer` with every time in it moved."""
    if isinstance(answer, list):
        return [shifted(each, by_s) for each in answer]
    if not isinstance(answer, dict) or not by_s:
        return answer
    return {key: moved(value, by_s) if key in TIMES else shifted(value, by_s) for key, value in answer.items()}


def moved(at: str | None, by_s: float) -> str | None:
    return at and (datetime.fromisoformat(at) + timedelta(seconds=by_s)).isoformat()


def ordered(body: Any) -> Order:
    """A create call's body, checked."""
    try:
        order = Order(**{**body, "names": tuple(body["names"]), "lifetime_s": float(body["lifetime_s"])})
        Decimal(order.max_usd_per_hour)
    except (KeyError, TypeError, ValueError, InvalidOperation):
        raise Refusal("bad_request", f"{body!r} is no order for nodes") from None
    if not order.names or not order.token or order.lifetime_s <= 0:
        raise Refusal("bad_request", "an order needs a token, at least one name, and lifetime_s above 0")
    return order


def tags(query: Query) -> dict[str, str | None]:
    """`tag=K=V` asks for a value, `tag=K` for any."""
    if "tag" not in query:
        return {}
    key, equals, value = query["tag"].partition("=")
    return {key: value if equals else None}


def listed(things: list[Any], query: Query) -> list[dict[str, Any]]:
    """What is not gone, with the token and tags asked for, as far as a listing shows it now."""
    token, wanted, now = query.get("token", ""), tags(query), now_s()
    found = [each for each in things if token in ("", each.token) and matches(each.tags, wanted)]
    return [seen for each in found if (seen := each.listed_at(now))]
