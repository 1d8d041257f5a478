"""A bug planted in each transition is found by the machine that shows that no budget is passed."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from money import budget
from money.account import Account, Token, account
from money.books import Books, Purse
from money.bucket import Bucket
from money.ledger import Draft, Ledger
from spec.errors import MegatokError
from spec.ledger import Event
from tests.money.machine import OnFile, OnShelf

Patch = pytest.MonkeyPatch


def open_forgets_what_was_spent(patch: Patch) -> None:
    def apply(self: Account, event: Event, right: Any = Account.apply) -> None:
        right(self, event)
        if event.kind == "open":
            self.settled_usd = Decimal(0)

    patch.setattr(Account, "apply", apply)


def open_forgets_its_owner(patch: Patch) -> None:
    right = Ledger.open
    patch.setattr(Ledger, "open", lambda self, run, usd, note="", owner="": right(self, run, usd, note))


def fence_raises_no_epoch(patch: Patch) -> None:
    def fence(self: Ledger, run: str) -> int:
        event = self.append(run, lambda _: Draft("fence"))
        assert event
        return event.epoch

    patch.setattr(Ledger, "fence", fence)


def fence_drops_what_has_begun(patch: Patch) -> None:
    def drop(self: Account) -> None:
        self.tokens, self.held = {}, {}

    patch.setattr(Account, "_drop_unbegun", drop)


def reserve_forgets_what_is_held(patch: Patch) -> None:
    patch.setattr(Account, "free_usd", property(lambda self: self.budget_usd - self.settled_usd))


def reserve_takes_the_smaller(patch: Patch) -> None:
    def reserve(self: Token, event: Event, right: Any = Token.reserve) -> None:
        before = self.reserved_usd
        right(self, event)
        self.reserved_usd = min(before or self.reserved_usd, event.usd or Decimal(0))

    patch.setattr(Token, "reserve", reserve)


def reserve_counts_only_today(patch: Patch) -> None:
    """What is held counts in the period in which it began, not up to its end."""

    def spans(self: Purse, unit: Any, now: Any, besides: Any, right: Any = Purse._spans) -> list[Any]:
        return [(first, first, usd) for first, _, usd in right(self, unit, now, besides)]

    patch.setattr(Purse, "_spans", spans)


def intent_is_not_written(patch: Patch) -> None:
    patch.setattr(budget, "intent", lambda *_: None)


def intent_is_written_by_an_older_owner(patch: Patch) -> None:
    patch.setattr(budget, "_current", lambda books, run, epoch: books.account(run))


def commit_forgets_what_was_made(patch: Patch) -> None:
    def commit(self: Token, event: Event) -> None:
        self.committed = True

    patch.setattr(Token, "commit", commit)


def hold_sets_nothing_aside(patch: Patch) -> None:
    patch.setattr(budget, "hold", lambda *_: None)


def hold_forgets_what_is_paid(patch: Patch) -> None:
    """Of a group of which some nodes are settled, what stands is held less that."""

    def hold(ledger: Ledger, run: str, token: str, usd: Decimal, since: Any, until: Any) -> None:
        ledger.append(run, lambda _: Draft("reserve", token, usd, started_at=since, ended_at=until))

    patch.setattr(budget, "hold", hold)


def hold_is_refused_above_a_limit(patch: Patch) -> None:
    right = budget.hold

    def hold(ledger: Ledger, run: str, token: str, usd: Decimal, since: Any, until: Any) -> None:
        budget._check_fits(account(ledger.events(run), run), run, token, usd)
        right(ledger, run, token, usd, since, until)

    patch.setattr(budget, "hold", hold)


def release_frees_what_was_made(patch: Patch) -> None:
    right: Any = vars(Token)["over"].fget
    patch.setattr(Token, "over", property(lambda self: self.released is not None or right(self)))


def release_frees_nothing(patch: Patch) -> None:
    patch.setattr(budget, "release", lambda *_: None)


def extend_sets_nothing_aside(patch: Patch) -> None:
    patch.setattr(Token, "extend", lambda *_: None)


def extend_is_not_checked(patch: Patch) -> None:
    right = budget.extend

    def extend(ledger: Ledger, run: str, epoch: int, token: str, usd: Decimal, until: Any) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(budget, "_check_fits", lambda *_: None)
            inner.setattr(budget, "check_fits", lambda *_: None)
            right(ledger, run, epoch, token, usd, until)

    patch.setattr(budget, "extend", extend)


def unextend_gives_back_all(patch: Patch) -> None:
    right = Account._move

    def move(token: Token, event: Event) -> None:
        right(token, event)
        if event.kind == "unextend":
            token.extensions.clear()

    patch.setattr(Account, "_move", staticmethod(move))


def unextend_gives_back_nothing(patch: Patch) -> None:
    patch.setattr(budget, "unextend", lambda *_: None)


def settle_counts_twice(patch: Patch) -> None:
    def settle(self: Account, event: Event, right: Any = Account._settle) -> None:
        right(self, event)
        self.settled_usd += event.usd or Decimal(0)

    patch.setattr(Account, "_settle", settle)


def settle_of_one_frees_its_group(patch: Patch) -> None:
    def over(self: Token) -> bool:
        return (self.released is not None and not self.made) or bool(self.settled)

    patch.setattr(Token, "over", property(over))


def settle_does_not_reach_the_day(patch: Patch) -> None:
    patch.setattr(Account, "shares", lambda *_: {})


def close_leaves_the_run_open(patch: Patch) -> None:
    patch.setattr(budget, "close", lambda *_: None)


def limit_is_not_looked_at(patch: Patch) -> None:
    patch.setattr(budget, "check_fits", lambda *_: None)


def limit_is_of_one_run(patch: Patch) -> None:
    right = Books.purse

    def purse(self: Books, owner: str) -> Purse:
        found = right(self, owner)
        return Purse(found.limits, found.spent, dict(list(found.holding.items())[:1]))

    patch.setattr(Books, "purse", purse)


def a_lost_put_is_taken_for_written(patch: Patch) -> None:
    def put(self: Bucket, line: bytes, right: Any = Bucket._put) -> bool:
        try:
            written: bool = right(self, line)
        except BotoCoreError:
            self._tags = [""]
            self.took(line)
            return True
        return written

    patch.setattr(Bucket, "_put", put)


def a_put_that_lost_its_race_is_taken_for_written(patch: Patch) -> None:
    def put(self: Bucket, line: bytes, right: Any = Bucket._put) -> bool:
        if not right(self, line):
            self._tags = [""]
            self.took(line)
        return True

    patch.setattr(Bucket, "_put", put)


def who_lost_a_race_writes_what_he_decided_before(patch: Patch) -> None:
    right = Ledger.append

    def append(self: Ledger, run: str, decide: Any) -> Event | None:
        made: list[Draft | None] = []

        def once(books: Books) -> Draft | None:
            if not made:
                made.append(decide(books))
            return made[0]

        return right(self, run, once)

    patch.setattr(Ledger, "append", append)


BUGS: list[Callable[[Patch], None]] = [
    open_forgets_what_was_spent,
    open_forgets_its_owner,
    fence_raises_no_epoch,
    fence_drops_what_has_begun,
    reserve_forgets_what_is_held,
    reserve_takes_the_smaller,
    reserve_counts_only_today,
    intent_is_not_written,
    intent_is_written_by_an_older_owner,
    commit_forgets_what_was_made,
    hold_sets_nothing_aside,
    hold_forgets_what_is_paid,
    hold_is_refused_above_a_limit,
    release_frees_what_was_made,
    release_frees_nothing,
    extend_sets_nothing_aside,
    extend_is_not_checked,
    unextend_gives_back_all,
    unextend_gives_back_nothing,
    settle_counts_twice,
    settle_of_one_frees_its_group,
    settle_does_not_reach_the_day,
    close_leaves_the_run_open,
    limit_is_not_looked_at,
    limit_is_of_one_run,
]
RACES: list[Callable[[Patch], None]] = [
    a_lost_put_is_taken_for_written,
    a_put_that_lost_its_race_is_taken_for_written,
    who_lost_a_race_writes_what_he_decided_before,
]
SEARCH = settings(
    max_examples=400,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_the_machine_finds_it(plant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, MegatokError)):
        run_state_machine_as_test(OnFile, settings=SEARCH)


@pytest.mark.parametrize("plant", RACES, ids=lambda plant: plant.__name__)
def test_the_machine_over_a_bucket_finds_it(plant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, MegatokError)):
        run_state_machine_as_test(OnShelf, settings=SEARCH)
