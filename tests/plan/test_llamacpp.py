from __future__ import annotations

import re
from typing import Any

import pytest

from plan.engines import llamacpp
from plan.launch import Launch, Replica
from spec import load
from spec.recipe import Engine

LOCAL = load.campaign(load.RECIPES / "campaigns" / "local.yaml")


def launched(gpus: tuple[int, ...] = (0,), **engine: Any) -> Launch:
    campaign = LOCAL.model_copy(update={"engine": Engine(name="llamacpp", **engine)})
    return llamacpp.launch("server", Replica(0, 1, gpus, "127.0.0.1", 21000), campaign, key=False)


def test_arguments() -> None:
    launch = launched(slots=8, context_tokens=1024, prefix_cache=True, speculation="ngram-mod")
    assert " ".join(launch.argv) == (
        "{env}/bin/python {dir}/llamacpp_server.py --model {model}/model.gguf --host 127.0.0.1 --port 21000 "
        "--threads 1 --slots 8 --context-tokens 1024 --alias smollm2 --prefix-cache --speculation ngram-mod"
    )
    assert (launch.tool, launch.model, launch.node, launch.health) == ("llamacpp", "smollm2", 1, "/health")


def test_knobs_that_are_off_are_not_passed() -> None:
    assert not {"--prefix-cache", "--speculation"} & set(launched().argv)


def test_threads_wait_without_spinning_where_there_are_several() -> None:
    assert launched((0, 1)).env == (("OMP_WAIT_POLICY", "passive"),)
    assert launched((0,)).env == ()


@pytest.mark.parametrize(
    "line",
    [
        "0.00.002.035 E srv         start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 21999",
        "0.00.009.784 E cmn  common_init_: failed to load model '/tmp/bad.gguf'",
        "model file /tmp/none.gguf does not exist",
        "Illegal instruction (core dumped)",
    ],
)
def test_log_line_that_means_it_will_not_come_up(line: str) -> None:
    assert any(re.search(pattern, line) for pattern in llamacpp.FATAL)


@pytest.mark.parametrize("line", ["listening on 127.0.0.1:21000", "W srv init: security: no API key is set"])
def test_harmless_log_line(line: str) -> None:
    assert not any(re.search(pattern, line) for pattern in llamacpp.FATAL)
