"""Sample runs, made from requests by the project's own figures and checks."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from report.checks import Window, checks, valid
from report.figures import figures
from report.prices import usd_per_million
from spec.layout import LayoutShape
from spec.ledger import Resource
from spec.receipt import Line, Receipt
from spec.recipe import CellKey, Workload
from spec.record import Forecast, Phase, Record, RequestRecord, RunDocument

BEGAN = datetime(2026, 11, 30, 21, 40, tzinfo=UTC)
LOCAL = Workload(name="short", isl_tokens=64, osl_tokens=32, requests=24, warmup_requests=4)
CHAT = Workload(name="chat", isl_tokens=1024, osl_tokens=512, requests=256, warmup_requests=32)
PLAN = """\
campaign  local                  2 nodes of local-cpu2, one repeat
boot 1    DP2xTP1                servers on 127.0.0.1:20000 and 127.0.0.1:20100
  cells   none c1, none c4, nginx c1, nginx c4
boot 2    DP1xTP2                server on 127.0.0.1:20000
  cells   none c1, none c4
worst     $0.0200                2 nodes x 0.25 h x $0.04, rounded up to 60 s; budget $1.00
"""


def requests(key: CellKey, workload: Workload, ttft_s: float, tpot_s: float, failing: int = 0) -> list[RequestRecord]:
    """A closed loop of `concurrency` workers; the last `failing` requests get a 502."""
    dice = random.Random(f"{key}-{workload.seed}")
    free_at = [BEGAN.timestamp() + 0.01 * worker for worker in range(key.concurrency)]
    made = []
    for index in range(workload.requests):
        worker = min(range(key.concurrency), key=free_at.__getitem__)
        ok = index < workload.requests - failing
        made.append(_request(dice, free_at[worker], workload, ttft_s, tpot_s, ok))
        free_at[worker] = made[-1].ended_s + 0.001
    return made


def _request(
    dice: random.Random, start: float, workload: Workload, ttft_s: float, tpot_s: float, ok: bool
) -> RequestRecord:
    first = start + ttft_s * dice.lognormvariate(0, 0.2)
    gaps = [tpot_s * dice.lognormvariate(0, 0.1) for _ in range(workload.osl_tokens - 1)]
    return RequestRecord(
        started_s=start,
        first_token_s=first if ok else None,
        ended_s=first + sum(gaps) if ok else first,
        input_tokens=workload.isl_tokens + 30,
        output_tokens=workload.osl_tokens if ok else 0,
        ok=ok,
        error="" if ok else "502 Bad Gateway",
        itl_ms=tuple(1000 * gap for gap in gaps) if ok else (),
    )


def cell(
    run: str,
    key: CellKey,
    workload: Workload,
    speed: tuple[float, float],
    *,
    stand_in: bool,
    usd_per_hour: Decimal,
    failing: int = 0,
    dead: tuple[str, ...] = (),
) -> Record:
    """`speed` is TTFT and TPOT in seconds."""
    sent = requests(key, workload, *speed, failing=failing)
    window = Window(workload, key.concurrency, stand_in=stand_in, rc=0, dead=dead, lost_s=0.1)
    found, seen = checks(sent, window), figures(sent)
    if not stand_in:
        measured = {"outcome": "pass", "detail": "client on a machine of its own, 31 % busy"}
        found = tuple(check.model_copy(update=measured) if check.outcome == "unknown" else check for check in found)
    assert seen is not None
    usd = (usd_per_hour * Decimal(str(seen.duration_s)) / 3600).quantize(Decimal("0.000001"))
    return Record(
        run=run,
        cell=key,
        simulated=stand_in,
        engine="llamacpp" if stand_in else "vllm",
        model="smollm2" if stand_in else "qwen3-32b-fp8",
        workload=workload,
        forecast=Forecast(
            output_tok_per_s=seen.output_tok_per_s * 0.9,
            low=seen.output_tok_per_s * 0.6,
            high=seen.output_tok_per_s * 1.3,
            source="calibration of 2026-11",
        ),
        started_at=BEGAN + timedelta(seconds=40),
        ended_at=BEGAN + timedelta(seconds=40 + seen.duration_s),
        figures=seen,
        checks=found,
        valid=valid(found),
        commands=(
            (
                "{env}/bin/aiperf profile -m smollm2 --url http://127.0.0.1:20000 --endpoint-type chat --streaming "
                f"--isl 64 --osl 32 --concurrency {key.concurrency} --request-count {workload.requests}"
            ),
            "{env}/bin/python server.py --port 20000 --threads 1 --slots 4",
        ),
        versions={"aiperf": "0.12.0", "xllamacpp": "2026.10.11549"},
        usd=usd,
        usd_per_million_output_tokens=usd_per_million(usd, seen.output_tokens) if valid(found) else None,
        evidence=(f"cells/{key}/profile_export.jsonl", f"cells/{key}/server-0.log"),
    )


def key(dp: int, tp: int, gateway: str, concurrency: int, repeat: int = 1) -> CellKey:
    return CellKey(layout=LayoutShape(dp=dp, tp=tp), gateway=gateway, concurrency=concurrency, repeat=repeat)


def line(run: str, index: int, usd: str, *, proven: bool = True) -> Line:
    kind = "machine" if index < 2 else "disk"
    return Line(
        resource=Resource(cloud="local", region="local-a", kind=kind, id=f"n-{index:08x}", name=f"{run}-{index}"),
        created_at=BEGAN + timedelta(seconds=5),
        deleted_at=BEGAN + timedelta(seconds=190) if proven else None,
        absent_at=tuple(BEGAN + timedelta(seconds=at) for at in (192, 194)) if proven else (),
        usd=Decimal(usd),
        cloud_usd=Decimal(usd),
        proven=proven,
        note="" if proven else "delete was refused twice: dependent disk",
    )


def receipt(run: str, lines: tuple[Line, ...], *, simulated: bool, budget_usd: str) -> Receipt:
    open_ids = [found.resource.id for found in lines if not found.proven]
    usd = sum((found.usd for found in lines), Decimal(0))
    return Receipt(
        run=run,
        simulated=simulated,
        budget_usd=Decimal(budget_usd),
        usd=usd,
        cloud_usd=usd,
        burned_usd=Decimal("0.0003"),
        lines=lines,
        unproven=tuple(f"{name} was not listed as absent; go on with: megatok down {run}" for name in open_ids),
        proven=not open_ids,
        ledger="file:///home/user/.megatok/ledger",
        ledger_head="9f2b7c0d" * 8,
        written_at=BEGAN + timedelta(seconds=200),
    )


def phases(*names_seconds: tuple[str, float, float]) -> tuple[Phase, ...]:
    at, made = BEGAN, []
    for name, seconds, own_s in names_seconds:
        made.append(Phase(name=name, started_at=at, seconds=seconds, own_s=own_s))
        at += timedelta(seconds=seconds)
    return tuple(made)


def local_document() -> RunDocument:
    """Six cells on CPU, one of them invalid; the receipt is proven."""
    run, price = "local-1130-214000-ab12", Decimal("0.04")
    speeds = {
        key(2, 1, "none", 1): (0.11, 0.0090),
        key(2, 1, "none", 4): (0.42, 0.0240),
        key(2, 1, "nginx", 1): (0.12, 0.0091),
        key(2, 1, "nginx", 4): (0.44, 0.0250),
        key(1, 2, "none", 1): (0.21, 0.0150),
        key(1, 2, "none", 4): (0.75, 0.0370),
    }
    broken = key(2, 1, "nginx", 4)
    cells = tuple(
        cell(
            run,
            name,
            LOCAL,
            speed,
            stand_in=True,
            usd_per_hour=price,
            failing=5 if name == broken else 0,
            dead=("server-1",) if name == broken else (),
        )
        for name, speed in speeds.items()
    )
    return RunDocument(
        run=run,
        title="SmolLM2 on two nodes: two servers or two threads?",
        recipe="recipes/campaigns/local.yaml",
        simulated=True,
        stand_in="cpu",
        exit_code=6,
        message=f"1 of 6 cells is invalid: {broken}; its log is in cells/{broken}",
        phases=phases(
            ("plan", 0.4, 0.4),
            ("provision", 6.2, 6.2),
            ("prepare", 2.9, 2.9),
            ("gate", 1.1, 1.1),
            ("serve", 7.5, 7.5),
            ("measure", 151.8, 9.6),
            ("collect", 1.2, 1.2),
            ("destroy", 3.3, 3.3),
        ),
        cells=cells,
        receipt=receipt(run, (line(run, 0, "0.0021"), line(run, 1, "0.002083")), simulated=True, budget_usd="1.00"),
        folder=f"~/.megatok/runs/{run}",
        plan=PLAN,
    )


def gpu_document() -> RunDocument:
    """Three repeats on GPUs, one point with an invalid repeat, and a disk that nobody has seen gone."""
    run, price = "b300-1130-214000-cd34", Decimal("48.50")
    speeds = {(8, 1, 64): (0.09, 0.0098), (1, 8, 64): (0.06, 0.0105), (8, 1, 128): (0.15, 0.0121)}
    cells = tuple(
        cell(
            run,
            key(dp, tp, "vllm-router", concurrency, repeat),
            CHAT.model_copy(update={"seed": repeat}),
            (ttft_s, tpot_s * (1 + 0.004 * repeat)),
            stand_in=False,
            usd_per_hour=price,
            failing=3 if (dp, concurrency, repeat) == (8, 128, 2) else 0,
        )
        for (dp, tp, concurrency), (ttft_s, tpot_s) in speeds.items()
        for repeat in (1, 2, 3)
    )
    lines = (line(run, 0, "21.34"), line(run, 1, "21.36"), line(run, 2, "0.19", proven=False))
    return RunDocument(
        run=run,
        title="DP8 or TP8 for chat on B300?",
        recipe="recipes/campaigns/b300-chat.yaml",
        simulated=False,
        stand_in=None,
        exit_code=7,
        message="teardown unproven: n-00000002 may still be billed; go on with: megatok down b300-1130-214000-cd34",
        phases=phases(("provision", 340.0, 340.0), ("measure", 1900.0, 160.0), ("destroy", 95.0, 95.0)),
        cells=cells,
        receipt=receipt(run, lines, simulated=False, budget_usd="200.00"),
        folder=f"~/.megatok/runs/{run}",
    )


def refused_document() -> RunDocument:
    """A run that never began."""
    return RunDocument(
        run="",
        title="",
        recipe="recipes/campaigns/none.yaml",
        simulated=False,
        stand_in=None,
        exit_code=3,
        message="the worst case is $0.02, the budget is $0.01; raise budget_usd",
        phases=(),
        cells=(),
        receipt=None,
        folder="",
    )


@pytest.fixture(scope="session")
def local() -> RunDocument:
    return local_document()


@pytest.fixture(scope="session")
def gpu() -> RunDocument:
    return gpu_document()


@pytest.fixture(scope="session")
def refused() -> RunDocument:
    return refused_document()
