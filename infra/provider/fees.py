"""What is paid once a node is made, whatever its lifetime: settled at once, since nothing gives it back."""

from __future__ import annotations

from infra.cloud import Machine
from infra.provider.job import Job
from money import budget
from plan.price import Tariff
from spec.cost import extra_usd
from spec.ledger import Resource


def settle_fees(job: Job, token: str, tariff: Tariff, machines: tuple[Machine, ...]) -> None:
    """On record, each as a thing of its own: fees paid up front, and what the node moves."""
    for machine in machines:
        for extra in tariff.extras:
            usd = extra_usd(extra, 0, tariff.step_s, tariff.gib)
            if usd:
                where = machine.resource
                id = f"{where.id}/{extra.kind}"
                fee = Resource(cloud=where.cloud, region=where.region, kind="fee", id=id, name=machine.name)
                at = machine.started_at or machine.created_at
                budget.settle(job.ledger, job.inputs.run, token, fee, usd, at, at)
