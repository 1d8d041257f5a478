"""Dollars per million output tokens: of a cell in steady state, and of the whole invoice."""

from __future__ import annotations

from decimal import Decimal

from spec.record import RunDocument

MILLION = 1_000_000


def usd_per_million(usd: Decimal, tokens: int) -> Decimal | None:
    """usd x 1e6 / tokens; None where there are no tokens to pay for."""
    return (usd * MILLION / tokens).quantize(Decimal("0.000001")) if tokens else None


def invoice_usd_per_million(document: RunDocument) -> Decimal | None:
    """All that the run cost, set-up and failed cells included, over the output tokens of its valid cells."""
    if document.receipt is None:
        return None
    tokens = sum(record.figures.output_tokens for record in document.cells if record.valid and record.figures)
    return usd_per_million(document.receipt.usd, tokens)
