"""How numbers and facts are written, alike in the page, the table and the picture."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from spec.record import Record, RunDocument

STAND_IN = (
    "CPU stand-in: DPn is n servers and TPn is n threads per server, not parallelism over GPUs; "
    "no figure here says anything about a GPU."
)
ONE_REPEAT = (
    "One repeat of each cell: no interval is shown and nothing is ranked, because a difference may be noise. "
    "To compare, set repeats to 3 or more in the recipe."
)
TOO_FEW = "No cell has two valid repeats: no interval is shown and nothing is ranked."
NONE = "-"
"""Stands where there is no figure."""


def subject(document: RunDocument) -> str:
    """The title, and what a reader must not overlook about the figures."""
    return " · ".join([heading(document), *notes(document)])


def notes(document: RunDocument) -> list[str]:
    said = (("CPU stand-in", document.stand_in), ("simulated dollars", document.simulated))
    return [text for text, holds in said if holds]


def heading(document: RunDocument) -> str:
    return document.title or document.run or "A run that never began"


def dollars(usd: Decimal | None) -> str:
    """Cents from a dollar on, three significant digits below."""
    if usd is None:
        return NONE
    if usd == 0 or abs(usd) >= 1:
        return f"${usd:,.2f}"
    return f"${Decimal(f'{usd:.3g}'):f}"


def number(value: float | None) -> str:
    """Three significant digits, never fewer than the whole part."""
    if value is None:
        return NONE
    decimals = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{decimals}f}"


def seconds(value_s: float) -> str:
    """`4.2 s`, `3 min 05 s`, `2 h 03 min`."""
    if value_s < 59.95:
        return f"{value_s:.1f} s"
    minutes, rest = divmod(round(value_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def utc(at: datetime | None) -> str:
    return NONE if at is None else f"{at:%Y-%m-%d %H:%M:%S}Z"


def reasons(record: Record) -> str:
    """Why the cell is invalid: every check that failed or could not be made."""
    found = [f"{check.name}: {check.detail}" for check in record.checks if check.outcome in ("fail", "unknown")]
    return "; ".join(found) or ("" if record.valid else "no check says why")


def unranked(records: Sequence[Record]) -> str:
    """Why nothing is ranked, where that is so."""
    return TOO_FEW if any(record.cell.repeat > 1 for record in records) else ONE_REPEAT


def proof(document: RunDocument) -> str:
    """What the receipt shows, in one line."""
    receipt = document.receipt
    if receipt is None:
        return "No receipt: nothing was created." if not document.phases else "No receipt was written."
    count, gone = len(receipt.lines), sum(line.proven for line in receipt.lines)
    if receipt.proven:
        return f"Proven: {gone} of {count} billable ids deleted and then listed as absent."
    return f"UNPROVEN: something may still be billed; {gone} of {count} billable ids are proven gone."


def not_measured(document: RunDocument) -> str:
    """Which cells of the campaign have no record; empty where each has one."""
    missing = document.missing
    return f"Not measured, {len(missing)} of {document.whole} cells: {', '.join(missing)}." if missing else ""
