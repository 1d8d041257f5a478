"""What a run's events add up to: its budget, its owner, and where each token stands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal

from spec.ledger import Event, Resource

ZERO = Decimal(0)

Key = tuple[str, str, str, str]


def key(resource: Resource) -> Key:
    """What makes two mentions the same thing; its name may be missing in a listing."""
    return resource.cloud, resource.region, resource.kind, resource.id


@dataclass
class Token:
    """One attempt to create a group."""

    reserved_usd: Decimal = ZERO
    intent: Event | None = None
    committed: bool = False
    released: Event | None = None
    made: set[Key] = field(default_factory=set)
    settled: dict[Key, Decimal] = field(default_factory=dict)

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
        return ZERO if self.over else max(ZERO, self.reserved_usd - sum(self.settled.values(), ZERO))


@dataclass
class Account:
    budget_usd: Decimal = ZERO
    is_open: bool = False
    epoch: int = 0
    tokens: dict[str, Token] = field(default_factory=dict)
    settled: dict[Key, Event] = field(default_factory=dict)

    @property
    def settled_usd(self) -> Decimal:
        return sum((event.usd or ZERO for event in self.settled.values()), ZERO)

    @property
    def reserved_usd(self) -> Decimal:
        return sum((token.held_usd for token in self.tokens.values()), ZERO)

    @property
    def free_usd(self) -> Decimal:
        return self.budget_usd - self.settled_usd - self.reserved_usd

    def apply(self, event: Event) -> None:
        self.epoch = event.epoch
        match event.kind:
            case "open":
                self.budget_usd, self.is_open = event.usd or ZERO, True
            case "fence":
                self._drop_unbegun()
            case "close":
                self.is_open = False
                self._drop_unbegun()
            case "settle":
                self._settle(event)
            case "reserve" | "extend" | "intent" | "commit" | "release":
                self._move(self.tokens.setdefault(event.token, Token()), event)

    def _drop_unbegun(self) -> None:
        """Its owner can write no intent any more, so nothing can come of what it only reserved."""
        self.tokens = {name: token for name, token in self.tokens.items() if token.begun}

    def _settle(self, event: Event) -> None:
        for resource in event.resources:
            self.settled[key(resource)] = event
            if event.token in self.tokens:
                self.tokens[event.token].settled[key(resource)] = event.usd or ZERO

    @staticmethod
    def _move(token: Token, event: Event) -> None:
        match event.kind:
            case "reserve":
                token.reserved_usd = max(token.reserved_usd, event.usd or ZERO)
            case "extend":
                token.reserved_usd += event.usd or ZERO
            case "intent":
                token.intent = event
            case "commit":
                token.committed = True
                token.made |= {key(resource) for resource in event.resources}
            case "release":
                token.released = event


def account(events: Iterable[Event], run: str) -> Account:
    """Add up the events of `run`; those of other runs do not count."""
    total = Account()
    for event in events:
        if event.run == run:
            total.apply(event)
    return total
