"""The local cloud: nodes on this machine, bills in play money. Client of the program `localcloud`."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from infra import guest
from infra.cloud import (
    TAG_EXPIRES,
    TAG_LEDGER,
    TAG_RUN,
    TAG_TOKEN,
    Capabilities,
    CreateRequest,
    Extra,
    Item,
    Machine,
    Offer,
    State,
    expires_tag,
)
from infra.clouds.local.program import Absent, call, empty, home, parsed
from spec.errors import CloudError, Unanswered
from spec.inventory import Ports, Switch
from spec.ledger import Resource, Scope
from spec.recipe import Cluster

CREATE_LIMIT_S = 90.0  # 64 nodes at once on two busy cores, with a cloud that needs 5 s for each

STATES: Mapping[str, State] = {
    "pending": "pending",
    "running": "running",
    "stopping": "stopping",
    "terminated": "terminated",
}


class LocalCloud:
    """See `infra.cloud.Cloud`."""

    name = "local"
    capabilities = Capabilities(
        ttl="native",
        billed=True,
        simulated=True,
        billing_step_s=1,
        consistency_s=0.2,
        create_limit_s=CREATE_LIMIT_S,
        delete_s=15.0,  # the guest's timer, then processes that end on a busy machine
        itemizes=True,
        kinds=("machine", "disk", "address"),
        guest_timer=True,
        expires_command=f"sed -n 's/^tag.{TAG_EXPIRES}=//p' \"$LOCALCLOUD_METADATA\"",
    )

    def __init__(self, create_limit_s: float = CREATE_LIMIT_S) -> None:
        self._create_limit_s = create_limit_s

    def check(self, cluster: Cluster) -> None:
        """Everything that this cloud takes is in the request."""

    def offers(self, node_type: str, regions: Sequence[str]) -> tuple[Offer, ...]:
        answer = call("GET", "/v1/offers", query={"node_type": node_type})
        found = parsed(answer, offer)
        if not regions:
            return tuple(sorted(found, key=lambda each: each.usd_per_hour or 0))
        return tuple(each for region in regions for each in found if each.region == region)

    def create(self, request: CreateRequest) -> tuple[Machine, ...]:
        body: dict[str, Any] = {
            "token": request.token,
            "names": request.names,
            "tags": {**request.tags, TAG_RUN: request.run, TAG_TOKEN: request.token},
            "region": request.offer.region,
            "node_type": request.offer.node_type,
            "public_key": request.public_key,
            "lifetime_s": request.lifetime_s,
            "user_data": request.user_data,
        }
        if request.offer.usd_per_hour is not None:
            body["max_usd_per_hour"] = str(request.offer.usd_per_hour)
        return parsed(call("POST", "/v1/nodes", body=body, limit_s=self._create_limit_s), machine)

    def find(self, token: str) -> tuple[Machine, ...]:
        if empty():
            return ()
        return parsed(call("GET", "/v1/nodes", query={"token": token}), machine)

    def read(self, resource: Resource) -> Item | None:
        if empty():
            return None
        try:
            return parsed([call("GET", f"/v1/resources/{resource.id}")], item)[0]
        except Absent:
            return None

    def delete(self, resource: Resource) -> None:
        folder = "nodes" if resource.kind == "machine" else "resources"
        if not empty():
            with contextlib.suppress(Absent):
                call("DELETE", f"/v1/{folder}/{resource.id}")

    def inventory(self, run: str | None = None) -> tuple[Item, ...]:
        if empty():
            return ()
        tag = TAG_RUN if run is None else f"{TAG_RUN}={run}"
        return parsed(call("GET", "/v1/resources", query={"tag": tag}), item)

    def extend(self, id: str, expires_at: datetime) -> datetime:
        body = {"expires_at": expires_at.isoformat(), "tags": {TAG_EXPIRES: expires_tag(expires_at)}}
        try:
            answer = call("POST", f"/v1/nodes/{id}/expiry", body=body)
        except Absent:
            raise CloudError(f"node {id} cannot live longer: it has ended") from None
        moved = parsed([answer], machine)[0].expires_at
        if moved is None:
            raise Unanswered(f"the local cloud did not say when node {id} ends now; read it again")
        return moved

    def billed_usd(self, run: str) -> Mapping[str, Decimal]:
        if empty():
            return {}
        answer = call("GET", "/v1/bill", query={"tag": f"{TAG_RUN}={run}"})
        return dict(parsed(answer["lines"], lambda line: (str(line["id"]), Decimal(line["usd"]))))

    def now(self) -> datetime:
        if empty():
            return datetime.now(UTC)  # its clock is this machine's, which `spec.clock` may be made to misread
        return parsed([call("GET", "/v1/clock")], lambda value: datetime.fromisoformat(value["now"]))[0]

    def scope(self) -> Scope:
        """A cloud that has never been started has no account yet, and nothing to look at."""
        if empty():
            return Scope(cloud=self.name, account=str(home()))
        answer = call("GET", "/v1/account")
        return parsed(
            [answer], lambda value: Scope(cloud=self.name, account=value["account"], regions=tuple(value["regions"]))
        )[0]

    def switches(self, machine: Machine) -> tuple[Switch, ...]:
        ends = machine.expires_at
        off = ends + timedelta(seconds=guest.SLACK_S) if ends and machine.guest_timer else None
        return (
            Switch(kind="native", armed=ends is not None, fires_at=ends, note="the node's own supervisor"),
            Switch(kind="guest", armed=off is not None, fires_at=off, note="a timer of its first boot powers it off"),
        )


def offer(value: Any) -> Offer:
    usd_per_hour = value["usd_per_hour"]
    return Offer(
        cloud="local",
        region=value["region"],
        node_type=value["node_type"],
        gpu=value["gpu"],
        gpus=int(value["gpus"]),
        usd_per_hour=None if usd_per_hour is None else Decimal(usd_per_hour),
        as_of=datetime.fromisoformat(value["as_of"]),
        currency=value["currency"],
        extras=tuple(Extra(each["kind"], usd_per_hour=Decimal(each["usd_per_hour"])) for each in value["extras"]),
    )


def item(value: Any) -> Item:
    return machine(value) if value["kind"] == "machine" else Item(**billed(value))


def machine(value: Any) -> Machine:
    return Machine(
        **billed(value),
        node_type=value["node_type"],
        gpus=int(value["gpus"]),
        host=value["host"],
        ssh_port=int(value["ssh_port"]),
        user=value["user"],
        host_key=value["host_key"],
        ports=Ports(first=int(value["ports"]["first"]), count=int(value["ports"]["count"])),
        guest_timer=guest.MARK in value["user_data"],
    )


def billed(value: Any) -> dict[str, Any]:
    """What is told of every billable thing."""
    return {
        "resource": Resource(
            cloud="local", region=value["region"], kind=value["kind"], id=value["id"], name=value["name"]
        ),
        "run": value["tags"].get(TAG_RUN, ""),
        "token": value["token"],
        "ledger": value["tags"].get(TAG_LEDGER, ""),
        "state": STATES[value["state"]],
        "usd_per_hour": Decimal(value["usd_per_hour"]),
        "created_at": datetime.fromisoformat(value["created_at"]),
        "started_at": moment(value["started_at"]),
        "ended_at": moment(value["ended_at"]),
        "expires_at": moment(value["expires_at"]),
    }


def moment(value: Any) -> datetime | None:
    return None if value is None else datetime.fromisoformat(value)


CLOUD = LocalCloud()
