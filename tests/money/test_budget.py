from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from money import budget
from money.budget import Spend
from money.ledger import Ledger
from spec.errors import Fenced, MegatokError, OverBudget
from spec.ledger import Resource

RUN, TOKEN = "r", "r-0-a1"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)


def machine(id: str) -> Resource:
    return Resource(cloud="local", region="here", kind="machine", id=id)


@pytest.fixture
def ledger(address: str) -> Ledger:
    ledger = Ledger(address)
    ledger.open(RUN, Decimal(10))
    return ledger


def dollars(*amounts: int | str) -> tuple[Decimal, ...]:
    return tuple(Decimal(amount) for amount in amounts)


def spend(ledger: Ledger) -> tuple[Decimal, ...]:
    """Reserved, settled, free."""
    now = budget.spend(ledger.events(), RUN)
    assert now.budget_usd == now.reserved_usd + now.settled_usd + now.free_usd
    return now.reserved_usd, now.settled_usd, now.free_usd


def begin(ledger: Ledger, usd: str, token: str = TOKEN) -> None:
    budget.reserve(ledger, RUN, 1, token, Decimal(usd))
    budget.intent(ledger, RUN, 1, token, "create")


def settle(ledger: Ledger, id: str, usd: str, token: str = TOKEN) -> None:
    budget.settle(ledger, RUN, token, machine(id), Decimal(usd), NOON, LATER)


def test_the_way_of_a_node_that_served(ledger: Ledger) -> None:
    begin(ledger, "4")
    assert spend(ledger) == dollars(4, 0, 6)
    budget.commit(ledger, RUN, TOKEN, (machine("a"),), NOON)
    assert spend(ledger) == dollars(4, 0, 6)
    budget.extend(ledger, RUN, 1, TOKEN, Decimal("1.5"))
    assert spend(ledger) == dollars("5.5", 0, "4.5")
    settle(ledger, "a", "0.3")
    assert spend(ledger) == dollars(0, "0.3", "9.7")


def test_a_run_never_opened_has_nothing_to_spend(ledger: Ledger) -> None:
    assert budget.spend(ledger.events(), "other") == Spend(Decimal(0), Decimal(0), Decimal(0), Decimal(0))
    with pytest.raises(OverBudget, match="'other' has no open budget"):
        budget.reserve(ledger, "other", 1, "other-0-a1", Decimal(0))


def test_exactly_the_budget_fits_and_a_millionth_more_does_not(ledger: Ledger) -> None:
    budget.reserve(ledger, RUN, 1, TOKEN, Decimal(10))
    with pytest.raises(OverBudget, match=r"r-1-a1 needs 0.000001 USD .* 0 USD free: budget 10, settled 0, reserved 10"):
        budget.reserve(ledger, RUN, 1, "r-1-a1", Decimal("0.000001"))
    assert len(ledger.events()) == 2


def test_tenths_add_up_exactly(ledger: Ledger) -> None:
    for index in range(100):
        budget.reserve(ledger, RUN, 1, f"r-{index}-a1", Decimal("0.1"))
    assert spend(ledger) == dollars(10, 0, 0)


def test_what_is_settled_is_spent_for_good(ledger: Ledger) -> None:
    begin(ledger, "10")
    budget.commit(ledger, RUN, TOKEN, (machine("a"),), NOON)
    settle(ledger, "a", "9")
    with pytest.raises(OverBudget):
        budget.reserve(ledger, RUN, 1, "r-0-a2", Decimal("1.1"))
    budget.reserve(ledger, RUN, 1, "r-0-a2", Decimal(1))


def test_the_rest_of_a_group_stays_set_aside_until_its_last_node_is_settled(ledger: Ledger) -> None:
    begin(ledger, "6")
    budget.commit(ledger, RUN, TOKEN, (machine("a"), machine("b")), NOON)
    settle(ledger, "a", "2")
    assert spend(ledger) == dollars(4, 2, 4)
    settle(ledger, "b", "1")
    assert spend(ledger) == dollars(0, 3, 7)


def test_reserving_again_takes_the_larger(ledger: Ledger) -> None:
    for usd in ("4", "3", "5"):
        budget.reserve(ledger, RUN, 1, TOKEN, Decimal(usd))
    assert spend(ledger) == dollars(5, 0, 5)
    with pytest.raises(OverBudget):
        budget.reserve(ledger, RUN, 1, TOKEN, Decimal("10.1"))


def test_said_twice_is_said_once(ledger: Ledger) -> None:
    begin(ledger, "4")
    steps: list[Callable[[], None]] = [
        lambda: budget.commit(ledger, RUN, TOKEN, (machine("a"),), NOON),
        lambda: settle(ledger, "a", "1"),
        lambda: budget.release(ledger, RUN, TOKEN, "no SSH"),
        lambda: budget.close(ledger, RUN, "done"),
    ]
    for step in steps:
        step()
        once = ledger.events()
        step()
        assert ledger.events() == once
    settle(ledger, "a", "3")
    assert spend(ledger) == dollars(0, 1, 9)


def test_a_commit_of_more_adds(ledger: Ledger) -> None:
    begin(ledger, "4")
    budget.commit(ledger, RUN, TOKEN, (machine("a"),), NOON)
    budget.commit(ledger, RUN, TOKEN, (machine("a"), machine("b")), NOON)
    settle(ledger, "a", "1")
    assert spend(ledger) == dollars(3, 1, 6)


def test_a_release_frees_all_where_nothing_was_made(ledger: Ledger) -> None:
    begin(ledger, "4")
    budget.release(ledger, RUN, TOKEN, "no capacity")
    assert spend(ledger) == dollars(0, 0, 10)


def test_a_create_that_failed_costs_nothing_and_its_reservation_is_released(ledger: Ledger) -> None:
    """Reported in public as skypilot-org/skypilot#1751: failed creates were shown as costs."""
    begin(ledger, "4")
    budget.release(ledger, RUN, TOKEN, "quota exceeded, nothing stands")
    assert budget.spend(ledger.events(), RUN) == Spend(*dollars(10, 0, 0, 10))
    assert [(event.kind, event.note) for event in ledger.events()][-1] == ("release", "quota exceeded, nothing stands")


def test_a_release_frees_nothing_of_what_still_stands(ledger: Ledger) -> None:
    begin(ledger, "4")
    budget.commit(ledger, RUN, TOKEN, (machine("a"),), NOON)
    budget.release(ledger, RUN, TOKEN, "no SSH")
    assert spend(ledger) == dollars(4, 0, 6)
    settle(ledger, "a", "1")
    assert spend(ledger) == dollars(0, 1, 9)


def test_a_machine_that_shows_up_after_the_release_is_held_again(ledger: Ledger) -> None:
    begin(ledger, "4")
    budget.release(ledger, RUN, TOKEN, "timed out")
    budget.commit(ledger, RUN, TOKEN, (machine("a"),), NOON)
    assert spend(ledger) == dollars(4, 0, 6)


def test_a_charge_above_the_worst_case_is_told_as_it_is(ledger: Ledger) -> None:
    begin(ledger, "9")
    budget.commit(ledger, RUN, TOKEN, (machine("a"),), NOON)
    settle(ledger, "a", "12")
    assert spend(ledger) == dollars(0, 12, -2)
    budget.reserve(ledger, RUN, 1, "r-1-a1", Decimal(0))
    with pytest.raises(OverBudget):
        budget.reserve(ledger, RUN, 1, "r-1-a1", Decimal("0.1"))


def test_what_was_found_by_tag_alone_is_paid_too(ledger: Ledger) -> None:
    settle(ledger, "stray", "1", token="")
    assert spend(ledger) == dollars(0, 1, 9)


def test_a_fence_frees_what_its_old_owner_can_no_longer_begin(ledger: Ledger) -> None:
    budget.reserve(ledger, RUN, 1, "r-1-a1", Decimal(3))
    begin(ledger, "4")
    ledger.fence(RUN)
    assert spend(ledger) == dollars(4, 0, 6)


def test_what_stands_is_held_also_past_the_budget_but_begins_nothing(ledger: Ledger) -> None:
    with pytest.raises(MegatokError, match="nothing is known to stand"):
        budget.hold(ledger, RUN, TOKEN, Decimal(12), NOON, LATER)
    budget.reserve(ledger, RUN, 1, TOKEN, Decimal(1))
    with pytest.raises(MegatokError, match="nothing is known to stand"):
        budget.hold(ledger, RUN, TOKEN, Decimal(12), NOON, LATER)
    budget.commit(ledger, RUN, TOKEN, (machine("a"),), NOON)
    budget.hold(ledger, RUN, TOKEN, Decimal(12), NOON, LATER)
    assert spend(ledger) == dollars(12, 0, -2)
    with pytest.raises(OverBudget):
        budget.reserve(ledger, RUN, 1, "r-1-a1", Decimal("0.1"))
    ledger.fence(RUN)
    assert spend(ledger) == dollars(12, 0, -2)
    with pytest.raises(Fenced):
        budget.intent(ledger, RUN, 1, TOKEN, "create")
    settle(ledger, "a", "3")
    assert spend(ledger) == dollars(0, 3, 7)
    with pytest.raises(MegatokError, match="nothing is known to stand"):
        budget.hold(ledger, RUN, TOKEN, Decimal(1), NOON, LATER)


CREATES: list[Callable[[Ledger], None]] = [
    lambda ledger: budget.reserve(ledger, RUN, 1, TOKEN, Decimal(1)),
    lambda ledger: budget.intent(ledger, RUN, 1, TOKEN, ""),
    lambda ledger: budget.extend(ledger, RUN, 1, TOKEN, Decimal(1)),
]


@pytest.mark.parametrize("create", CREATES)
def test_an_older_owner_creates_nothing_more(ledger: Ledger, create: Callable[[Ledger], None]) -> None:
    begin(ledger, "4")
    ledger.fence(RUN)
    with pytest.raises(Fenced, match="newer owner"):
        create(ledger)
    budget.commit(ledger, RUN, TOKEN, (machine("a"),), NOON)
    settle(ledger, "a", "1")


@pytest.mark.parametrize("create", CREATES)
def test_a_closed_run_creates_nothing_more(ledger: Ledger, create: Callable[[Ledger], None]) -> None:
    begin(ledger, "4")
    budget.close(ledger, RUN, "")
    with pytest.raises(OverBudget, match="no open budget"):
        create(ledger)


@pytest.mark.parametrize("create", CREATES)
def test_a_token_is_spent_once_its_attempt_is_over(ledger: Ledger, create: Callable[[Ledger], None]) -> None:
    begin(ledger, "4")
    budget.release(ledger, RUN, TOKEN, "")
    with pytest.raises(MegatokError, match="spent"):
        create(ledger)


@pytest.mark.parametrize("create", CREATES[1:])
def test_nothing_begins_that_was_not_reserved(ledger: Ledger, create: Callable[[Ledger], None]) -> None:
    with pytest.raises(MegatokError, match="nothing is reserved under r-0-a1"):
        create(ledger)


def test_a_run_opened_again_still_owes_what_it_spent(ledger: Ledger) -> None:
    begin(ledger, "4")
    settle(ledger, "a", "1")
    budget.close(ledger, RUN, "")
    ledger.open(RUN, Decimal(6))
    assert spend(ledger) == dollars(3, 1, 2)


@pytest.mark.parametrize("usd", ["-1", "NaN", "Infinity"])
def test_an_amount_is_finite_and_not_negative(ledger: Ledger, usd: str) -> None:
    acts: list[Callable[[], None]] = [
        lambda: budget.reserve(ledger, RUN, 1, TOKEN, Decimal(usd)),
        lambda: budget.extend(ledger, RUN, 1, TOKEN, Decimal(usd)),
        lambda: settle(ledger, "a", usd),
    ]
    for act in acts:
        with pytest.raises(MegatokError, match=f"{usd} USD under {TOKEN}"):
            act()


def test_a_switch_is_on_record_with_its_time(ledger: Ledger) -> None:
    budget.armed(ledger, RUN, TOKEN, "native", (machine("a"),), LATER)
    event = ledger.events()[-1]
    assert (event.kind, event.note, event.ended_at) == ("armed", "native", LATER)
