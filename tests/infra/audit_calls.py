"""What tests of the audit do to a cloud in memory and a real ledger."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from infra.audit.mend import Mended, mend
from infra.audit.report import Report, audit
from infra.cloud import TAG_LEDGER, CreateRequest, Machine
from money import budget
from money.ledger import Ledger
from spec import clock
from spec.home import ledger_address, ledger_mark
from spec.ledger import Resource
from tests.infra.memory_cloud import MemoryCloud


def intend(ledger: Ledger, run: str, index: int = 0) -> str:
    """Up to the call of create."""
    token = f"{run}-{index}-a1"
    epoch = ledger.open(run, Decimal(5), owner="me")
    budget.reserve(ledger, run, epoch, token, Decimal(1))
    unborn = Resource(cloud="memory", region="near", kind="machine", id="", name=f"{run}-{index}")
    budget.intent(ledger, run, epoch, token, "memory near", (unborn,))
    return token


def make(cloud: MemoryCloud, run: str, index: int = 0, mark: str = "") -> Machine:
    offer = cloud.offers("b300x8", [])[0]
    tags = {TAG_LEDGER: mark or ledger_mark(ledger_address())}
    (made,) = cloud.create(
        CreateRequest(run, f"{run}-{index}-a1", (f"{run}-{index}",), offer, 3600, "ssh-ed25519 AAAA", tags=tags)
    )
    return made


def rent(cloud: MemoryCloud, ledger: Ledger, run: str, index: int = 0) -> Machine:
    token = intend(ledger, run, index)
    made = make(cloud, run, index)
    budget.commit(ledger, run, token, (made.resource,), made.started_at)
    return made


def expire(cloud: MemoryCloud, made: Machine) -> None:
    cloud.machines[made.id] = replace(made, expires_at=clock.now() - timedelta(minutes=5))


def look(owned: str = "") -> Report:
    return audit(ledger_address(), lambda run: run == owned)


def fix(*names: str, owned: str = "") -> tuple[Mended, Report]:
    return mend(look(owned), names, lambda run: run == owned, lambda _: None)


def verdicts(report: Report) -> dict[str, str]:
    return {one.item.id: one.verdict for one in report.findings}


def standing(cloud: MemoryCloud) -> set[str]:
    return {one.id for one in cloud.inventory()}
