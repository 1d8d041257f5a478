"""Disks and addresses: made with a node, billed apart, and there until they are deleted or expire."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from localcloud import meter
from tests.localcloud.conftest import Program


def resources(program: Program, query: str = "") -> list[dict[str, Any]]:
    things: list[dict[str, Any]] = program.ask("GET", f"/v1/resources{query}").json()
    return things


def create(program: Program, **changes: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """A machine, its disk and its address."""
    node = program.create(node_type="cpu-1-disk", **changes)
    by_kind = {each["kind"]: each for each in resources(program)}
    assert by_kind["machine"]["id"] == node["id"]
    return node, by_kind["disk"], by_kind["address"]


def end(program: Program, node: dict[str, Any]) -> None:
    program.ask("DELETE", f"/v1/nodes/{node['id']}")
    program.ended(node["id"])


def remove(program: Program, thing: dict[str, Any]) -> int:
    return program.ask("DELETE", f"/v1/resources/{thing['id']}").status_code


def test_each_has_id_tags_expiry_and_a_bill_of_its_own(program: Program) -> None:
    node, disk, address = create(program)
    lines = {line["id"]: (line["kind"], line["usd_per_hour"]) for line in program.bill()["lines"]}
    wanted = {node["id"]: ("machine", "0.10"), disk["id"]: ("disk", "0.02"), address["id"]: ("address", "0.005")}
    assert lines == wanted
    for extra in (disk, address):
        shared = ("token", "tags", "region", "expires_at")
        assert [extra[key] for key in shared] == [node[key] for key in shared]
        assert (extra["state"], extra["node"]) == ("running", node["id"])


def test_listing_of_nodes_has_machines_only(program: Program) -> None:
    node, _, _ = create(program)
    assert [each["id"] for each in program.listing()] == [node["id"]]
    assert len(resources(program, "?tag=team=red&token=run-0-a1")) == 3
    assert resources(program, "?tag=team=blue") == []


def test_in_use_until_the_machine_is_gone_and_billed_until_deleted(program: Program) -> None:
    node, disk, address = create(program)
    assert remove(program, disk) == 409
    end(program, node)
    assert program.bill()["running"] == 2
    assert (remove(program, disk), remove(program, address), remove(program, disk)) == (202, 202, 202)
    assert program.read(disk["id"])["state"] == "terminated"
    assert (program.bill()["running"], resources(program)) == (0, [])


def test_expiry_ends_them_on_time_also_without_a_cloud(program: Program) -> None:
    node, disk, _ = create(program, lifetime_s=2)
    program.kill()
    time.sleep(3)
    bill = meter.bill(program.home / "meter.jsonl", {})
    line = next(line for line in bill["lines"] if line["id"] == disk["id"])
    assert (bill["running"], line["ended_at"]) == (0, node["expires_at"])
    program.start()
    ended = program.ended(disk["id"])
    assert (ended["reason"], ended["ended_at"]) == ("expired", node["expires_at"])
    assert program.bill()["usd"] == bill["usd"]


def test_they_move_with_the_machine(program: Program) -> None:
    node, disk, _ = create(program, lifetime_s=2)
    later = (datetime.fromisoformat(node["expires_at"]) + timedelta(seconds=60)).isoformat()
    program.ask("POST", f"/v1/nodes/{node['id']}/expiry", {"expires_at": later, "tags": {"team": "green"}})
    time.sleep(2.5)
    moved = program.read(disk["id"])
    assert (moved["state"], moved["expires_at"], moved["tags"]) == ("running", later, {"team": "green"})
    program.kill()
    program.start()
    assert program.read(disk["id"]) == moved


def test_stuck_disk(program: Program) -> None:
    program.fault("disk_stuck", times=2)
    node, disk, address = create(program)
    end(program, node)
    assert [remove(program, disk) for _ in range(3)] == [409, 409, 202]
    assert remove(program, address) == 202


def test_machine_that_dies_leaves_them(program: Program) -> None:
    program.fault("die", seconds=1)
    node, disk, address = create(program)
    program.ended(node["id"])
    assert {each["id"] for each in resources(program)} == {disk["id"], address["id"]}


def test_offer_tells_their_prices(program: Program) -> None:
    offer = program.ask("GET", "/v1/offers?node_type=cpu-1-disk").json()[0]
    prices = {each["kind"]: Decimal(each["usd_per_hour"]) for each in offer["extras"]}
    assert prices == {"disk": Decimal("0.02"), "address": Decimal("0.005")}
