"""Repeats of a cell taken together, and ranks among those that repeats can tell apart."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from spec.record import Record

T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Student's t for a two-sided 95 % interval, 1 to 9 degrees of freedom; with more, the last is used (a little wide)."""


@dataclass(frozen=True)
class Point:
    """Output throughput of one layout, gateway and concurrency over its valid repeats."""

    series: str
    concurrency: int
    repeats: int
    output_tok_per_s: float
    low: float | None = None
    """Lower end of the 95 % interval of the mean; None with one repeat."""
    high: float | None = None
    rank: int | None = None
    """Among points of the same concurrency: 1 + how many lie above by their whole interval. None with one repeat."""


def points(records: Sequence[Record]) -> tuple[Point, ...]:
    """Invalid cells are left out; points stand in the order of the records."""
    groups: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    for record in records:
        if record.valid and record.figures:
            series = f"{record.cell.layout}-{record.cell.gateway}"
            groups[series, record.cell.concurrency].append(record.figures.output_tok_per_s)
    found = [_point(series, concurrency, rates) for (series, concurrency), rates in groups.items()]
    return tuple(replace(point, rank=_rank(point, found)) for point in found)


def _point(series: str, concurrency: int, rates: Sequence[float]) -> Point:
    mean = statistics.fmean(rates)
    if len(rates) < 2:
        return Point(series, concurrency, 1, mean)
    half = T_95[min(len(rates) - 1, len(T_95)) - 1] * statistics.stdev(rates) / math.sqrt(len(rates))
    return Point(series, concurrency, len(rates), mean, max(0.0, mean - half), mean + half)


def _rank(point: Point, among: Sequence[Point]) -> int | None:
    """Points whose intervals overlap share a rank: the repeats do not tell them apart."""
    if point.high is None:
        return None
    high = point.high
    rivals = [other for other in among if other.concurrency == point.concurrency and other.low is not None]
    return 1 + sum(other.low > high for other in rivals if other.low is not None)
