"""From the requests of one cell to its figures."""

from __future__ import annotations

from collections.abc import Sequence

from report import metrics
from spec.record import Figures, RequestRecord


def figures(requests: Sequence[RequestRecord]) -> Figures | None:
    """Counted from the requests themselves; None where none was answered, or all stand in one instant.

    Throughput counts the tokens of answered requests over the window from the first send to the last token, so the ramp
    at its start and the drain at its end are inside: a short run reads a little low.
    """
    answers = [request for request in requests if metrics.answered(request)]
    seconds = metrics.window_s(requests)
    ttft = metrics.quantiles(map(metrics.ttft_ms, answers))
    e2e = metrics.quantiles(map(metrics.e2e_ms, answers))
    if ttft is None or e2e is None or seconds == 0:
        return None
    input_tokens = sum(request.input_tokens for request in answers)
    output_tokens = sum(request.output_tokens for request in answers)
    return Figures(
        requests=len(requests),
        answered=len(answers),
        errors=sum(not request.ok for request in requests),
        duration_s=seconds,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        isl_mean_tokens=input_tokens / len(answers),
        osl_mean_tokens=output_tokens / len(answers),
        output_tok_per_s=output_tokens / seconds,
        total_tok_per_s=(input_tokens + output_tokens) / seconds,
        requests_per_s=len(answers) / seconds,
        in_flight_mean=metrics.in_flight_mean(answers, seconds),
        ttft=ttft,
        tpot=metrics.quantiles(map(metrics.tpot_ms, answers)),
        itl=metrics.quantiles(gap for request in answers for gap in metrics.itl_ms(request)),
        e2e=e2e,
    )
