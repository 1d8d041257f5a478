"""The budget: `reserve -> intent -> commit -> settle`, or `release`. A run never costs more than it was opened with,
and the runs of an owner never more in a UTC day or month than its limits.

Creating asks for the epoch that the caller read when it began, and is refused to an older one (`Fenced`). Telling
what happened (`commit`, `hold`, `release`, `armed`, `settle`, `sighting`) is never refused for its owner or its amount:
it is the truth, whoever says it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from money.account import ZERO, Account, Token, account, key
from money.books import Books
from money.ledger import Draft, Ledger
from money.limits import check_fits
from money.periods import FOREVER
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


def reserve(
    ledger: Ledger,
    run: str,
    epoch: int,
    token: str,
    usd: Decimal,
    until: datetime | None = None,
    since: datetime | None = None,
) -> None:
    """Set the worst case aside, before anything is created. Again for the same token: the larger of the two.

    It may bill from `since` (now) to `until` (no end known) at the latest, by the cloud's clock where that is known.
    """
    _check_amount(usd, token)

    def decide(books: Books) -> Draft | None:
        account_now = _owned(books, run, epoch)
        before = account_now.tokens.get(token) or Token()
        if before.over or before.released:
            raise MegatokError(f"attempt {token} is over, and its token spent; take the next attempt")
        more_usd = max(ZERO, usd - before.reserved_usd)
        _check_fits(account_now, run, token, more_usd)
        start, end = since or ledger.clock(), until or FOREVER
        check_fits(books, account_now.owner, token, before, more_usd, start, end, ledger.clock())
        return Draft("reserve", token, usd, started_at=since, ended_at=until)

    ledger.append(run, decide)


def intent(ledger: Ledger, run: str, epoch: int, token: str, note: str, resources: tuple[Resource, ...] = ()) -> None:
    """Say that create is about to be called, before it is. Who adopts says it again, to be on record."""

    def decide(books: Books) -> Draft | None:
        _live(_owned(books, run, epoch), token)
        return Draft("intent", token, resources=resources, note=note)

    ledger.append(run, decide)


def extend(ledger: Ledger, run: str, epoch: int, token: str, usd: Decimal, until: datetime | None = None) -> None:
    """Set `usd` more aside, before a lifetime is moved to `until`. Again for the same `until`: the larger of both."""
    _check_amount(usd, token)

    def decide(books: Books) -> Draft | None:
        account_now = _owned(books, run, epoch)
        before = _live(account_now, token)
        standing_usd = before.extensions.get(until) if until else None
        if standing_usd is not None and usd <= standing_usd:
            return None
        more_usd = usd - (standing_usd or ZERO)
        _check_fits(account_now, run, token, more_usd)
        now = ledger.clock()
        check_fits(books, account_now.owner, token, before, more_usd, now, until or FOREVER, now)
        return Draft("extend", token, usd, ended_at=until)

    ledger.append(run, decide)


def unextend(ledger: Ledger, run: str, epoch: int, token: str, until: datetime, note: str) -> None:
    """Give an extension back: the lifetime is known not to have been moved to `until`.

    Refused to an older owner, as creating is: a newer one may have moved it meanwhile.
    """

    def decide(books: Books) -> Draft | None:
        account_now = _current(books, run, epoch)
        token_now = account_now.tokens.get(token)
        stands = token_now is not None and until in token_now.extensions
        return Draft("unextend", token, ended_at=until, note=note) if stands else None

    ledger.append(run, decide)


def commit(ledger: Ledger, run: str, token: str, resources: tuple[Resource, ...], started_at: datetime | None) -> None:
    """Say what a create made. Also what was found under the token later."""

    def decide(books: Books) -> Draft | None:
        token_now = books.account(run).tokens.get(token)
        if token_now and token_now.committed and {key(resource) for resource in resources} <= token_now.made:
            return None
        return Draft("commit", token, resources=resources, started_at=started_at)

    ledger.append(run, decide)


def hold(ledger: Ledger, run: str, token: str, usd: Decimal, since: datetime, until: datetime | None) -> None:
    """Set aside what stands under the token, which a `commit` has told: a truth, also where it passes a limit.

    It begins nothing: without that commit it is refused, and creating under the token still asks for the epoch.
    """
    _check_amount(usd, token)

    def decide(books: Books) -> Draft | None:
        token_now = books.account(run).tokens.get(token)
        if token_now is None or not token_now.committed or token_now.over:
            raise MegatokError(f"nothing is known to stand under {token}; reserve its worst case before it is made")
        paid_usd = sum(token_now.settled.values(), ZERO)
        return Draft("reserve", token, paid_usd + usd, started_at=since, ended_at=until)

    ledger.append(run, decide)


def release(ledger: Ledger, run: str, token: str, note: str) -> None:
    """Give the attempt up: free its reservation, but for what it is known to have made and is not settled yet."""

    def decide(books: Books) -> Draft | None:
        token_now = books.account(run).tokens.get(token)
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

    def decide(books: Books) -> Draft | None:
        if key(resource) in books.account(run).settled:
            return None
        return Draft("settle", token, usd, (resource,), started_at=started_at, ended_at=ended_at)

    ledger.append(run, decide)


def sighting(ledger: Ledger, run: str, resources: tuple[Resource, ...], at: datetime) -> None:
    """Say that a listing asked for at `at` lacked `resources`."""
    ledger.append(run, lambda _: Draft("sighting", resources=resources, at=at))


def close(ledger: Ledger, run: str, note: str) -> None:
    """End the run: nothing more is reserved. What is still held stays held, and may be settled later."""
    ledger.append(run, lambda books: Draft("close", note=note) if books.account(run).is_open else None)


def _current(books: Books, run: str, epoch: int) -> Account:
    now = books.account(run)
    if epoch < now.epoch:
        raise Fenced(
            f"run {run!r} has a newer owner (epoch {now.epoch}, ours is {epoch}): nothing more is created here; "
            f"see megatok status {run}"
        )
    return now


def _owned(books: Books, run: str, epoch: int) -> Account:
    now = _current(books, run, epoch)
    if not now.is_open:
        raise OverBudget(f"run {run!r} has no open budget in the ledger; open it with a budget_usd first")
    return now


def _live(now: Account, token: str) -> Token:
    token_now = now.tokens.get(token)
    if token_now is None or token_now.reserved_until is None or token_now.over or token_now.released:
        raise MegatokError(
            f"nothing is reserved under {token}; reserve its worst case first, under a token not yet spent"
        )
    return token_now


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
