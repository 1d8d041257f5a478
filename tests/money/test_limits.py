from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from money import budget
from money.ledger import Ledger
from money.limits import Left, left, set_limits
from spec.errors import Fenced, OverBudget, RecipeError
from spec.ledger import Resource

RUN, TOKEN = "r", "r-0-a1"
EVENING = datetime(2026, 1, 31, 22, tzinfo=UTC)
"""Two hours before the day, and the month, end."""
MINE = "me"


class Clock:
    def __init__(self) -> None:
        self.now = EVENING

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(address: str, clock: Clock) -> Ledger:
    ledger = Ledger(address, clock=clock)
    ledger.open(RUN, Decimal(100), owner=MINE)
    return ledger


def after(hours: float) -> datetime:
    return EVENING + timedelta(hours=hours)


def machine(id: str) -> Resource:
    return Resource(cloud="local", region="here", kind="machine", id=id)


def dollars(day: int, month: int) -> tuple[Decimal, Decimal]:
    return Decimal(day), Decimal(month)


def used(ledger: Ledger, now: datetime) -> tuple[Decimal, Decimal]:
    found = left(ledger.events(), MINE, now)
    return found.day_used_usd, found.month_used_usd


def reserve(ledger: Ledger, usd: str, hours: float = 1, token: str = TOKEN, run: str = RUN) -> None:
    budget.reserve(ledger, run, 1, token, Decimal(usd), after(hours))


def test_without_a_limit_nothing_is_refused(ledger: Ledger) -> None:
    reserve(ledger, "100")
    assert left(ledger.events(), MINE, EVENING) == Left(None, Decimal(100), None, Decimal(100))
    assert left(ledger.events(), "nobody", EVENING) == Left(None, Decimal(0), None, Decimal(0))


def test_a_day_is_of_all_runs_of_its_owner(ledger: Ledger) -> None:
    set_limits(ledger, MINE, Decimal(10), None)
    for run, owner in (("mine", MINE), ("theirs", "you")):
        ledger.open(run, Decimal(100), owner=owner)
    reserve(ledger, "6")
    with pytest.raises(OverBudget) as refused:
        reserve(ledger, "4.000001", run="mine", token="mine-0-a1")
    assert str(refused.value) == (
        "mine-0-a1 needs 4.000001 USD in the worst case, owner 'me' has 4 USD free in the day 2026-01-31 (UTC): "
        "limit 10, settled 0, reserved by all runs 6; wait for the next, raise the limit with megatok budget, "
        "shorten lifetime_s, or take fewer or cheaper nodes"
    )
    reserve(ledger, "4", run="mine", token="mine-0-a1")
    reserve(ledger, "50", run="theirs", token="theirs-0-a1")


def test_what_is_set_aside_counts_in_each_day_until_it_is_over(ledger: Ledger, clock: Clock) -> None:
    set_limits(ledger, MINE, Decimal(10), None)
    reserve(ledger, "6", hours=3)
    assert [used(ledger, after(hours))[0] for hours in (-24, 0, 3, 26.1)] == [0, 6, 6, 6]
    clock.now = after(2.5)
    with pytest.raises(OverBudget, match="day 2026-02-01"):
        reserve(ledger, "5", token="r-1-a1", hours=3)
    clock.now = after(30)
    with pytest.raises(OverBudget, match="day 2026-02-02"):
        reserve(ledger, "5", token="r-1-a1", hours=31)
    budget.release(ledger, RUN, TOKEN, "made nothing")
    reserve(ledger, "10", token="r-1-a1", hours=31)


def test_a_month_is_bounded_too(ledger: Ledger) -> None:
    set_limits(ledger, MINE, None, Decimal(10))
    reserve(ledger, "6", hours=3)
    with pytest.raises(OverBudget, match="month 2026-01"):
        reserve(ledger, "5", token="r-1-a1")
    assert used(ledger, after(100)) == dollars(6, 6)


def test_what_is_settled_counts_in_the_days_in_which_it_ran(ledger: Ledger) -> None:
    reserve(ledger, "6", hours=3)
    budget.commit(ledger, RUN, TOKEN, (machine("a"),), EVENING)
    budget.settle(ledger, RUN, TOKEN, machine("a"), Decimal(1), EVENING, after(3))
    assert used(ledger, EVENING) == (Decimal("0.666667"), Decimal("0.666667"))
    assert used(ledger, after(3)) == (Decimal("0.333334"), Decimal("0.333334"))


def test_what_began_nobody_knows_when_counts_since_it_was_reserved(ledger: Ledger) -> None:
    reserve(ledger, "6", hours=3)
    budget.settle(ledger, RUN, TOKEN, machine("a"), Decimal(1), None, after(3))
    budget.release(ledger, RUN, TOKEN, "gone")
    assert [used(ledger, after(hours)) for hours in (0, 3, 27)] == [dollars(1, 1), dollars(1, 1), dollars(0, 1)]


def test_no_known_end_counts_for_ever(ledger: Ledger) -> None:
    set_limits(ledger, MINE, Decimal(10), None)
    budget.reserve(ledger, RUN, 1, TOKEN, Decimal(6))
    assert used(ledger, after(24 * 365))[0] == 6


@pytest.mark.parametrize("skew_h", [-2, 2])
def test_a_clock_that_is_wrong_here_is_not_the_clouds(ledger: Ledger, clock: Clock, skew_h: int) -> None:
    """By the cloud's clock it is 23:00; money set aside from then on counts in this day, whatever the clock here."""
    set_limits(ledger, MINE, Decimal(10), Decimal(10))
    clock.now = after(1 + skew_h)
    budget.reserve(ledger, RUN, 1, TOKEN, Decimal(6), until=after(2.5), since=after(1))
    clock.now = after(1)
    for number, hours in enumerate((1.5, 3)):
        with pytest.raises(OverBudget):
            reserve(ledger, "5", token=f"r-{number}-a9", hours=hours)
    assert used(ledger, after(1)) == dollars(6, 6)


def test_an_extension_must_fit_every_day_that_it_reaches(ledger: Ledger) -> None:
    set_limits(ledger, MINE, Decimal(10), None)
    reserve(ledger, "6", hours=1)
    budget.intent(ledger, RUN, 1, TOKEN, "create")
    with pytest.raises(OverBudget, match="needs 11 USD .*day 2026-01-31"):
        budget.extend(ledger, RUN, 1, TOKEN, Decimal(5), after(5))
    budget.extend(ledger, RUN, 1, TOKEN, Decimal(3), after(5))
    assert [used(ledger, after(hours))[0] for hours in (0, 5)] == [9, 9]
    budget.extend(ledger, RUN, 1, TOKEN, Decimal(3), after(5))
    assert used(ledger, EVENING)[0] == 9


def test_an_extension_that_was_not_made_is_given_back_once(ledger: Ledger) -> None:
    reserve(ledger, "6")
    for usd, hours in (("3", 5), ("2", 6)):
        budget.extend(ledger, RUN, 1, TOKEN, Decimal(usd), after(hours))
    for _ in range(2):
        budget.unextend(ledger, RUN, 1, TOKEN, after(6), "refused")
        assert budget.spend(ledger.events(), RUN).reserved_usd == 9
    ledger.fence(RUN)
    with pytest.raises(Fenced):
        budget.unextend(ledger, RUN, 1, TOKEN, after(5), "an older owner cannot know")


def test_a_lower_limit_leaves_what_stands_and_lifting_it_ends_it(ledger: Ledger) -> None:
    reserve(ledger, "6")
    set_limits(ledger, MINE, Decimal(2), Decimal(3))
    set_limits(ledger, MINE, Decimal(2), Decimal("3.0"))
    assert left(ledger.events(), MINE, EVENING) == Left(Decimal(2), Decimal(6), Decimal(3), Decimal(6))
    assert [event.kind for event in ledger.events()].count("limit") == 1
    reserve(ledger, "6")
    with pytest.raises(OverBudget, match="-4 USD free in the day"):
        reserve(ledger, "1", token="r-1-a1")
    set_limits(ledger, MINE, None, None)
    reserve(ledger, "1", token="r-1-a1")


def test_a_limit_is_an_amount_of_an_owner(ledger: Ledger) -> None:
    for owner, usd in (("", "1"), (MINE, "-1"), (MINE, "NaN")):
        with pytest.raises(RecipeError):
            set_limits(ledger, owner, Decimal(usd), None)
    assert ledger.runs() == (RUN,)


def test_a_run_keeps_its_owner(ledger: Ledger) -> None:
    assert ledger.open(RUN, Decimal(100)) == 1
    with pytest.raises(RecipeError, match="of owner 'me', not 'you'.*MEGATOK_OWNER"):
        ledger.open(RUN, Decimal(100), owner="you")


def test_a_run_of_a_program_that_knew_no_owners_gets_one_with_all_it_cost(ledger: Ledger) -> None:
    ledger.open("old", Decimal(50))
    budget.reserve(ledger, "old", 1, "old-0-a1", Decimal(6), after(1))
    budget.settle(ledger, "old", "", machine("a"), Decimal(1), EVENING, after(1))
    budget.intent(ledger, "old", 1, "old-0-a1", "create")
    budget.close(ledger, "old", "")
    assert used(ledger, EVENING)[0] == 0
    ledger.open("old", Decimal(50), owner=MINE)
    assert used(ledger, EVENING)[0] == 7
    assert left(ledger.events(), "", EVENING).day_used_usd == 0


def test_an_append_adds_up_only_what_is_new(tmp_path: Path) -> None:
    """By calls made, not by time: the machine that tests is shared."""
    calls = []
    for runs in (10, 300):
        ledger = Ledger((tmp_path / str(runs)).as_uri())
        set_limits(ledger, MINE, Decimal(10**6), Decimal(10**6))
        for number in range(runs):
            run = f"run-{number}"
            ledger.open(run, Decimal(1), owner=MINE)
            budget.reserve(ledger, run, 1, f"{run}-0-a1", Decimal(1), datetime.now(UTC))
            budget.release(ledger, run, f"{run}-0-a1", "")
        made = 0

        def count(frame: Any, event: str, argument: Any) -> None:
            nonlocal made
            made += event == "call"

        ledger.open("last", Decimal(1), owner=MINE)
        sys.setprofile(count)
        budget.reserve(ledger, "last", 1, "last-0-a1", Decimal(1), datetime.now(UTC))
        sys.setprofile(None)
        calls.append(made)
    assert calls[0] == calls[1]
