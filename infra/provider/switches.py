"""Dead-man switches: what ends a node when nobody does. At least one that does not need this machine must be armed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from infra.cloud import Cloud, Machine
from infra.provider.job import Job, patiently, until
from money import reaper
from money.ledger import Ledger
from spec.errors import CloudError
from spec.inventory import Switch

KINDS: tuple[Literal["native", "guest", "reaper"], ...] = ("native", "guest", "reaper")
ARM_S = 60.0
"""One that is not part of the create request must be confirmed within this."""

Armed = tuple[Switch, ...]
"""The switches of one node, each as armed or not."""


def refuse_unarmable(job: Job, region: str) -> None:
    """CloudError where nothing would end a node there: said before it is made."""
    bills = job.cloud.capabilities
    if (
        bills.billed
        and bills.ttl == "none"
        and not bills.guest_timer
        and not _reaper(job.cloud, job.ledger, region).armed
    ):
        raise CloudError(
            f"nothing would end a node on {job.cloud.name} in {region} if this machine died: that cloud ends none by "
            "itself, and no reaper watches it; run megatok audit --fix from cron on another machine, with this ledger: "
            f"{job.inputs.ledger}"
        )


def armed(job: Job, machines: Sequence[Machine]) -> tuple[Armed, ...]:
    """All switches of each; CloudError where one has none that is armed in time. Where nothing bills, none need be."""
    limit_s = ARM_S if job.cloud.capabilities.billed else 0.0
    found = tuple(until(lambda one=machine: _if_any(look(job.cloud, job.ledger, one)), limit_s) for machine in machines)  # type: ignore[misc]
    if job.cloud.capabilities.billed and not all(found):
        names = ", ".join(machine.name for machine, one in zip(machines, found) if not one)
        raise CloudError(f"no dead-man switch of {names} was armed within {ARM_S:.0f} s; see megatok doctor")
    return tuple(one or look(job.cloud, job.ledger, machine) for machine, one in zip(machines, found))


def look(cloud: Cloud, ledger: Ledger, machine: Machine) -> Armed:
    """Each switch as it is now; one that the cloud does not have is not armed."""
    told = {switch.kind: switch for switch in patiently(lambda: cloud.switches(machine))}
    if not cloud.capabilities.billed:
        return tuple(told.values())
    reaper_too = _reaper(cloud, ledger, machine.resource.region, machine)
    known = tuple(told.pop(kind, reaper_too if kind == "reaper" else _absent(cloud, kind)) for kind in KINDS)
    return known + tuple(told.values())


def _absent(cloud: Cloud, kind: Literal["native", "guest", "reaper"]) -> Switch:
    return Switch(kind=kind, armed=False, note=f"{cloud.name} has none")


def _if_any(switches: Armed) -> Armed | None:
    return switches if any(switch.armed and switch.kind != "none" for switch in switches) else None


def _reaper(cloud: Cloud, ledger: Ledger, region: str, machine: Machine | None = None) -> Switch:
    """Armed by a heartbeat in the ledger, of another machine that looks there."""
    scope = patiently(cloud.scope)
    beat = reaper.fresh(ledger.events(), scope.cloud, scope.account, region, ledger.clock())
    if beat is None:
        return Switch(kind="reaper", armed=False, note="no fresh heartbeat of another machine in the ledger")
    note = f"{beat.host}, heard of until {beat.ended_at:%Y-%m-%dT%H:%M:%SZ}"
    return Switch(kind="reaper", armed=True, fires_at=machine.expires_at if machine else None, note=note)
