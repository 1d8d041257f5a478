"""What is measured on requests: one metric, one function. Only answered requests have latencies.

Load generators use the same names for different things; here they mean what the docstrings say, whatever tool made the
records.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from spec.record import Quantiles, RequestRecord


def answered(request: RequestRecord) -> bool:
    """The server said so, and at least one token came."""
    return request.ok and request.first_token_s is not None


def ttft_ms(request: RequestRecord) -> float | None:
    """1000 x (first token - send); None where no token came."""
    return None if request.first_token_s is None else 1000 * (request.first_token_s - request.started_s)


def e2e_ms(request: RequestRecord) -> float:
    """1000 x (last token - send)."""
    return 1000 * (request.ended_s - request.started_s)


def tpot_ms(request: RequestRecord) -> float | None:
    """(E2E - TTFT) / (output tokens - 1); None below two tokens."""
    first_ms = ttft_ms(request)
    if first_ms is None or request.output_tokens < 2:
        return None
    return (e2e_ms(request) - first_ms) / (request.output_tokens - 1)


def itl_ms(request: RequestRecord) -> tuple[float, ...]:
    """Each gap between two chunks that carried tokens; those of all requests are pooled, not averaged per request."""
    return request.itl_ms


def window_s(requests: Sequence[RequestRecord]) -> float:
    """Last token of any answer - first send of any request; 0 where nothing was answered."""
    ends = [request.ended_s for request in requests if answered(request)]
    return max(0.0, max(ends) - min(request.started_s for request in requests)) if ends else 0.0


def in_flight_mean(requests: Sequence[RequestRecord], seconds: float) -> float:
    """Sum of E2E of the answers / window (Little's law)."""
    return sum(e2e_ms(request) for request in requests if answered(request)) / 1000 / seconds


def quantile(ordered: Sequence[float], share: float) -> float:
    """Linear between order statistics: position share x (n - 1) (Hyndman and Fan's type 7, the default of NumPy)."""
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def quantiles(values_ms: Iterable[float | None]) -> Quantiles | None:
    """Of the values that exist; None where there is none."""
    ordered = sorted(value for value in values_ms if value is not None)
    if not ordered:
        return None
    return Quantiles(
        mean_ms=math.fsum(ordered) / len(ordered),
        p50_ms=quantile(ordered, 0.5),
        p90_ms=quantile(ordered, 0.9),
        p99_ms=quantile(ordered, 0.99),
    )
