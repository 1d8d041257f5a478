"""What a run's events add up to: its budget, its owner, and where each token stands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from money.periods import FOREVER, shares, whole_in_each
from spec.ledger import Event, Resource

ZERO = Decimal(0)
ADOPTED = "adopted by an audit"
"""Note of an `open` whose budget is what its things cost at worst: what was spent before is lost."""

Key = tuple[str, str, str, str]


def key(resource: Resource) -> Key:
    """What makes two mentions the same thing; its name may be missing in a listing."""
    return resource.cloud, resource.region, resource.kind, resource.id


@dataclass
class Token:
    """One attempt to create a group."""

    since: datetime = FOREVER
    """Earliest moment at which it may bill."""
    reserved_until: datetime | None = None
    """Latest moment at which it may bill, but for its extensions; None while nothing is reserved."""
    reserved_usd: Decimal = ZERO
    extensions: dict[datetime, Decimal] = field(default_factory=dict)
    """By the moment to which each moves the end: asked for twice, one is one."""
    intent: Event | None = None
    committed: bool = False
    released: Event | None = None
    made: set[Key] = field(default_factory=set)
    settled: dict[Key, Decimal] = field(default_factory=dict)

    @property
    def until(self) -> datetime:
        return max((self.reserved_until or FOREVER, *self.extensions))

    @property
    def worst_usd(self) -> Decimal:
        return sum(self.extensions.values(), self.reserved_usd)

    @property
    def begun(self) -> bool:
        """A create may have been called."""
        return self.intent is not None or self.committed

    @property
    def unknown(self) -> bool:
        """A create may have been called, and what it made is not known."""
        return self.intent is not None and not self.committed and self.released is None

    @property
    def over(self) -> bool:
        """The outcome is known, and all that it made is paid. Known leftovers outlive a release."""
        return (self.committed or self.released is not None) and self.made <= self.settled.keys()

    @property
    def held_usd(self) -> Decimal:
        """Still set aside: what is settled was part of the worst case, the rest of the group costs at most the rest."""
        return ZERO if self.over else max(ZERO, self.worst_usd - sum(self.settled.values(), ZERO))

    def reserve(self, event: Event) -> None:
        """Said again, the larger amount and the wider time hold."""
        self.since = min(self.since, event.at, event.started_at or event.at)
        until = event.ended_at or FOREVER
        self.reserved_until = max(self.reserved_until or until, until)
        self.reserved_usd = max(self.reserved_usd, event.usd or ZERO)

    def extend(self, event: Event) -> None:
        until, usd = event.ended_at or FOREVER, event.usd or ZERO
        before = self.extensions.get(until, ZERO)
        self.extensions[until] = before + usd if until == FOREVER else max(before, usd)

    def commit(self, event: Event) -> None:
        self.committed = True
        self.made |= {key(resource) for resource in event.resources}


@dataclass
class Account:
    budget_usd: Decimal = ZERO
    owner: str = ""
    is_open: bool = False
    adopted: bool = False
    epoch: int = 0
    began_at: datetime | None = None
    tokens: dict[str, Token] = field(default_factory=dict)
    held: dict[str, Token] = field(default_factory=dict)
    """The tokens that hold money."""
    settled: dict[Key, Event] = field(default_factory=dict)
    settled_usd: Decimal = ZERO
    spent: dict[str, Decimal] = field(default_factory=dict)
    """What is settled, by day and by month."""

    @property
    def reserved_usd(self) -> Decimal:
        return sum((token.held_usd for token in self.held.values()), ZERO)

    @property
    def free_usd(self) -> Decimal:
        return self.budget_usd - self.settled_usd - self.reserved_usd

    def apply(self, event: Event) -> None:
        self.epoch = event.epoch
        self.began_at = self.began_at or event.at
        match event.kind:
            case "open":
                self.budget_usd, self.is_open, self.owner = event.usd or ZERO, True, event.owner or self.owner
                self.adopted = event.note == ADOPTED
            case "fence":
                self._drop_unbegun()
            case "close":
                self.is_open = False
                self._drop_unbegun()
            case "settle":
                self._settle(event)
            case "reserve" | "extend" | "unextend" | "intent" | "commit" | "release":
                self._move(self.tokens.setdefault(event.token, Token()), event)
        self._hold(event.token)

    def shares(self, event: Event) -> dict[str, Decimal]:
        """What a `settle` adds to days and months; nothing where the resource is settled already."""
        if event.kind != "settle" or all(key(resource) in self.settled for resource in event.resources):
            return {}
        usd, ended_at = event.usd or ZERO, event.ended_at or event.at
        if event.started_at:
            return shares(usd, event.started_at, ended_at)
        token = self.tokens.get(event.token)
        return whole_in_each(usd, token.since if token else self.began_at or event.at, ended_at)

    def _drop_unbegun(self) -> None:
        """Its owner can write no intent any more, so nothing can come of what it only reserved."""
        self.tokens = {name: token for name, token in self.tokens.items() if token.begun}
        self.held = {name: token for name, token in self.held.items() if token.begun}

    def _hold(self, name: str) -> None:
        self.held.pop(name, None)
        if (token := self.tokens.get(name)) and token.held_usd:
            self.held[name] = token

    def _settle(self, event: Event) -> None:
        for name, usd in self.shares(event).items():
            self.spent[name] = self.spent.get(name, ZERO) + usd
        for resource in event.resources:
            if key(resource) in self.settled:
                continue
            self.settled[key(resource)] = event
            self.settled_usd += event.usd or ZERO
            if event.token in self.tokens:
                self.tokens[event.token].settled[key(resource)] = event.usd or ZERO

    @staticmethod
    def _move(token: Token, event: Event) -> None:
        match event.kind:
            case "reserve":
                token.reserve(event)
            case "extend":
                token.extend(event)
            case "unextend":
                token.extensions.pop(event.ended_at or FOREVER, None)
            case "intent":
                token.intent = event
            case "commit":
                token.commit(event)
            case "release":
                token.released = event


def account(events: Iterable[Event], run: str) -> Account:
    """Add up the events of `run`; those of other runs do not count."""
    total = Account()
    for event in events:
        if event.run == run:
            total.apply(event)
    return total
