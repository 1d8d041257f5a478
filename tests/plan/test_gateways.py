"""Each gateway as a real process, in front of servers that behave on the wire as llama.cpp does."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import httpx
import pytest

from plan.gateway import GATEWAYS, gateway
from plan.gateways import vllm_router
from plan.launch import SYSTEM_PATH, Launch, Placement, Replica
from spec import home
from spec.errors import RecipeError
from spec.layout import LayoutShape
from tests.plan.fake_llama import FakeLlama

REAL = ("nginx", "haproxy", "vllm-router")

AUTHORIZATION = {"Authorization": "Bearer secret"}
BODY = {"model": "smollm2", "messages": [{"role": "user", "content": "hello"}], "stream": True}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def placement(name: str, ports: Sequence[int]) -> Placement:
    replicas = tuple(Replica(i, 0, (i,), "127.0.0.1", port) for i, port in enumerate(ports))
    return Placement(LayoutShape(dp=len(ports)), replicas, name, 0, "127.0.0.1", free_port(), free_port(), 0)


@contextlib.contextmanager
def running(name: str, folder: Path, ports: Sequence[int]) -> Iterator[str]:
    """The gateway as a process, its own check passed; its URL."""
    at = placement(name, ports)
    launch = gateway(name).launch(name, at)
    assert launch is not None
    fills = {"{dir}": str(folder), "{env}": environment(launch)}
    folder.chmod(0o700)
    for file, text in launch.files:
        (folder / file).write_text(text)
    if launch.check:
        subprocess.run(filled(launch.check, fills), check=True, capture_output=True, env=dict(launch.env), timeout=20)
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(filled(launch.argv, fills), env=dict(launch.env), stdout=log, stderr=log) as process,
    ):
        try:
            wait_for(f"{at.endpoints[0]}{launch.health}")
            yield at.endpoints[0]
        finally:
            process.terminate()


def environment(launch: Launch) -> str:
    """Folder of the tool's environment; skips the test where the program is not here."""
    if launch.tool:
        made = sorted((home.cache() / "envs").glob(f"{launch.tool}-*/bin/{launch.tool}"))
        if not made:
            pytest.skip(f"no environment of {launch.tool} was made here")
        return str(made[-1].parent.parent)
    if shutil.which(launch.argv[0], path=SYSTEM_PATH[1]) is None:
        pytest.skip(f"{launch.argv[0]} is not installed here")
    return ""


def filled(argv: Sequence[str], fills: Mapping[str, str]) -> list[str]:
    for mark, value in fills.items():
        argv = [part.replace(mark, value) for part in argv]
    return list(argv)


def wait_for(url: str) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(url, timeout=5, trust_env=False).status_code == 200:
                return
        time.sleep(0.05)
    raise AssertionError(f"{url} never answered 200")


async def ask(url: str, count: int, concurrency: int) -> list[int]:
    """Status of each of `count` streamed requests, so many at once, as a client that keeps its connections."""
    turns = asyncio.Semaphore(concurrency)

    async def one(client: httpx.AsyncClient) -> int:
        async with turns:
            response = await client.post(f"{url}/v1/chat/completions", json=BODY, headers=AUTHORIZATION)
            return response.status_code if response.text.count("data: ") == 3 else 0

    async with httpx.AsyncClient(timeout=20, trust_env=False) as client:
        return await asyncio.gather(*(one(client) for _ in range(count)))


@pytest.mark.parametrize("name", REAL)
def test_server_that_closes_after_a_stream_costs_no_request(name: str, tmp_path: Path) -> None:
    with FakeLlama() as one, FakeLlama() as two, running(name, tmp_path, [one.port, two.port]) as url:
        assert asyncio.run(ask(url, 96, 16)) == [200] * 96
        asked = [sum(line.startswith("POST") for line, _ in server.requests) for server in (one, two)]
    assert sum(asked) == 96
    assert min(asked) > 24, "spread over both"


@pytest.mark.parametrize("name", REAL)
def test_token_leaves_when_it_comes(name: str, tmp_path: Path) -> None:
    with FakeLlama(gap_s=1.0) as server, running(name, tmp_path, [server.port]) as url:
        began = time.monotonic()
        with httpx.stream("POST", f"{url}/v1/chat/completions", json=BODY, timeout=20, trust_env=False) as response:
            arrivals = [time.monotonic() - began for text in response.iter_raw() if b"data" in text]
    assert len(arrivals) == 3, "one packet a token"
    assert arrivals[0] < 0.9
    assert arrivals[1] < 1.9


@pytest.mark.parametrize("name", REAL)
def test_key_and_health_pass_through(name: str, tmp_path: Path) -> None:
    with FakeLlama() as server, running(name, tmp_path, [server.port]) as url:
        assert httpx.get(f"{url}/health", trust_env=False).status_code == 200
        httpx.post(f"{url}/v1/chat/completions", json=BODY, headers=AUTHORIZATION, trust_env=False)
        line, headers = next(request for request in server.requests if request[0].startswith("POST"))
    assert line.startswith("POST /v1/chat/completions ")
    assert headers["authorization"] == "Bearer secret"


@pytest.mark.parametrize(("name", "tries"), [("nginx", 1), ("haproxy", 1), ("vllm-router", vllm_router.TRIES)])
def test_failure_of_every_server_shows(name: str, tries: int, tmp_path: Path) -> None:
    with FakeLlama(mute=True) as one, FakeLlama(mute=True) as two, running(name, tmp_path, [one.port, two.port]) as url:
        assert httpx.post(f"{url}/v1/chat/completions", json=BODY, trust_env=False).status_code in (500, 502)
        asked = [line for server in (one, two) for line, _ in server.requests if line.startswith("POST")]
    assert len(asked) == tries


@pytest.mark.parametrize("name", REAL)
def test_long_prompt_passes(name: str, tmp_path: Path) -> None:
    with FakeLlama() as server, running(name, tmp_path, [server.port]) as url:
        body = {**BODY, "messages": [{"role": "user", "content": "x" * 3_000_000}]}
        assert httpx.post(f"{url}/v1/chat/completions", json=body, trust_env=False).status_code == 200


@pytest.mark.parametrize("name", sorted(set(GATEWAYS) - {"none"}))
def test_gateway_needs_no_root(name: str) -> None:
    launch = gateway(name).launch("g", placement(name, [18001]))
    assert launch is not None
    text = " ".join([*launch.argv, *(text for _, text in launch.files)])
    assert launch.port >= 1024
    assert "sudo" not in text
    assert "/var/" not in text
    assert "/run/" not in text


def test_vllm_router_arguments() -> None:
    at = placement("vllm-router", [18001, 18002])
    launch = gateway("vllm-router").launch("g", at)
    assert launch is not None
    argv = launch.argv
    assert argv[argv.index("--policy") + 1] == "round_robin", "its default sends two more requests for each"
    assert argv[argv.index("--prometheus-port") + 1] == str(at.gateway_own_port)
    assert at.gateway_own_port != at.gateway_port
    assert argv[argv.index("--worker-urls") + 1 :] == ("http://127.0.0.1:18001", "http://127.0.0.1:18002")


def test_none_starts_nothing() -> None:
    assert gateway("none").launch("g", placement("none", [18001])) is None


def test_unknown_gateway_names_the_known() -> None:
    with pytest.raises(RecipeError, match=r"unknown gateway 'ngix'; there are none, nginx, haproxy, vllm-router"):
        gateway("ngix")
