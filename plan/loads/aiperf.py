"""AIPerf 0.12.0: its configuration for one cell, and its per-request export read as our records.

Its exit code and its summary are not used for figures: it ends with 0 when most requests failed, and counts a stream
that was cut short as answered.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from plan.launch import API_KEY, Launch, Placement
from spec.errors import ResultInvalid
from spec.recipe import Campaign, CellKey
from spec.record import RequestRecord

TOOL = "aiperf"
EXPORT = "artifacts/profile_export.jsonl"
"""Its per-request export, below the process' own folder."""

MEASURED, WARMUP = "profiling", "warmup"
"""Its names of the two phases."""


@dataclass(frozen=True)
class Metric:
    """One of its metrics: our name, the unit that it must come in, and what turns that into ours."""

    ours: str
    unit: str
    per_ours: float


METRICS = {
    "time_to_first_token": Metric("ttft_s", "ms", 1000.0),
    "request_latency": Metric("e2e_s", "ms", 1000.0),
    "inter_chunk_latency": Metric("itl_ms", "ms", 1.0),
    "input_sequence_length": Metric("input_tokens", "tokens", 1.0),
    "output_sequence_length": Metric("output_tokens", "tokens", 1.0),
    "usage_prompt_cache_read_tokens": Metric("cached_tokens", "tokens", 1.0),
}
"""Its `inter_token_latency` is one number a request, our TPOT; our ITL, the gaps, is its `inter_chunk_latency`."""


def launch(
    cell: CellKey, placement: Placement, campaign: Campaign, tokenizer: str = "{model}", *, key: bool = False
) -> Launch:
    """The client of one cell; `tokenizer` is a folder on its node."""
    return Launch(
        name=f"{str(cell).lower()}-client",
        node=placement.client_node,
        tool=TOOL,
        argv=("{env}/bin/aiperf", "profile", "--config", "{dir}/aiperf.json"),
        files=(("aiperf.json", json.dumps(config(cell, placement, campaign, tokenizer), indent=1) + "\n"),),
        # It waits 2 s after each cell for engine metrics, even where it collects none.
        env=(("AIPERF_SERVER_METRICS_COLLECTION_FLUSH_PERIOD", "0"),),
        secrets=(API_KEY,) if key else (),
        model=campaign.model,
    )


def config(cell: CellKey, placement: Placement, campaign: Campaign, tokenizer: str) -> dict[str, Any]:
    """Everything is in the file: options beside a file are not merged into it, and `--api-key` would show in `ps`."""
    workload, load = campaign.workload, {"type": "concurrency", "concurrency": cell.concurrency}
    warmup = {WARMUP: {**load, "requests": workload.warmup_requests, "excludeFromResults": True}}
    return {
        "schemaVersion": "2.0",
        # Each cell has prompts of its own, else a prefix cache would know those of the cell before.
        "randomSeed": workload.seed + campaign.cells().index(cell),
        "benchmark": {
            "model": campaign.model,
            "endpoint": _endpoint(placement),
            "tokenizer": {"name": tokenizer},
            "dataset": _dataset(campaign),
            **(warmup if workload.warmup_requests else {}),
            MEASURED: {**load, "requests": workload.requests},
            "artifacts": {"dir": "{dir}/artifacts"},
            "gpuTelemetry": {"enabled": False},
            "serverMetrics": {"enabled": False},
            "runtime": {"ui": "none"},
        },
    }


def _endpoint(placement: Placement) -> dict[str, Any]:
    return {
        "urls": list(placement.endpoints),  # several: in turn
        "type": "chat",
        "streaming": True,
        "apiKey": f"${{{API_KEY}:}}",  # from its environment; empty where that has none
        "connectionReuse": "never",  # llama.cpp closes each connection after a stream, though it announces to keep it
        "useServerTokenCount": True,  # also shows streams that were cut short: they have no count
        "extra": {"ignore_eos": True, "temperature": 0},  # without ignore_eos an answer may end before OSL
    }


def _dataset(campaign: Campaign) -> dict[str, Any]:
    """As many entries as requests: fewer, and prompts would come twice."""
    workload, shared = campaign.workload, campaign.workload.shared_prefix_tokens
    prefix = {"prefixPrompts": {"sharedSystemLength": shared}} if shared else {}
    return {
        "type": "synthetic",
        "entries": workload.requests + workload.warmup_requests,
        "prompts": {"isl": workload.isl_tokens - shared, "osl": workload.osl_tokens},
        **prefix,
    }


def read(text: str, phase: str = MEASURED) -> tuple[RequestRecord, ...]:
    """The requests of one phase in `profile_export.jsonl`, in the order in which they ended.

    A line that is no JSON (the last one, when AIPerf was ended while it wrote) is left out: one request too few is told
    by the check that counts them.
    """
    entries = filter(None, map(_parsed, text.splitlines()))
    return tuple(_record(entry) for entry in entries if entry["metadata"]["benchmark_phase"] == phase)


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        entry: dict[str, Any] = json.loads(line)
    except json.JSONDecodeError:
        return None
    return entry


def _record(entry: dict[str, Any]) -> RequestRecord:
    about, values = entry["metadata"], _values(entry.get("metrics") or {})
    started_s = about["request_start_ns"] / 1e9
    ttft_s, e2e_s = values.get("ttft_s"), values.get("e2e_s")
    error = _error(entry, values)
    return RequestRecord(
        started_s=started_s,
        first_token_s=None if ttft_s is None else started_s + ttft_s,
        ended_s=about["request_end_ns"] / 1e9 if e2e_s is None else started_s + e2e_s,
        input_tokens=int(values.get("input_tokens", 0)),
        output_tokens=int(values.get("output_tokens", 0)),
        ok=not error,
        error=error,
        itl_ms=tuple(values.get("itl_ms", ())),
        prompt=about["conversation_id"],
        cached_tokens=None if "cached_tokens" not in values else int(values["cached_tokens"]),
    )


def _error(entry: dict[str, Any], values: dict[str, Any]) -> str:
    """Why a request does not count as answered; empty where it does."""
    error = entry.get("error")
    if error:
        return f"{error.get('code')} {error.get('type')}: {error.get('message')}"[:300]
    if entry["metadata"]["was_cancelled"]:
        return "cancelled"
    return "" if "output_tokens" in values else "cut short: the stream ended without its token count"


def _values(metrics: dict[str, Any]) -> dict[str, Any]:
    """Our names and units of the metrics that we use."""
    found: dict[str, Any] = {}
    for theirs, metric in METRICS.items():
        if theirs not in metrics:
            continue
        value, unit = metrics[theirs]["value"], metrics[theirs]["unit"]
        if unit != metric.unit:
            raise ResultInvalid(f"AIPerf gives {theirs} in {unit!r}, expected {metric.unit!r}: use the pinned version")
        many = isinstance(value, list)
        found[metric.ours] = [v / metric.per_ours for v in value] if many else value / metric.per_ours
    return found
