"""The run as one self-contained HTML page: no script, no network."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from report import chart, wording
from report.compare import points
from report.prices import invoice_usd_per_million
from spec.record import Forecast, RunDocument

TEMPLATES = Path(__file__).parent / "templates"


def page(document: RunDocument) -> str:
    """Every text is escaped: titles, errors and answers of servers are not trusted."""
    found = points(document.cells)
    ranked = [point for point in found if point.rank is not None]
    return (
        _environment()
        .get_template("page.html")
        .render(
            document=document,
            receipt=document.receipt,
            subject=wording.subject(document),
            heading=wording.heading(document),
            notes=wording.notes(document),
            began=document.phases[0].started_at if document.phases else None,
            not_measured=wording.not_measured(document),
            proof=wording.proof(document),
            stand_in_note=wording.STAND_IN,
            unranked=wording.unranked(document.cells),
            invoice=invoice_usd_per_million(document),
            ranked=sorted(ranked, key=lambda point: (point.concurrency, point.rank, -point.output_tok_per_s)),
            lines=chart.lines(found),
            bars=chart.bars(document.cells),
            total_s=sum(phase.seconds for phase in document.phases),
            own_s=sum(phase.own_s for phase in document.phases),
            longest_s=max((phase.seconds for phase in document.phases), default=0.0) or 1.0,
        )
    )


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (wording.dollars, wording.number, wording.seconds, wording.utc, wording.reasons, _forecast)
    environment.filters |= {function.__name__.lstrip("_"): function for function in filters}
    return environment


def _forecast(forecast: Forecast | None) -> Markup:
    """The middle, and its interval below it."""
    if forecast is None or not forecast.output_tok_per_s:
        return Markup(wording.NONE)
    middle, low, high = map(wording.number, (forecast.output_tok_per_s, forecast.low, forecast.high))
    return Markup("{} <small>{} to {}</small>").format(middle, low, high)
