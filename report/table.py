"""The run as a table for a terminal of 100 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from report.compare import Point, points
from report.prices import invoice_usd_per_million
from report.wording import NONE, STAND_IN, dollars, not_measured, number, proof, reasons, subject, unranked
from spec.record import Record, RunDocument

WIDTH = 100
CELL_WIDTH = 32
COLUMNS = (("output", 9), ("total", 9), ("p50", 9), ("p99", 9), ("p50", 8), ("p99", 8), ("output tok", 15))
GROUPS = (("tokens/s", 18), ("TTFT ms", 18), ("TPOT ms", 16), ("$ per million", 15))


def table(document: RunDocument) -> str:
    """Figures of valid cells, the reasons of the others, ranks where repeats allow them, money and proof."""
    lines = [*_wrapped(subject(document)), *_wrapped(f"run {document.run or NONE}"), ""]
    if document.stand_in:
        lines += [*_wrapped(STAND_IN), ""]
    lines += [*_cells(document), "", *_money(document)]
    if document.exit_code or document.message:
        lines += _wrapped(f"Exit code {document.exit_code}: {document.message}")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def printable(text: str) -> str:
    """On one line and without control characters: text from a server must not steer a terminal."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(printable(text), WIDTH, subsequent_indent="  ")


def _cells(document: RunDocument) -> Iterator[str]:
    if not document.cells:
        yield "No cell was measured."
        return
    yield " " * CELL_WIDTH + "".join(f"{name:>{width}}" for name, width in GROUPS)
    yield f"{'cell':{CELL_WIDTH}}" + "".join(f"{name:>{width}}" for name, width in COLUMNS)
    yield from map(_row, document.cells)
    yield from _wrapped(not_measured(document))
    yield ""
    yield from _ranks(document)


def _row(record: Record) -> str:
    name = _cut(str(record.cell), CELL_WIDTH - 1).ljust(CELL_WIDTH)
    if not record.valid or record.figures is None:
        return "\n".join(_invalid(name, reasons(record)))
    figures = record.figures
    tpot = figures.tpot
    values = (
        number(figures.output_tok_per_s),
        number(figures.total_tok_per_s),
        number(figures.ttft.p50_ms),
        number(figures.ttft.p99_ms),
        number(tpot.p50_ms if tpot else None),
        number(tpot.p99_ms if tpot else None),
        dollars(record.usd_per_million_output_tokens),
    )
    return name + "".join(f"{value:>{width}}" for value, (_, width) in zip(values, COLUMNS))


def _invalid(name: str, why: str) -> list[str]:
    """Reasons in the place of figures, with an end: an error may quote a whole page."""
    text = printable(f"INVALID  {why}")
    return textwrap.wrap(text, WIDTH, initial_indent=name, subsequent_indent=" " * CELL_WIDTH, max_lines=4)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _ranks(document: RunDocument) -> Iterator[str]:
    ranked = [point for point in points(document.cells) if point.rank is not None]
    if not ranked:
        yield from _wrapped(unranked(document.cells))
        return
    yield "Output tokens/s over valid repeats: mean, 95 % interval, rank within a concurrency."
    yield "Cells whose intervals overlap share a rank: the repeats do not tell them apart."
    for point in sorted(ranked, key=lambda point: (point.concurrency, point.rank, -point.output_tok_per_s)):
        yield _rank(point)


def _rank(point: Point) -> str:
    interval = f"{number(point.low)} to {number(point.high)}"
    name = f"{point.series} c={point.concurrency}"
    return f"  {point.rank}. {_cut(name, 40):40} {number(point.output_tok_per_s):>9}  {interval:>20}  n={point.repeats}"


def _money(document: RunDocument) -> Iterator[str]:
    receipt = document.receipt
    if receipt is not None:
        kind = "simulated dollars" if receipt.simulated else "US dollars"
        price = invoice_usd_per_million(document)
        share = f"; {dollars(price)} per million output tokens, whole invoice" if price is not None else ""
        more = f" and at most {dollars(receipt.held_usd)} more, not settled yet," if receipt.held_usd else ""
        yield from _wrapped(f"Cost {dollars(receipt.usd)}{more} of {dollars(receipt.budget_usd)} ({kind}){share}")
    yield from _wrapped(proof(document))
    for line in receipt.unproven if receipt else ():
        yield from _wrapped(f"  {line}")
