"""Prices that cannot be used, and prices that rise."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.localcloud.conftest import Program


def offer(program: Program, node_type: str = "cpu-1") -> dict[str, Any]:
    found: dict[str, Any] = program.ask("GET", f"/v1/offers?node_type={node_type}").json()[0]
    return found


def test_price_stale(program: Program) -> None:
    program.fault("price_stale", times=2)
    assert datetime.now(UTC) - datetime.fromisoformat(offer(program)["as_of"]) > timedelta(days=300)
    program.ask("DELETE", "/v1/faults")
    program.fault("price_stale", seconds=3600)
    assert timedelta(0) < datetime.now(UTC) - datetime.fromisoformat(offer(program)["as_of"]) < timedelta(hours=2)
    assert datetime.now(UTC) - datetime.fromisoformat(offer(program)["as_of"]) < timedelta(minutes=1)


def test_price_foreign_and_unknown(program: Program) -> None:
    program.fault("price_foreign", match={"node_type": "cpu-2"})
    program.fault("price_unknown", match={"node_type": "cpu-2"})
    assert (offer(program)["currency"], offer(program)["usd_per_hour"]) == ("USD", "0.10")
    found = offer(program, "cpu-2")
    assert (found["currency"], found["usd_per_hour"]) == ("EUR", None)


def test_dearer_costs_what_was_told_last(program: Program) -> None:
    program.fault("dearer", match={"node_type": "cpu-1-disk"})
    assert program.create("run-0", node_type="cpu-1-disk")["usd_per_hour"] == "0.10"
    told = offer(program, "cpu-1-disk")
    assert (told["usd_per_hour"], [each["usd_per_hour"] for each in told["extras"]]) == ("1.00", ["0.20", "0.050"])
    assert program.create("run-1", node_type="cpu-1-disk", lifetime_s=5)["usd_per_hour"] == "1.00"
    prices = {line["name"]: line["usd_per_hour"] for line in program.bill()["lines"]}
    assert (prices["run-0-disk"], prices["run-1-disk"], prices["run-1-address"]) == ("0.02", "0.20", "0.050")
    assert offer(program)["usd_per_hour"] == "0.10"


def test_order_that_allows_less_is_refused(program: Program) -> None:
    program.fault("dearer")
    offer(program)
    answer = program.ask("POST", "/v1/nodes", program.order(max_usd_per_hour="0.10"))
    assert answer.json()["error"] == "no_capacity"
    assert program.bill()["lines"] == []
