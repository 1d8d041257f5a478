from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from money import budget, receipt
from money.ledger import Ledger
from spec.ledger import Resource
from spec.receipt import Line, Receipt

RUN = "r"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def machine(id: str, kind: str = "machine") -> Resource:
    return Resource(cloud="local", region="here", kind=kind, id=id)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = Ledger(tmp_path.as_uri())
    ledger.open(RUN, Decimal(100))
    return ledger


def begin(ledger: Ledger, token: str) -> None:
    budget.reserve(ledger, RUN, 1, token, Decimal(10))
    budget.intent(ledger, RUN, 1, token, "create")


def lived(ledger: Ledger, token: str, id: str, usd: str = "1") -> None:
    """From the reservation to the bill, an hour up."""
    begin(ledger, token)
    budget.commit(ledger, RUN, token, (machine(id),), at(0))
    budget.settle(ledger, RUN, token, machine(id), Decimal(usd), at(1), at(60))


def absent(ledger: Ledger, *ids: str, minutes: tuple[float, ...] = (60, 61)) -> None:
    for minute in minutes:
        budget.sighting(ledger, RUN, tuple(machine(name) for name in ids), at(minute))


def build(ledger: Ledger, cloud_usd: dict[str, Decimal] | None = None, unproven: tuple[str, ...] = ()) -> Receipt:
    return receipt.build(
        ledger.events(),
        RUN,
        cloud_usd=cloud_usd or {},
        simulated=True,
        unproven=unproven,
        ledger=ledger,
        now=at(90),
    )


def test_what_is_settled_and_twice_absent_is_proven(ledger: Ledger) -> None:
    lived(ledger, "r-0-a1", "a", "0.5")
    absent(ledger, "a")
    budget.close(ledger, RUN, "done")
    found = build(ledger, {"a": Decimal("0.5")})
    assert found == Receipt(
        run=RUN,
        simulated=True,
        budget_usd=Decimal(100),
        usd=Decimal("0.5"),
        cloud_usd=Decimal("0.5"),
        burned_usd=Decimal(0),
        lines=(
            Line(
                resource=machine("a"),
                created_at=at(1),
                deleted_at=at(60),
                absent_at=(at(60), at(61)),
                usd=Decimal("0.5"),
                cloud_usd=Decimal("0.5"),
                proven=True,
            ),
        ),
        proven=True,
        ledger=ledger.address,
        ledger_head=ledger.head(),
        written_at=at(90),
    )
    assert Receipt.model_validate_json(found.model_dump_json()) == found


def test_a_run_that_made_nothing_is_proven(ledger: Ledger) -> None:
    found = build(ledger)
    assert (found.proven, found.lines, found.usd, found.cloud_usd) == (True, (), Decimal(0), None)


@pytest.mark.parametrize("minutes", [(), (61,), (59, 61), (61, 61)])
def test_fewer_than_two_listings_after_the_end_prove_nothing(ledger: Ledger, minutes: tuple[float, ...]) -> None:
    lived(ledger, "r-0-a1", "a")
    absent(ledger, "a", minutes=minutes)
    found = build(ledger)
    assert (found.proven, found.lines[0].proven) == (False, False)
    assert "machine a: absent in" in found.unproven[0]
    assert "megatok down r" in found.unproven[0]


def test_a_machine_never_settled_is_unproven_and_its_money_held(ledger: Ledger) -> None:
    begin(ledger, "r-0-a1")
    budget.commit(ledger, RUN, "r-0-a1", (machine("a"),), at(0))
    absent(ledger, "a")
    found = build(ledger)
    assert (found.proven, found.usd) == (False, Decimal(0))
    assert found.unproven == ("machine a: its end is not known; megatok down r goes on",)


def test_what_was_only_found_in_a_listing_has_a_line_of_its_own(ledger: Ledger) -> None:
    budget.sighting(ledger, RUN, (machine("k", "key"),), at(5))
    assert [line.resource.id for line in build(ledger).lines] == ["k"]


def test_an_intent_of_unknown_outcome_is_unproven(ledger: Ledger) -> None:
    begin(ledger, "r-0-a1")
    found = build(ledger)
    assert not found.proven
    assert found.unproven[0].startswith("r-0-a1: whether its create made something is not known")


def test_what_the_caller_could_not_show_is_unproven(ledger: Ledger) -> None:
    found = build(ledger, unproven=("local: no answer",))
    assert (found.proven, found.unproven) == (False, ("local: no answer",))


def test_a_charge_for_what_the_ledger_does_not_know_is_unproven(ledger: Ledger) -> None:
    lived(ledger, "r-0-a1", "a")
    absent(ledger, "a")
    found = build(ledger, {"a": Decimal(1), "ghost": Decimal(2)})
    assert (found.proven, found.cloud_usd) == (False, Decimal(3))
    assert found.unproven[0].startswith("ghost: the cloud charges for it")


def test_burned_is_what_was_given_up_replaced_or_nobodys(ledger: Ledger) -> None:
    lived(ledger, "r-0-a1", "given-up", "1")
    budget.release(ledger, RUN, "r-0-a1", "no SSH")
    lived(ledger, "r-0-a2", "replaced", "2")
    lived(ledger, "r-0-a3", "served", "4")
    budget.settle(ledger, RUN, "", machine("stray"), Decimal(8), None, at(60))
    budget.reserve(ledger, RUN, 1, "r-0-a4", Decimal(1))
    found = build(ledger)
    assert (found.usd, found.burned_usd) == (Decimal(15), Decimal(11))
    assert {line.resource.id: line.note for line in found.lines} == {
        "given-up": "burned: r-0-a1 was given up: no SSH",
        "replaced": "burned: r-0-a2 was replaced by r-0-a3",
        "served": "",
        "stray": "burned: no attempt knows it, found by its tag",
    }


def test_another_run_of_the_same_ledger_does_not_count(ledger: Ledger) -> None:
    ledger.open("other", Decimal(1))
    budget.settle(ledger, "other", "", machine("theirs"), Decimal(1), None, at(1))
    assert (build(ledger).lines, build(ledger).usd) == ((), Decimal(0))


def test_a_later_teardown_proves_what_an_earlier_could_not(ledger: Ledger) -> None:
    begin(ledger, "r-0-a1")
    budget.close(ledger, RUN, "unproven")
    assert not build(ledger).proven
    budget.commit(ledger, RUN, "r-0-a1", (machine("a"),), at(0))
    budget.settle(ledger, RUN, "r-0-a1", machine("a"), Decimal(1), at(0), at(60))
    absent(ledger, "a")
    assert build(ledger).proven


def test_what_is_not_settled_is_told_beside_the_total(ledger: Ledger) -> None:
    begin(ledger, "r-0-a1")
    found = receipt.build(ledger.events(RUN), RUN, cloud_usd={}, simulated=True, unproven=(), ledger=ledger, now=NOON)
    assert (found.proven, found.usd, found.held_usd) == (False, Decimal(0), Decimal(10))
