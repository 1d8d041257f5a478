"""Hosts that exist: nothing is rented, so nothing is billed and nothing ends them."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

from infra.cloud import Capabilities, CreateRequest, Item, Machine, Offer, State
from infra.clouds.ssh import claims, link, mark
from infra.clouds.ssh.claims import Claim
from infra.clouds.ssh.link import Unreached
from spec import clock
from spec.errors import CloudError, Denied, NoCapacity, RecipeError
from spec.inventory import Ports, Switch
from spec.ledger import Resource, Scope
from spec.recipe import Cluster, SshHost

REGION = "own"
PORTS = 64
FIRST_PORT = 8000
BLOCKS = 797
"""A prime, so that ports at even distances fall into different blocks; the last one ends below 65536."""


class SshCloud:
    """See `infra.cloud.Cloud`. To create is to claim a host, to delete is to let go of it; an id is a claim's."""

    name = "ssh"
    capabilities = Capabilities(
        ttl="none", billed=False, simulated=False, billing_step_s=1, consistency_s=0.0, create_limit_s=60.0
    )

    def check(self, cluster: Cluster) -> None:
        """Both keys of each host can be read."""
        for host in cluster.hosts:
            link.private_key(host)
            link.public_key(host)

    def offers(self, node_type: str, regions: Sequence[str]) -> tuple[Offer, ...]:
        """One: which hosts there are, the request says."""
        if regions and REGION not in regions:
            return ()
        now = clock.now()
        return (Offer(self.name, REGION, node_type, gpu="", gpus=0, usd_per_hour=Decimal(0), as_of=now),)

    def create(self, request: CreateRequest) -> tuple[Machine, ...]:
        if len(request.hosts) != len(request.names):
            raise RecipeError(f"{len(request.names)} nodes need as many hosts; {len(request.hosts)} are named")
        wanted = tuple(_claim(request, name, host) for name, host in zip(request.names, request.hosts))
        return tuple(_machine(_taken(claim)) for claim in wanted)

    def find(self, token: str) -> tuple[Machine, ...]:
        return tuple(_machine(claim) for claim in claims.held() if claim.token == token)

    def read(self, resource: Resource) -> Item | None:
        claim = claims.read(resource.id)
        return _machine(claim) if claim else None

    def delete(self, resource: Resource) -> None:
        claim = claims.read(resource.id)
        if claim and claim.ended_at is None:
            mark.clear(claim)
            claims.keep(claim.model_copy(update={"ended_at": clock.now()}))

    def inventory(self, run: str | None = None) -> tuple[Item, ...]:
        return tuple(_machine(claim) for claim in claims.held() if run in (None, claim.run))

    def extend(self, id: str, expires_at: datetime) -> datetime:
        claim = claims.read(id)
        if claim is None or claim.ended_at is not None:
            raise CloudError(f"no run holds {id} any more")
        longer = claim.model_copy(update={"expires_at": expires_at})
        mark.move(longer)
        claims.keep(longer)
        return expires_at

    def billed_usd(self, run: str) -> Mapping[str, Decimal]:
        return {}

    def now(self) -> datetime:
        return clock.now()

    def scope(self) -> Scope:
        return Scope(cloud=self.name, account=socket.gethostname(), regions=(REGION,))

    def switches(self, machine: Machine) -> tuple[Switch, ...]:
        return (Switch(kind="none", armed=False, note="an owned host: nothing is billed, nothing need end it"),)


def _claim(request: CreateRequest, name: str, host: SshHost) -> Claim:
    now = clock.now()
    return Claim(
        id=claims.name_of(request.token, host),
        run=request.run,
        token=request.token,
        name=name,
        node_type=request.offer.node_type,
        gpus=request.gpus or request.offer.gpus,
        host=host.model_copy(update={"key_file": str(Path(host.key_file).expanduser().absolute())}),
        created_at=now,
        expires_at=now + timedelta(seconds=request.lifetime_s),
    )


def _taken(claim: Claim) -> Claim:
    """The host marked as ours. Its claim is on record before, so that whatever happens between is found and undone."""
    before = next((one for one in claims.held() if one.id == claim.id), None)
    if before and before.started_at:
        return before
    claims.keep(claim)
    try:
        mark.put(claim)
    except (NoCapacity, RecipeError, Denied):
        claims.drop(claim)  # nothing of ours is there
        raise
    except Unreached as error:
        claims.drop(claim)
        raise NoCapacity(f"{error}; take that host out of the recipe, or see to it") from error
    taken = claim.model_copy(update={"started_at": clock.now()})
    claims.keep(taken)
    return taken


def _machine(claim: Claim) -> Machine:
    state: State = "terminated" if claim.ended_at else "running" if claim.started_at else "pending"
    return Machine(
        resource=Resource(cloud="ssh", region=REGION, kind="machine", id=claim.id, name=claim.name),
        run=claim.run,
        token=claim.token,
        ledger="",
        state=state,
        node_type=claim.node_type,
        gpus=claim.gpus,
        host=claim.host.address,
        ssh_port=claim.host.port,
        user=claim.host.user,
        host_key=claim.host.host_key,
        ports=_ports(claim.host),
        usd_per_hour=claim.host.usd_per_hour,
        created_at=claim.created_at,
        started_at=claim.started_at,
        ended_at=claim.ended_at,
        expires_at=claim.expires_at,
        key_file=claim.host.key_file,
    )


def _ports(host: SshHost) -> Ports:
    """The usual block; another where SSH does not listen on 22: several such hosts may share one address."""
    block = 0 if host.port == 22 else 1 + host.port % BLOCKS
    return Ports(first=FIRST_PORT + block * PORTS, count=PORTS)


CLOUD = SshCloud()
