"""A real AIPerf export, some of whose requests failed or were cut short though AIPerf ended with 0."""

from pathlib import Path

import pytest

from plan.loads import aiperf
from report.checks import Window, checks, valid
from report.figures import figures
from spec.recipe import Workload

EXPORT = Path(__file__).parents[1] / "data" / "aiperf" / "profile_export.jsonl"
WORKLOAD = Workload(name="short", isl_tokens=64, osl_tokens=32, requests=10)


def test_a_clean_exit_code_does_not_make_a_cell_valid() -> None:
    found = checks(aiperf.read(EXPORT.read_text()), Window(WORKLOAD, concurrency=4, stand_in=True, rc=0))
    assert not valid(found)
    assert [check.name for check in found if check.outcome == "fail"] == ["errors", "answered"]


def test_only_answers_count() -> None:
    counted = figures(aiperf.read(EXPORT.read_text()))
    assert counted is not None
    assert (counted.requests, counted.answered, counted.errors) == (10, 6, 4)
    assert (counted.isl_mean_tokens, counted.osl_mean_tokens) == (94.0, 32.0)
    assert counted.output_tok_per_s == pytest.approx(192 / counted.duration_s)
