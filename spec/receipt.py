"""The receipt: each billable id and the proof that it is gone. `docs/schemas/receipt.json`."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, Field, ValidationError

from spec.base import Seq, Spec, Usd, first_fault
from spec.ledger import Resource


class Line(Spec):
    """One billable thing: when it was made and deleted, when a listing lacked it, what it cost."""

    resource: Resource
    created_at: AwareDatetime | None
    deleted_at: AwareDatetime | None
    absent_at: Seq[AwareDatetime]
    usd: Usd
    cloud_usd: Usd | None
    """The cloud's own figure; None where it gives none."""
    proven: bool
    note: str = ""


class Receipt(Spec):
    version: Literal[1] = 1
    run: str
    simulated: bool
    """True where the dollars are the local cloud's play money."""
    budget_usd: Usd
    usd: Usd
    held_usd: Usd = Field(default=0, validate_default=True)
    """Still set aside for what is not settled: so much more may be paid at most. 0 where all is proven."""
    cloud_usd: Usd | None
    burned_usd: Usd
    """Part of `usd` that went to nodes that failed or were replaced."""
    lines: Seq[Line]
    unproven: Seq[str] = ()
    """What could not be shown to be gone, and the command that goes on."""
    proven: bool
    ledger: str
    ledger_head: str
    """Hash of the ledger's last line when this was written."""
    written_at: AwareDatetime


def read(data: bytes) -> Receipt:
    """The receipt that a file holds; ValueError says in short what is wrong with one that is none."""
    try:
        return Receipt.model_validate_json(data)
    except ValidationError as error:
        raise ValueError(first_fault(error)) from None
