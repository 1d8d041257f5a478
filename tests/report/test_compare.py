from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from report.compare import points
from report.prices import invoice_usd_per_million, usd_per_million
from spec.record import Record, RunDocument


def with_rates(record: Record, layout_rates: dict[str, list[float]]) -> list[Record]:
    """Valid records of one concurrency, one series a gateway name."""
    assert record.figures is not None
    return [
        record.model_copy(
            update={
                "cell": record.cell.model_copy(update={"gateway": gateway, "repeat": repeat}),
                "figures": record.figures.model_copy(update={"output_tok_per_s": rate}),
            }
        )
        for gateway, rates in layout_rates.items()
        for repeat, rate in enumerate(rates, 1)
    ]


def ranks(records: list[Record]) -> dict[str, int | None]:
    return {point.series: point.rank for point in points(records)}


def test_one_repeat_has_neither_interval_nor_rank(local: RunDocument) -> None:
    assert {(point.low, point.high, point.rank) for point in points(local.cells)} == {(None, None, None)}


def test_invalid_cells_are_left_out(local: RunDocument) -> None:
    invalid = {str(record.cell) for record in local.cells if not record.valid}
    kept = {f"{point.series}-c{point.concurrency}-r1" for point in points(local.cells)}
    assert invalid
    assert not invalid & kept


def test_cells_that_repeats_cannot_tell_apart_share_a_rank(local: RunDocument) -> None:
    rates = {"fast": [200.0, 201.0, 202.0], "slow": [100.0, 104.0, 102.0], "alike": [101.0, 103.0, 105.0]}
    found = ranks(with_rates(local.cells[0], rates))
    assert found == {"DP2xTP1-fast": 1, "DP2xTP1-slow": 2, "DP2xTP1-alike": 2}


def test_interval_is_students(local: RunDocument) -> None:
    (point,) = points(with_rates(local.cells[0], {"none": [9.0, 10.0, 11.0]}))
    assert point.low == pytest.approx(7.516, abs=0.001)
    assert point.high == pytest.approx(12.484, abs=0.001)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rates=st.lists(st.floats(1, 1e6), min_size=2, max_size=12))
def test_interval_holds_its_mean(local: RunDocument, rates: list[float]) -> None:
    (point,) = points(with_rates(local.cells[0], {"none": rates}))
    assert point.low is not None
    assert point.high is not None
    assert 0 <= point.low <= point.output_tok_per_s <= point.high
    assert point.rank == 1


def test_the_invoice_counts_everything_paid_over_valid_tokens(gpu: RunDocument) -> None:
    tokens = sum(record.figures.output_tokens for record in gpu.cells if record.valid and record.figures)
    assert invoice_usd_per_million(gpu) == usd_per_million(Decimal("42.89"), tokens)


def test_no_tokens_have_no_price() -> None:
    assert usd_per_million(Decimal(1), 0) is None
