"""Smoke: does every replica answer as it should, directly and through the gateway? Asked from the client's node."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from plan.launch import API_KEY, Placement
from playbooks.run import Host, on_all
from playbooks.scripts import python
from spec.facts import Facts
from spec.inventory import Inventory
from spec.record import Check

TOKENS = 32
DEADLINE_S = 50.0
"""The whole of smoke ends within a minute."""
LIMIT_S = 60.0
STREAM_SHARE = 0.05
"""Least part of an answer's time between its first and last piece; through a gateway that buffers it is none."""
REFUSED = 401


@dataclass(frozen=True)
class Target:
    name: str
    host: str
    port: int


def smoke(
    inventory: Inventory,
    facts: Mapping[str, Facts],
    placement: Placement,
    model: str,
    floor_tok_per_s: float,
    key: str | None,
    *,
    cancel: threading.Event | None = None,
) -> tuple[Check, ...]:
    """One check a target. With `key`, an answer without it is a failure too."""
    asked = targets(placement)
    wanted = {
        "targets": [vars(target) for target in asked],
        "model": model,
        "tokens": TOKENS,
        "deadline_s": DEADLINE_S,
    }
    script = python("smoke_client.py", json.dumps(wanted))
    secrets = {API_KEY: key} if key else {}

    def ask(host: Host) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(host.run(script, limit_s=LIMIT_S, env=secrets).out)
        return found

    node = inventory.nodes[placement.client_node]
    answers = on_all([node], ask, limit_s=LIMIT_S, cancel=cancel)[node.name]
    return tuple(judge(target.name, answer, floor_tok_per_s) for target, answer in zip(asked, answers))


def targets(placement: Placement) -> tuple[Target, ...]:
    """Each replica, then the gateway as often as there are replicas: an idle one sends each time to the next."""
    direct = [Target(f"replica {r.index}", r.host, r.port) for r in placement.replicas]
    if placement.gateway == "none":
        return tuple(direct)
    through = Target(f"gateway {placement.gateway}", placement.gateway_host, placement.gateway_port)
    return (*direct, *[through] * len(direct))


def judge(name: str, answer: Mapping[str, Any], floor_tok_per_s: float) -> Check:
    """What is wrong with an answer, if anything."""
    if answer.get("late"):
        return Check(name=name, outcome="unknown", detail=f"not asked: {DEADLINE_S:g} s were over")
    if "error" in answer:
        return Check(name=name, outcome="fail", detail=answer["error"])
    speed = (answer["tokens"] or 0) / answer["seconds"]
    wrong = {
        "the answer is empty": not answer["text"].strip(),
        f"{answer['tokens']} tokens, not {TOKENS}": answer["tokens"] != TOKENS,
        "the stream is not text, its end, and one [DONE]": not answer["in_order"],
        "all came at once, not as a stream": answer["spread_s"] < STREAM_SHARE * answer["seconds"],
        f"{speed:.1f} tok/s, below the floor of {floor_tok_per_s:.1f}": speed < floor_tok_per_s,
        f"answers without the key (status {answer.get('without_key')})": answer.get("without_key", REFUSED) != REFUSED,
    }
    bad = [text for text, holds in wrong.items() if holds]
    good = f"{answer['tokens']} tokens in {answer['seconds']:.2f} s, {speed:.1f} tok/s"
    return Check(name=name, outcome="fail" if bad else "pass", detail="; ".join(bad) or good)
