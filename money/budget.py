"""The budget: `reserve -> intent -> commit -> settle`, or `release`. A run never costs more than it was opened with.

Creating asks for the epoch that the caller read when it began, and is refused to an older one (`Fenced`). Telling
what happened (`commit`, `release`, `armed`, `settle`, `sighting`) is never refused: it is the truth, whoever says it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from money.account import ZERO, Account, account, key
from money.ledger import Draft, Ledger
from spec.errors import Fenced, MegatokError, OverBudget
from spec.ledger import Event, Resource


@dataclass(frozen=True)
class Spend:
    """`free_usd` = budget - settled - reserved: below 0 only where a cloud charged more than the worst case."""

    budget_usd: Decimal
    reserved_usd: Decimal
    settled_usd: Decimal
    free_usd: Decimal


def spend(events: Iterable[Event], run: str) -> Spend:
    """Where the run's money is now; all 0 for a run never opened."""
    now = account(events, run)
    return Spend(now.budget_usd, now.reserved_usd, now.settled_usd, now.free_usd)


def reserve(ledger: Ledger, run: str, epoch: int, token: str, usd: Decimal) -> None:
    """Set the worst case aside, before anything is created. Again for the same token: the larger of the two."""
    _check_amount(usd, token)

    def decide(events: tuple[Event, ...]) -> Draft | None:
        now = _owned(events, run, epoch)
        token_now = now.tokens.get(token)
        if token_now and (token_now.over or token_now.released):
            raise MegatokError(f"attempt {token} is over, and its token spent; take the next attempt")
        _check_fits(now, run, token, usd - (token_now.reserved_usd if token_now else ZERO))
        return Draft("reserve", token, usd)

    ledger.append(run, decide)


def intent(ledger: Ledger, run: str, epoch: int, token: str, note: str, resources: tuple[Resource, ...] = ()) -> None:
    """Say that create is about to be called, before it is. Who adopts says it again, to be on record."""

    def decide(events: tuple[Event, ...]) -> Draft | None:
        _live(_owned(events, run, epoch), token)
        return Draft("intent", token, resources=resources, note=note)

    ledger.append(run, decide)


def extend(ledger: Ledger, run: str, epoch: int, token: str, usd: Decimal) -> None:
    """Set `usd` more aside, before a lifetime is moved."""
    _check_amount(usd, token)

    def decide(events: tuple[Event, ...]) -> Draft | None:
        now = _owned(events, run, epoch)
        _live(now, token)
        _check_fits(now, run, token, usd)
        return Draft("extend", token, usd)

    ledger.append(run, decide)


def commit(ledger: Ledger, run: str, token: str, resources: tuple[Resource, ...], started_at: datetime | None) -> None:
    """Say what a create made. Also what was found under the token later."""

    def decide(events: tuple[Event, ...]) -> Draft | None:
        token_now = account(events, run).tokens.get(token)
        if token_now and token_now.committed and {key(resource) for resource in resources} <= token_now.made:
            return None
        return Draft("commit", token, resources=resources, started_at=started_at)

    ledger.append(run, decide)


def release(ledger: Ledger, run: str, token: str, note: str) -> None:
    """Give the attempt up: free its reservation, but for what it is known to have made and is not settled yet."""

    def decide(events: tuple[Event, ...]) -> Draft | None:
        token_now = account(events, run).tokens.get(token)
        return None if token_now is None or token_now.released else Draft("release", token, note=note)

    ledger.append(run, decide)


def armed(
    ledger: Ledger,
    run: str,
    token: str,
    note: str,
    resources: tuple[Resource, ...] = (),
    ends_at: datetime | None = None,
) -> None:
    """Say that a dead-man switch is confirmed (`note` says which), and when it ends `resources`."""
    ledger.append(run, lambda _: Draft("armed", token, resources=resources, note=note, ended_at=ends_at))


def settle(
    ledger: Ledger,
    run: str,
    token: str,
    resource: Resource,
    usd: Decimal,
    started_at: datetime | None,
    ended_at: datetime,
) -> None:
    """Say what a resource that is gone cost, by the cloud's own times; frees what was set aside beyond that."""
    _check_amount(usd, token)

    def decide(events: tuple[Event, ...]) -> Draft | None:
        if key(resource) in account(events, run).settled:
            return None
        return Draft("settle", token, usd, (resource,), started_at=started_at, ended_at=ended_at)

    ledger.append(run, decide)


def sighting(ledger: Ledger, run: str, resources: tuple[Resource, ...], at: datetime) -> None:
    """Say that a listing asked for at `at` lacked `resources`."""
    ledger.append(run, lambda _: Draft("sighting", resources=resources, at=at))


def close(ledger: Ledger, run: str, note: str) -> None:
    """End the run: nothing more is reserved. What is still held stays held, and may be settled later."""

    def decide(events: tuple[Event, ...]) -> Draft | None:
        return Draft("close", note=note) if account(events, run).is_open else None

    ledger.append(run, decide)


def _owned(events: tuple[Event, ...], run: str, epoch: int) -> Account:
    now = account(events, run)
    if epoch < now.epoch:
        raise Fenced(
            f"run {run!r} has a newer owner (epoch {now.epoch}, ours is {epoch}): nothing more is created here; "
            f"see megatok status {run}"
        )
    if not now.is_open:
        raise OverBudget(f"run {run!r} has no open budget in the ledger; open it with a budget_usd first")
    return now


def _live(now: Account, token: str) -> None:
    token_now = now.tokens.get(token)
    if token_now is None or token_now.over or token_now.released:
        raise MegatokError(
            f"nothing is reserved under {token}; reserve its worst case first, under a token not yet spent"
        )


def _check_fits(now: Account, run: str, token: str, more_usd: Decimal) -> None:
    if more_usd > max(now.free_usd, ZERO):
        raise OverBudget(
            f"{token} needs {more_usd} USD in the worst case, run {run!r} has {now.free_usd} USD free: "
            f"budget {now.budget_usd}, settled {now.settled_usd}, reserved {now.reserved_usd}; "
            "raise budget_usd, shorten lifetime_s, or take fewer or cheaper nodes"
        )


def _check_amount(usd: Decimal, token: str) -> None:
    if not (usd.is_finite() and usd >= 0):
        raise MegatokError(f"{usd} USD under {token} is not an amount; give one that is finite and not negative")
