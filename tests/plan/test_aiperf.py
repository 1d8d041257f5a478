from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from plan.launch import API_KEY, Placement, Seat
from plan.loads import aiperf
from plan.placement import place
from spec import load
from spec.errors import ResultInvalid
from spec.inventory import Ports
from spec.layout import LayoutShape
from spec.recipe import Workload

SAMPLE = (Path(__file__).parent.parent / "data" / "aiperf" / "profile_export.jsonl").read_text()
LOCAL = load.campaign(load.RECIPES / "campaigns" / "local.yaml")
SEATS = [Seat(f"n-{i}", "127.0.0.1", 2, Ports(first=21000 + 100 * i, count=24)) for i in range(2)]


def placement(gateway: str) -> Placement:
    return place(LayoutShape(dp=2), gateway, SEATS)


def config(gateway: str = "none", **workload: Any) -> dict[str, Any]:
    changed = LOCAL.model_copy(update={"workload": Workload.model_validate({**dict(LOCAL.workload), **workload})})
    found: dict[str, Any] = aiperf.config(LOCAL.cells()[1], placement(gateway), changed, "{model}")["benchmark"]
    return found


def entry(**changes: Any) -> dict[str, Any]:
    """The first measured and answered request of the sample."""
    lines = map(json.loads, SAMPLE.splitlines())
    good = next(
        line for line in lines if line["metadata"]["benchmark_phase"] == "profiling" and len(line["metrics"]) > 20
    )
    return {**good, **changes}


def test_sample_has_warm_up_apart_and_tells_failures() -> None:
    measured, warmup = aiperf.read(SAMPLE), aiperf.read(SAMPLE, aiperf.WARMUP)
    assert (len(warmup), len(measured)) == (2, 10)
    assert [request.error for request in measured if not request.ok] == [
        '500 Internal Server Error: {"error":{"message":"no slot","code":500}}',
        "cut short: the stream ended without its token count",
        '500 Internal Server Error: {"error":{"message":"no slot","code":500}}',
        "cut short: the stream ended without its token count",
    ]


def test_answered_request_of_the_sample() -> None:
    request = next(request for request in aiperf.read(SAMPLE) if request.ok)
    assert (request.input_tokens, request.output_tokens, request.cached_tokens) == (94, 32, 0)
    assert request.first_token_s is not None
    assert request.first_token_s - request.started_s == pytest.approx(2.04752869, abs=1e-6)
    assert request.ended_s - request.started_s == pytest.approx(3.995091012, abs=1e-6)
    assert len(request.itl_ms) == 31
    gaps_s = sum(request.itl_ms) / 1000
    assert gaps_s == pytest.approx(request.ended_s - request.first_token_s, abs=1e-6), "its unit is ms"


def test_prompts_of_the_sample_are_distinct() -> None:
    measured = aiperf.read(SAMPLE)
    assert len({request.prompt for request in measured}) == len(measured)


def test_request_without_any_token_has_no_first_token() -> None:
    failed = next(request for request in aiperf.read(SAMPLE) if request.error.startswith("500"))
    assert failed.first_token_s is None
    assert failed.output_tokens == 0
    assert failed.ended_s >= failed.started_s


@pytest.mark.parametrize("name", aiperf.METRICS)
def test_metric_in_another_unit_is_refused(name: str) -> None:
    line = entry()
    line["metrics"][name]["unit"] = "furlong"
    with pytest.raises(ResultInvalid, match=f"AIPerf gives {name} in 'furlong', expected"):
        aiperf.read(json.dumps(line))


def test_each_metric_that_we_use_is_in_the_sample() -> None:
    assert set(aiperf.METRICS) <= set(entry()["metrics"])


def test_line_that_was_cut_off_is_left_out() -> None:
    assert len(aiperf.read(SAMPLE[:-200])) == 9
    assert aiperf.read("") == ()


def test_cancelled_request_is_not_answered() -> None:
    line = entry()
    line["metadata"]["was_cancelled"] = True
    assert aiperf.read(json.dumps(line))[0].error == "cancelled"


def test_config_asks_for_what_the_recipe_says() -> None:
    found = config()
    assert found["profiling"] == {"type": "concurrency", "concurrency": 4, "requests": 16}
    assert found["warmup"] == {"type": "concurrency", "concurrency": 4, "requests": 2, "excludeFromResults": True}
    assert found["dataset"]["prompts"] == {"isl": 64, "osl": 32}
    assert found["endpoint"]["extra"] == {"ignore_eos": True, "temperature": 0}


def test_no_prompt_comes_twice() -> None:
    assert config(requests=30, warmup_requests=5)["dataset"]["entries"] == 35


def test_no_warm_up_where_none_is_asked() -> None:
    assert "warmup" not in config(warmup_requests=0)


def test_shared_prefix_is_a_part_of_isl() -> None:
    dataset = config(isl_tokens=100, shared_prefix_tokens=40)["dataset"]
    assert dataset["prompts"]["isl"] == 60
    assert dataset["prefixPrompts"] == {"sharedSystemLength": 40}


def test_without_a_gateway_the_client_asks_every_replica() -> None:
    assert config("none")["endpoint"]["urls"] == ["http://127.0.0.1:21000", "http://127.0.0.1:21100"]
    assert config("nginx")["endpoint"]["urls"] == ["http://127.0.0.1:21001"]


def test_connections_are_never_reused() -> None:
    assert config()["endpoint"]["connectionReuse"] == "never", "llama.cpp closes them, though it announces to keep them"


def test_each_cell_has_prompts_of_its_own() -> None:
    seeds = [aiperf.config(cell, placement(cell.gateway), LOCAL, "x")["randomSeed"] for cell in LOCAL.cells()]
    assert seeds == [7, 8, 9, 10, 11, 12]


def test_key_comes_from_the_environment() -> None:
    cell = LOCAL.cells()[0]
    launch = aiperf.launch(cell, placement("none"), LOCAL, key=True)
    assert launch.secrets == (API_KEY,)
    assert launch.argv == ("{env}/bin/aiperf", "profile", "--config", "{dir}/aiperf.json")
    assert json.loads(launch.files[0][1])["benchmark"]["endpoint"]["apiKey"] == "${MEGATOK_API_KEY:}"
    assert aiperf.launch(cell, placement("none"), LOCAL).secrets == ()
