"""The local cloud: nodes on this machine, bills in play money. Client of the program `localcloud`."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from infra.cloud import TAG_LEDGER, TAG_RUN, TAG_TOKEN, Capabilities, CreateRequest, Item, Machine, Offer, State
from infra.clouds.local.program import Absent, call, empty, parsed
from spec.errors import CloudError, Unanswered
from spec.home import home
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
        ttl="native", billed=True, simulated=True, billing_step_s=1, consistency_s=0.2, create_limit_s=CREATE_LIMIT_S
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
        body = {
            "token": request.token,
            "names": request.names,
            "tags": {**request.tags, TAG_RUN: request.run, TAG_TOKEN: request.token},
            "region": request.offer.region,
            "node_type": request.offer.node_type,
            "public_key": request.public_key,
            "lifetime_s": request.lifetime_s,
        }
        return parsed(call("POST", "/v1/nodes", body=body, limit_s=self._create_limit_s), machine)

    def find(self, token: str) -> tuple[Machine, ...]:
        if empty():
            return ()
        return parsed(call("GET", "/v1/nodes", query={"token": token}), machine)

    def read(self, resource: Resource) -> Item | None:
        if empty():
            return None
        try:
            return parsed([call("GET", f"/v1/nodes/{resource.id}")], machine)[0]
        except Absent:
            return None

    def delete(self, resource: Resource) -> None:
        if not empty():
            with contextlib.suppress(Absent):
                call("DELETE", f"/v1/nodes/{resource.id}")

    def inventory(self, run: str | None = None) -> tuple[Item, ...]:
        if empty():
            return ()
        tag = TAG_RUN if run is None else f"{TAG_RUN}={run}"
        return parsed(call("GET", "/v1/nodes", query={"tag": tag}), machine)

    def extend(self, id: str, expires_at: datetime) -> datetime:
        try:
            answer = call("POST", f"/v1/nodes/{id}/expiry", body={"expires_at": expires_at.isoformat()})
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
        return datetime.now(UTC)

    def scope(self) -> Scope:
        return Scope(cloud=self.name, account=str(home()), regions=("here", "there"))

    def switches(self, machine: Machine) -> tuple[Switch, ...]:
        armed = machine.expires_at is not None
        return (Switch(kind="native", armed=armed, fires_at=machine.expires_at, note="the node's own supervisor"),)


def offer(value: Any) -> Offer:
    return Offer(
        cloud="local",
        region=value["region"],
        node_type=value["node_type"],
        gpu=value["gpu"],
        gpus=int(value["gpus"]),
        usd_per_hour=Decimal(value["usd_per_hour"]),
        as_of=datetime.fromisoformat(value["as_of"]),
    )


def machine(value: Any) -> Machine:
    return Machine(
        resource=Resource(cloud="local", region=value["region"], kind="machine", id=value["id"], name=value["name"]),
        run=value["tags"].get(TAG_RUN, ""),
        token=value["token"],
        ledger=value["tags"].get(TAG_LEDGER, ""),
        state=STATES[value["state"]],
        node_type=value["node_type"],
        gpus=int(value["gpus"]),
        host=value["host"],
        ssh_port=int(value["ssh_port"]),
        user=value["user"],
        host_key=value["host_key"],
        ports=Ports(first=int(value["ports"]["first"]), count=int(value["ports"]["count"])),
        usd_per_hour=Decimal(value["usd_per_hour"]),
        created_at=datetime.fromisoformat(value["created_at"]),
        started_at=moment(value["started_at"]),
        ended_at=moment(value["ended_at"]),
        expires_at=moment(value["expires_at"]),
    )


def moment(value: Any) -> datetime | None:
    return None if value is None else datetime.fromisoformat(value)


CLOUD = LocalCloud()
