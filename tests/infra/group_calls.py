"""Calls of the engine on `NodeGroups`, and what became of them in ledger and cloud."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from infra.provider.group import NodeGroups
from money.budget import Spend, spend
from money.ledger import Ledger
from spec.home import ledger_address
from spec.ledger import Event

RUN = "r"


def wanted(**changes: Any) -> dict[str, Any]:
    inputs = {
        "run": RUN,
        "index": 0,
        "count": 1,
        "cloud": "memory",
        "node_type": "b300x8",
        "lifetime_s": 3600,
        "budget_usd": "10",
        "ledger": ledger_address(),
        "public_key": "ssh-ed25519 AAAA",
        "key_file": "/key",
    }
    return inputs | changes


def made(plugin: NodeGroups, **changes: Any) -> tuple[str, dict[str, Any]]:
    checked = plugin.check(wanted(**changes))
    assert not checked.failures
    id, state = plugin.create(checked.inputs, preview=False)
    return id, dict(state)


def longer(plugin: NodeGroups, id: str, state: Mapping[str, Any], extend_s: float, **changes: Any) -> dict[str, Any]:
    inputs = plugin.check(wanted(extend_s=extend_s, **changes)).inputs
    return dict(plugin.update(id, state, inputs, preview=False))


def events() -> tuple[Event, ...]:
    return Ledger(ledger_address()).events(RUN)


def kinds() -> list[str]:
    return [event.kind for event in events()]


def money() -> Spend:
    return spend(events(), RUN)


def end_of(state: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(state["expires_at"])
