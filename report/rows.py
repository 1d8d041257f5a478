"""Records as lines of JSON and as CSV, one cell a line."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

from report.wording import reasons
from spec.record import Figures, Quantiles, Record, RunDocument

Value = str | int | float | None
COUNTS = (
    "requests",
    "answered",
    "errors",
    "duration_s",
    "input_tokens",
    "output_tokens",
    "isl_mean_tokens",
    "osl_mean_tokens",
    "output_tok_per_s",
    "total_tok_per_s",
    "requests_per_s",
    "in_flight_mean",
)
LATENCIES = ("ttft", "tpot", "itl", "e2e")
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet takes text that begins so for a formula; what a server answered must not become one."""


def jsonl(document: RunDocument) -> str:
    return "".join(f"{record.model_dump_json()}\n" for record in document.cells)


def csv_text(document: RunDocument) -> str:
    """Figures of invalid cells stand in it beside `valid` = no and the reasons, without a price."""
    rows = [row(record, document) for record in document.cells]
    columns = list(dict.fromkeys(column for found in rows for column in found)) or ["run"]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _field(value) for name, value in found.items()} for found in rows)
    return text.getvalue()


def row(record: Record, document: RunDocument) -> dict[str, Value]:
    """One cell with every column, also those that have no value."""
    asked, cell = record.workload, record.cell
    price = record.usd_per_million_output_tokens if record.valid else None
    return {
        "run": record.run,
        "cell": str(cell),
        "layout": str(cell.layout),
        "gateway": cell.gateway,
        "concurrency": cell.concurrency,
        "repeat": cell.repeat,
        "valid": "yes" if record.valid else "no",
        "reasons": reasons(record),
        "stand_in": document.stand_in,
        "simulated": "yes" if record.simulated else "no",
        "engine": record.engine,
        "model": record.model,
        "isl_asked_tokens": asked.isl_tokens if asked else None,
        "osl_asked_tokens": asked.osl_tokens if asked else None,
        "started_at": record.started_at.isoformat(),
        "ended_at": record.ended_at.isoformat(),
        **_figures(record.figures),
        "forecast_output_tok_per_s": record.forecast.output_tok_per_s if record.forecast else None,
        "usd": f"{record.usd:f}",
        "usd_per_million_output_tokens": None if price is None else f"{price:f}",
    }


def _figures(figures: Figures | None) -> Mapping[str, Value]:
    counts: dict[str, Value] = {name: getattr(figures, name, None) for name in COUNTS}
    for latency in LATENCIES:
        found: Quantiles | None = getattr(figures, latency, None)
        counts |= {f"{latency}_{name}": getattr(found, name, None) for name in Quantiles.model_fields}
    return counts


def _field(value: Value) -> Value:
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, str) and value.startswith(FORMULA):
        return f"'{value}"
    return value
