"""The throughput plot as a picture. Loaded by name: only here is matplotlib needed, and its import is slow."""

from __future__ import annotations

import io

from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from report.compare import Point, points
from report.wording import subject, unranked
from spec.record import RunDocument

MARKERS = "osD^vPX*"


def throughput(document: RunDocument) -> bytes:
    """Output throughput over concurrency, valid cells only; bars are 95 % intervals where cells were repeated."""
    figure = Figure(figsize=(9, 5.4), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    found = points(document.cells)
    for index, series in enumerate(dict.fromkeys(point.series for point in found)):
        line = sorted((p for p in found if p.series == series), key=lambda point: point.concurrency)
        loads, rates = [p.concurrency for p in line], [p.output_tok_per_s for p in line]
        marker = MARKERS[index % len(MARKERS)]
        axes.errorbar(loads, rates, yerr=_intervals(line), marker=marker, capsize=4, label=series)
    axes.set(xlabel="concurrency", ylabel="output tokens per second, first send to last token")
    axes.set_title(subject(document), parse_math=False, wrap=True)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    if found:
        loads = sorted({point.concurrency for point in found})
        axes.set_xscale("log")
        axes.set_xticks(loads, [str(load) for load in loads])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.legend(title="layout-gateway")
    else:
        axes.text(0.5, 0.5, "no valid cell", transform=axes.transAxes, ha="center")
    if all(point.rank is None for point in found):
        figure.supxlabel(unranked(document.cells), fontsize=6)
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    return picture.getvalue()


def _intervals(line: list[Point]) -> list[list[float]] | None:
    """How far each interval reaches down and up from its mean; None where there is none to show."""
    if all(point.low is None for point in line):
        return None
    down = [point.output_tok_per_s - (point.output_tok_per_s if point.low is None else point.low) for point in line]
    up = [(point.output_tok_per_s if point.high is None else point.high) - point.output_tok_per_s for point in line]
    return [down, up]
