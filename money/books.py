"""What all events of a ledger add up to, kept up event by event: an append costs the same in a long ledger."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from money.account import ZERO, Account, Token
from money.periods import UNITS, Unit, period
from spec.ledger import Event

Span = tuple[str, str, Decimal]
"""First and last period in which money that is set aside counts."""


@dataclass
class Purse:
    """The money of one owner, over all runs: what days and months may cost, and what holds or has spent it.

    What is set aside counts in full in each day and month in which it may bill, and until it is settled; what is
    settled counts in those in which it ran.
    """

    limits: dict[Unit, Decimal | None] = field(default_factory=dict)
    spent: dict[str, Decimal] = field(default_factory=dict)
    holding: dict[str, Account] = field(default_factory=dict)
    """Its runs that hold money, by name."""

    def used_usd(self, name: str, unit: Unit, now: datetime) -> Decimal:
        """What the period costs at most."""
        return self._used_usd(name, self._spans(unit, now, None))

    def fullest(
        self, unit: Unit, since: datetime, until: datetime, now: datetime, besides: Token | None = None
    ) -> tuple[str, Decimal]:
        """The period from `since` to `until` in which most is used, and how much, without what `besides` holds.

        Money in use grows only where something begins or was spent, so that the rest need not be looked at.
        """
        first, last, spans = period(since, unit), period(until, unit), self._spans(unit, now, besides)
        begins = {first, *self.spent, *(start for start, _, _ in spans)}
        names = (name for name in begins if len(name) == UNITS[unit] and first <= name <= last)
        return max(((name, self._used_usd(name, spans)) for name in names), key=lambda found: found[1])

    def add(self, spent: Iterable[tuple[str, Decimal]]) -> None:
        for name, usd in spent:
            self.spent[name] = self.spent.get(name, ZERO) + usd

    def see(self, run: str, account: Account) -> None:
        self.holding.pop(run, None)
        if account.held:
            self.holding[run] = account

    def _spans(self, unit: Unit, now: datetime, besides: Token | None) -> list[Span]:
        held = (token for account in self.holding.values() for token in account.held.values())
        return [
            (period(token.since, unit), period(max(token.until, now), unit), token.held_usd)
            for token in held
            if token is not besides
        ]

    def _used_usd(self, name: str, spans: list[Span]) -> Decimal:
        return sum((usd for first, last, usd in spans if first <= name <= last), self.spent.get(name, ZERO))


class Books:
    """Accounts by run, purses by owner. Only for looking, but for `apply`."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._accounts: dict[str, Account] = {}
        self._purses: dict[str, Purse] = {}
        for event in events:
            self.apply(event)

    def account(self, run: str) -> Account:
        """Of a run never named: an empty one."""
        return self._accounts.get(run) or Account()

    def purse(self, owner: str) -> Purse:
        return self._purses.get(owner) or Purse()

    def apply(self, event: Event) -> None:
        if event.kind == "limit":
            self._purse(event.owner).limits = {"day": event.day_usd, "month": event.month_usd}
        if not event.run:
            return
        account = self._accounts.setdefault(event.run, Account())
        before, news = account.owner, account.shares(event)
        account.apply(event)
        if account.owner != before:
            news = dict(account.spent)
            self._leave(before, event.run, account)
        self._purse(account.owner).add(news.items())
        self._purse(account.owner).see(event.run, account)

    def _leave(self, owner: str, run: str, account: Account) -> None:
        """A run opened by a program that knew no owners gets one: all of it counts there now."""
        purse = self._purse(owner)
        purse.add((name, -usd) for name, usd in account.spent.items())
        purse.holding.pop(run, None)

    def _purse(self, owner: str) -> Purse:
        return self._purses.setdefault(owner, Purse())
