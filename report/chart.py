"""Geometry of the plots on the page. Across in percent, down in pixels: any screen fits, and text keeps its size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from report.compare import Point
from spec.record import Record

LEFT, RIGHT = 12.0, 94.0
"""Percent of the width between which points stand; the rest is for labels."""
TOP_PX, BOTTOM_PX = 16.0, 236.0
TICKS = 5


@dataclass(frozen=True)
class Mark:
    """A point of a line plot; `low_px` and `high_px` are the ends of its interval, equal where it has none."""

    x: float
    y_px: float
    low_px: float
    high_px: float
    label: str


@dataclass(frozen=True)
class Tick:
    at: float
    label: str


@dataclass(frozen=True)
class Lines:
    """Output throughput over concurrency, one line a layout and gateway."""

    series: tuple[tuple[str, tuple[Mark, ...]], ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]


@dataclass(frozen=True)
class Bar:
    """TTFT of one cell: median, 90th and 99th percentile in percent of the width."""

    name: str
    p50: float
    p90: float
    p99: float
    label: str


def ticks(highest: float) -> tuple[float, ...]:
    """From 0 in steps of 1, 2 or 5 x a power of ten, up to the first that is not below `highest`."""
    if highest <= 0:
        return (0.0, 1.0)
    rough = highest / (TICKS - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))
    return tuple(step * index for index in range(math.ceil(highest / step - 1e-9) + 1))


def lines(points: Sequence[Point]) -> Lines | None:
    """None where there is nothing valid to draw."""
    if not points:
        return None
    scale = ticks(max(point.high or point.output_tok_per_s for point in points))
    loads = sorted({point.concurrency for point in points})
    names = dict.fromkeys(point.series for point in points)
    return Lines(
        series=tuple((name, _marks([p for p in points if p.series == name], loads, scale[-1])) for name in names),
        across=tuple(Tick(_across(load, loads), f"c={load}") for load in loads),
        up=tuple(Tick(_up(value, scale[-1]), f"{value:,g}") for value in scale),
    )


def bars(records: Sequence[Record]) -> tuple[Bar, ...]:
    """Valid cells only, on one scale."""
    found = [(str(record.cell), record.figures.ttft) for record in records if record.valid and record.figures]
    highest = max((ttft.p99_ms for _, ttft in found), default=0.0) or 1.0
    return tuple(
        Bar(
            name=name,
            p50=100 * ttft.p50_ms / highest,
            p90=100 * ttft.p90_ms / highest,
            p99=100 * ttft.p99_ms / highest,
            label=f"{ttft.p50_ms:,.0f} / {ttft.p90_ms:,.0f} / {ttft.p99_ms:,.0f} ms",
        )
        for name, ttft in found
    )


def _marks(points: Sequence[Point], loads: Sequence[int], highest: float) -> tuple[Mark, ...]:
    return tuple(
        Mark(
            x=_across(point.concurrency, loads),
            y_px=_up(point.output_tok_per_s, highest),
            low_px=_up(point.output_tok_per_s if point.low is None else point.low, highest),
            high_px=_up(point.output_tok_per_s if point.high is None else point.high, highest),
            label=f"{point.series} c={point.concurrency}: {point.output_tok_per_s:,.1f} output tokens/s",
        )
        for point in sorted(points, key=lambda point: point.concurrency)
    )


def _across(load: int, loads: Sequence[int]) -> float:
    """By the logarithm: loads double as a rule."""
    spread = math.log(loads[-1] / loads[0])
    share = math.log(load / loads[0]) / spread if spread else 0.5
    return LEFT + (RIGHT - LEFT) * share


def _up(value: float, highest: float) -> float:
    return BOTTOM_PX - (BOTTOM_PX - TOP_PX) * value / highest
