from dataclasses import replace

import pytest

from report.checks import Window, checks, valid
from spec.recipe import Workload
from spec.record import RequestRecord

WORKLOAD = Workload(name="short", isl_tokens=64, osl_tokens=32, requests=4)
SHARED = WORKLOAD.model_copy(update={"shared_prefix_tokens": 40})
FINE = Window(workload=WORKLOAD, concurrency=2, stand_in=True, rc=0)


def answer(index: int, input_tokens: int = 94, output_tokens: int = 32) -> RequestRecord:
    """Two workers, one answer a second each."""
    start = 100.0 + index // 2
    return RequestRecord(
        started_s=start,
        first_token_s=start + 0.2,
        ended_s=start + 1.0,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        ok=True,
    )


def failed(index: int) -> RequestRecord:
    return answer(index).model_copy(
        update={"ok": False, "error": "502 Bad Gateway", "first_token_s": None, "output_tokens": 0}
    )


ANSWERS = [answer(index) for index in range(4)]


def named(*prompts: str) -> list[RequestRecord]:
    return [one.model_copy(update={"prompt": prompt}) for one, prompt in zip(ANSWERS, prompts)]


def cached(tokens: int) -> list[RequestRecord]:
    return [one.model_copy(update={"cached_tokens": tokens}) for one in ANSWERS]


def outcomes(requests: list[RequestRecord], window: Window = FINE) -> dict[str, str]:
    return {check.name: check.outcome for check in checks(requests, window)}


def test_a_clean_cell_is_valid_and_says_what_did_not_apply() -> None:
    found = outcomes(ANSWERS)
    assert valid(checks(ANSWERS, FINE))
    assert [name for name, outcome in found.items() if outcome == "not applicable"] == [
        "distinct prompts",
        "prefix cache",
        "client headroom",
        "replica balance",
    ]


@pytest.mark.parametrize(
    ("requests", "window", "name", "outcome"),
    [
        (ANSWERS[:3], FINE, "answered", "fail"),
        ([*ANSWERS, answer(4)], FINE, "answered", "fail"),
        ([*ANSWERS[:3], failed(3)], FINE, "errors", "fail"),
        ([*ANSWERS[:3], answer(3, output_tokens=0)], FINE, "not empty", "fail"),
        ([*ANSWERS[:3], answer(3, output_tokens=30)], FINE, "output length", "fail"),
        ([*ANSWERS[:3], answer(3, output_tokens=31)], FINE, "output length", "pass"),
        ([], FINE, "output length", "unknown"),
        ([answer(index, input_tokens=128) for index in range(4)], FINE, "input length", "fail"),
        ([answer(index, input_tokens=20) for index in range(4)], FINE, "input length", "fail"),
        ([], FINE, "input length", "unknown"),
        ([answer(2 * index) for index in range(4)], replace(FINE, concurrency=4), "load", "fail"),
        ([], FINE, "load", "unknown"),
        (named("a", "b", "c", "d"), FINE, "distinct prompts", "pass"),
        (named("a", "b", "c", "c"), FINE, "distinct prompts", "fail"),
        (cached(0), replace(FINE, prefix_cache=False), "prefix cache", "pass"),
        (cached(9), replace(FINE, prefix_cache=False), "prefix cache", "fail"),
        (cached(9), replace(FINE, prefix_cache=True), "prefix cache", "pass"),
        (cached(30), replace(FINE, prefix_cache=True, workload=SHARED), "prefix cache", "pass"),
        (cached(9), replace(FINE, prefix_cache=True, workload=SHARED), "prefix cache", "fail"),
        (ANSWERS, replace(FINE, dead=("server-1",)), "no server died", "fail"),
        (ANSWERS, replace(FINE, lost_s=3600.0), "machine awake", "fail"),
        (ANSWERS, replace(FINE, lost_s=0.5), "machine awake", "pass"),
        (ANSWERS, replace(FINE, stand_in=False), "client headroom", "unknown"),
        (ANSWERS, replace(FINE, rc=1), "load generator", "fail"),
        (ANSWERS, replace(FINE, rc=None), "load generator", "unknown"),
    ],
)
def test_each_check_judges_one_thing(requests: list[RequestRecord], window: Window, name: str, outcome: str) -> None:
    found = checks(requests, window)
    assert next(check.outcome for check in found if check.name == name) == outcome
    assert valid(found) is (outcome == "pass")


def test_error_messages_are_quoted_with_their_count() -> None:
    found = checks([failed(index) for index in range(4)], FINE)
    assert next(check.detail for check in found if check.name == "errors") == "4 x 502 Bad Gateway"
