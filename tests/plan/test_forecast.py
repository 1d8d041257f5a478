from __future__ import annotations

from typing import Any

import pytest

from plan.forecast import forecast
from spec import load
from spec.layout import LayoutShape
from spec.recipe import Campaign

LOCAL = load.campaign(load.RECIPES / "campaigns" / "local.yaml")
ONE, TWO = LayoutShape(dp=1), LayoutShape(dp=2)


def edited(part: str, **changes: Any) -> Campaign:
    return LOCAL.model_copy(update={part: getattr(LOCAL, part).model_copy(update=changes)})


def test_one_request_at_a_time_is_prefill_and_decode_one_after_the_other() -> None:
    assert forecast(LOCAL, ONE, 1).output_tok_per_s == pytest.approx(32 / (64 / 323 + 32 / 90))


def test_second_replica_helps_only_a_second_request() -> None:
    assert forecast(LOCAL, TWO, 1).output_tok_per_s == forecast(LOCAL, ONE, 1).output_tok_per_s
    assert forecast(LOCAL, TWO, 2).output_tok_per_s == 2 * forecast(LOCAL, ONE, 1).output_tok_per_s


def test_more_in_flight_is_never_slower_and_ends_at_the_slots() -> None:
    rates = [forecast(LOCAL, TWO, count).output_tok_per_s for count in (1, 2, 3, 4, 8, 16, 64)]
    assert rates == sorted(rates)
    assert rates[-1] == rates[-3], "two replicas of 4 slots work on 8"


def test_gain_lies_on_straight_lines_between_measured_points() -> None:
    at = {count: 32 / forecast(edited("workload", isl_tokens=1), ONE, count).output_tok_per_s for count in (1, 2, 4)}
    gains = {count: 32 / (seconds - 1 / 323) / 90 for count, seconds in at.items()}
    assert gains == pytest.approx({1: 1.0, 2: 1.0 + 0.4 / 3, 4: 1.4})


def test_cached_prefix_is_not_read_again() -> None:
    shared = edited("workload", shared_prefix_tokens=32)
    cached = shared.model_copy(update={"engine": LOCAL.engine.model_copy(update={"prefix_cache": True})})
    assert forecast(shared, ONE, 1) == forecast(LOCAL, ONE, 1)
    assert forecast(cached, ONE, 1).output_tok_per_s == pytest.approx(32 / (32 / 323 + 32 / 90))


def test_interval_and_source_are_told() -> None:
    found = forecast(LOCAL, ONE, 1)
    assert (found.low, found.high) == (found.output_tok_per_s * 0.3, found.output_tok_per_s * 2)
    assert found.source.startswith("from speeds measured on 2 virtual cores")


@pytest.mark.parametrize(
    ("campaign", "layout", "missing"),
    [
        (edited("cluster", gpu="b300"), ONE, "smollm2 in llamacpp on b300 with TP1"),
        (LOCAL, LayoutShape(dp=1, tp=8), "smollm2 in llamacpp on cpu with TP8"),
    ],
)
def test_without_a_measurement_there_is_no_forecast(campaign: Campaign, layout: LayoutShape, missing: str) -> None:
    found = forecast(campaign, layout, 1)
    assert found.output_tok_per_s == found.low == found.high == 0
    assert found.source == f"no forecast: nothing measured for {missing}"
