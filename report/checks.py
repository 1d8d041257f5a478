"""Whether a cell's figures may be published. Each check judges the requests against what the recipe asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from report import metrics
from spec.recipe import Workload
from spec.record import Check, RequestRecord

TEMPLATE_TOKENS = 30
"""What the chat template adds to a prompt: 30 tokens, measured with SmolLM2's template (158 counted for 128 asked)."""

LENGTH_SHARE = 0.05
"""A client that splits the answer's text into tokens again is off by a token in some answers (31 for 32, measured)."""

LOAD_SHARE = 0.5
"""Ramp and drain keep a short closed loop below the asked concurrency; below half of it, another load was offered."""

HIT_SHARE = 0.5
"""Share of a common prefix that the cache must have held: each server misses it until it has seen it once."""

SLEPT_S = 2.0
"""A loaded machine's clock reader is late by a second at times; a sleep is longer."""

NAMED = 3
QUOTED = 160
"""How many different error messages a check quotes, and how many characters of each: some are whole pages."""


@dataclass(frozen=True)
class Window:
    """What was asked of a cell, and what happened around its requests while they ran."""

    workload: Workload
    concurrency: int
    stand_in: bool
    """The client shares processors with servers that play GPUs."""
    rc: int | None
    """Exit code of the load generator; None where it has none, e.g. because it was ended."""
    dead: tuple[str, ...] = ()
    """Servers that died while the requests ran."""
    lost_s: float = 0.0
    """Seconds in which the machine stood still."""
    prefix_cache: bool | None = None
    """Whether the recipe asked for it; None where the engine has none."""


def checks(requests: Sequence[RequestRecord], window: Window) -> tuple[Check, ...]:
    """Every check, causes before what follows from them."""
    return tuple(check(requests, window) for check in CHECKS)


def valid(found: Iterable[Check]) -> bool:
    """Unknown blocks as a failure does."""
    return all(check.outcome in ("pass", "not applicable") for check in found)


def _judge(name: str, good: bool, detail: str) -> Check:
    return Check(name=name, outcome="pass" if good else "fail", detail=detail)


def _not_applicable(name: str, why: str) -> Check:
    return Check(name=name, outcome="not applicable", detail=why)


def _unanswered(name: str) -> Check:
    return Check(name=name, outcome="unknown", detail="no request was answered")


def answered(requests: Sequence[RequestRecord], window: Window) -> Check:
    count = sum(map(metrics.answered, requests))
    asked = window.workload.requests
    detail = f"{count} answered of {len(requests)} sent; {asked} asked"
    return _judge("answered", count == len(requests) == asked, detail)


def errors(requests: Sequence[RequestRecord], window: Window) -> Check:
    found = Counter(request.error or "no message" for request in requests if not request.ok)
    quoted = "; ".join(f"{count} x {text[:QUOTED]}" for text, count in found.most_common(NAMED))
    more = f"; and {len(found) - NAMED} other messages" if len(found) > NAMED else ""
    return _judge("errors", not found, (quoted + more) or "none")


def not_empty(requests: Sequence[RequestRecord], window: Window) -> Check:
    empty = sum(request.ok and not (request.output_tokens and metrics.answered(request)) for request in requests)
    return _judge("not empty", not empty, f"{empty} answers without a token")


def output_length(requests: Sequence[RequestRecord], window: Window) -> Check:
    """By the client's count of tokens."""
    asked = window.workload.osl_tokens
    slack = max(1, int(LENGTH_SHARE * asked))
    lengths = [request.output_tokens for request in requests if metrics.answered(request)]
    if not lengths:
        return _unanswered("output length")
    off = sum(abs(length - asked) > slack for length in lengths)
    detail = f"{min(lengths)} to {max(lengths)} tokens, {asked} asked, {slack} allowed either way; {off} outside"
    return _judge("output length", not off, detail)


def input_length(requests: Sequence[RequestRecord], window: Window) -> Check:
    asked = window.workload.isl_tokens
    lengths = [request.input_tokens for request in requests if metrics.answered(request)]
    if not lengths:
        return _unanswered("input length")
    mean = sum(lengths) / len(lengths)
    slack = TEMPLATE_TOKENS + LENGTH_SHARE * asked
    allowed = f"{TEMPLATE_TOKENS} for the chat template and {LENGTH_SHARE:.0%} for another way to count"
    detail = f"mean {mean:.1f} tokens, {asked} asked; allowed off: {allowed}"
    return _judge("input length", abs(mean - asked) <= slack, detail)


def load(requests: Sequence[RequestRecord], window: Window) -> Check:
    seconds = metrics.window_s(requests)
    if not seconds:
        return _unanswered("load")
    offered = window.concurrency
    mean = metrics.in_flight_mean(requests, seconds)
    detail = f"{mean:.2f} requests in flight on average, {offered} offered; at least {LOAD_SHARE * offered:g} expected"
    return _judge("load", mean >= LOAD_SHARE * offered, detail)


def distinct_prompts(requests: Sequence[RequestRecord], window: Window) -> Check:
    if not all(request.prompt for request in requests):
        return _not_applicable("distinct prompts", "the load generator keeps no prompts with its records")
    count = len({request.prompt for request in requests})
    return _judge("distinct prompts", count == len(requests), f"{count} different prompts in {len(requests)} requests")


def prefix_cache(requests: Sequence[RequestRecord], window: Window) -> Check:
    """Hits where the recipe wants them, none where it switched the cache off."""
    shared = window.workload.shared_prefix_tokens
    cached = [request.cached_tokens for request in requests if request.cached_tokens is not None]
    if window.prefix_cache is None or not cached:
        return _not_applicable("prefix cache", "the server does not tell what it took from a cache")
    mean = sum(cached) / len(cached)
    if not window.prefix_cache:
        return _judge("prefix cache", mean == 0, f"off; {mean:.1f} cached tokens a request")
    good = mean >= HIT_SHARE * shared
    return _judge("prefix cache", good, f"on; {mean:.1f} cached tokens a request, {shared} shared by all prompts")


def no_server_died(requests: Sequence[RequestRecord], window: Window) -> Check:
    return _judge(
        "no server died", not window.dead, f"{', '.join(window.dead)} died" if window.dead else "all alive to the end"
    )


def awake(requests: Sequence[RequestRecord], window: Window) -> Check:
    return _judge("machine awake", window.lost_s <= SLEPT_S, f"stood still for {window.lost_s:.1f} s")


def client_headroom(requests: Sequence[RequestRecord], window: Window) -> Check:
    if window.stand_in:
        return _not_applicable("client headroom", "stand-in client on processors that it shares with the servers")
    return Check(name="client headroom", outcome="unknown", detail="nothing measured the client's processors")


def replica_balance(requests: Sequence[RequestRecord], window: Window) -> Check:
    return _not_applicable("replica balance", "no counters per replica were collected")


def load_generator(requests: Sequence[RequestRecord], window: Window) -> Check:
    if window.rc is None:
        return Check(name="load generator", outcome="unknown", detail="it left no exit code")
    return _judge("load generator", window.rc == 0, f"exit code {window.rc}")


CHECKS: tuple[Callable[[Sequence[RequestRecord], Window], Check], ...] = (
    no_server_died,
    awake,
    load_generator,
    errors,
    answered,
    not_empty,
    output_length,
    input_length,
    load,
    distinct_prompts,
    prefix_cache,
    client_headroom,
    replica_balance,
)
