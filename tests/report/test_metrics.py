import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from report import metrics
from report.figures import figures
from spec.record import Figures, RequestRecord

EPOCH_S = 1_800_000_000.0


@st.composite
def requests(draw: st.DrawFn) -> RequestRecord:
    started_s = EPOCH_S + draw(st.floats(0, 600))
    ttft_s = draw(st.floats(0, 60))
    decode_s = draw(st.floats(0, 60))
    ok = draw(st.booleans())
    tokens = draw(st.integers(0, 4096))
    gaps = draw(st.lists(st.floats(0, 1000), max_size=5))
    return RequestRecord(
        started_s=started_s,
        first_token_s=started_s + ttft_s if ok and tokens else None,
        ended_s=started_s + ttft_s + decode_s,
        input_tokens=draw(st.integers(0, 4096)),
        output_tokens=tokens,
        ok=ok,
        itl_ms=tuple(gaps),
    )


def request(start: float, first: float | None, end: float, tokens: int = 5, ok: bool = True) -> RequestRecord:
    return RequestRecord(
        started_s=start,
        first_token_s=first,
        ended_s=end,
        input_tokens=10,
        output_tokens=tokens,
        ok=ok,
        itl_ms=(1.0, 2.0),
    )


def test_each_metric_follows_its_formula() -> None:
    one = request(100.0, 100.5, 102.5)
    assert (metrics.ttft_ms(one), metrics.e2e_ms(one), metrics.tpot_ms(one)) == (500.0, 2500.0, 500.0)


def test_tpot_needs_two_tokens() -> None:
    assert metrics.tpot_ms(request(0.0, 1.0, 2.0, tokens=1)) is None


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1.0), (0.5, 2.5), (0.9, 3.7), (1.0, 4.0)])
def test_quantiles_are_linear_between_order_statistics(share: float, expected: float) -> None:
    assert metrics.quantile([1.0, 2.0, 3.0, 4.0], share) == pytest.approx(expected)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50))
def test_quantiles_stand_in_order_inside_the_values(values: list[float]) -> None:
    found = metrics.quantiles(values)
    assert found is not None
    slack = 1e-9 * max(values)
    assert min(values) - slack <= found.p50_ms <= found.p90_ms + slack
    assert found.p90_ms - slack <= found.p99_ms <= max(values) + slack
    assert min(values) - slack <= found.mean_ms <= max(values) + slack


def test_no_value_has_no_quantiles() -> None:
    assert metrics.quantiles([None]) is None


def test_throughput_counts_from_first_send_to_last_token() -> None:
    found = figures([request(100.0, 101.0, 102.0), request(102.0, 102.5, 104.0)])
    assert found is not None
    assert (found.duration_s, found.output_tok_per_s, found.total_tok_per_s) == (4.0, 2.5, 7.5)
    assert (found.requests_per_s, found.in_flight_mean) == (0.5, 1.0)


def test_a_failed_request_counts_as_sent_and_gives_no_tokens() -> None:
    found = figures([request(100.0, 101.0, 102.0), request(98.0, None, 110.0, tokens=0, ok=False)])
    assert found is not None
    assert (found.requests, found.answered, found.errors, found.output_tokens) == (2, 1, 1, 5)
    assert found.duration_s == 4.0


@pytest.mark.parametrize(
    "sent",
    [[], [request(0.0, None, 1.0, ok=False)], [request(0.0, None, 1.0, tokens=0)], [request(5.0, 5.0, 5.0)]],
    ids=["nothing sent", "all failed", "only empty answers", "no time passed"],
)
def test_nothing_to_measure_has_no_figures(sent: list[RequestRecord]) -> None:
    assert figures(sent) is None


@given(st.lists(requests(), max_size=20))
def test_figures_keep_their_bounds_and_survive_json(sent: list[RequestRecord]) -> None:
    found = figures(sent)
    if found is None:
        return
    assert found.answered + found.errors <= found.requests == len(sent)
    assert 0 <= found.output_tok_per_s <= found.total_tok_per_s
    assert found.in_flight_mean <= found.answered + 1e-6
    assert found.ttft.p50_ms <= found.e2e.p99_ms + 1e-3
    assert all(math.isfinite(value) for value in (found.output_tok_per_s, found.requests_per_s, found.e2e.mean_ms))
    assert Figures.model_validate_json(found.model_dump_json()) == found


@given(requests())
def test_a_request_survives_json(one: RequestRecord) -> None:
    assert RequestRecord.model_validate_json(one.model_dump_json()) == one
