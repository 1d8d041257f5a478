"""Any order of what plug-ins, teardown and crashes do to one ledger: the budget is never passed."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from money import budget
from money.intents import attempt, open_intents, token
from money.ledger import Ledger
from spec.errors import Fenced, OverBudget
from spec.ledger import Resource

RUN = "r"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
USD = st.integers(0, 300).map(lambda cents: Decimal(cents) / 100)
SHARE = st.sampled_from([Decimal(0), Decimal("0.3"), Decimal(1)])
WHO = st.sampled_from([0, 1])
INDEX = st.sampled_from([0, 1])


@dataclass
class Create:
    """The truth about one attempt, as a cloud sees it: what it may still cost, and what it did."""

    worst_usd: Decimal
    began: bool = False
    known: bool = False
    gone: bool = False
    running: set[str] = field(default_factory=set)
    paid_usd: Decimal = Decimal(0)

    @property
    def exposure_usd(self) -> Decimal:
        return self.paid_usd if self.gone else max(self.worst_usd, self.paid_usd)


class Books(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.handles = [Ledger(self.folder.as_uri()) for _ in range(2)]
        self.epochs = [0, 0]
        self.creates: dict[str, Create] = {}
        self.budget_usd = Decimal(0)

    @initialize(usd=st.integers(200, 1000).map(lambda cents: Decimal(cents) / 100))
    def open(self, usd: Decimal) -> None:
        self.budget_usd = usd
        self.epochs = [handle.open(RUN, usd) for handle in self.handles]

    def owns(self, who: int) -> bool:
        return self.epochs[who] == self.handles[0].epoch(RUN)

    def last(self, who: int, index: int) -> tuple[str, bool]:
        number, held = attempt(self.handles[who].events(), RUN, index)
        return token(RUN, index, number), held

    @rule(who=WHO, index=INDEX, usd=USD, nodes=st.integers(0, 3), steps=st.integers(1, 3))
    def create(self, who: int, index: int, usd: Decimal, nodes: int, steps: int) -> None:
        """A plug-in's create, which may die after each of its steps; goes on with an attempt left open."""
        name, held = self.last(who, index)
        begun = held or (self.reserve(who, name, usd) and steps > 1 and self.begin(who, name, nodes))
        if begun and steps > 2:
            self.look(who, name)

    def reserve(self, who: int, name: str, usd: Decimal) -> bool:
        before_usd = self.creates[name].worst_usd if name in self.creates else Decimal(0)
        try:
            budget.reserve(self.handles[who], RUN, self.epochs[who], name, usd)
        except Fenced:
            assert not self.owns(who)
            return False
        except OverBudget:
            assert self.exposure_usd() + usd - before_usd > self.budget_usd
            return False
        assert self.owns(who)
        self.creates[name] = Create(max(before_usd, usd))
        return True

    def begin(self, who: int, name: str, nodes: int) -> bool:
        budget.intent(self.handles[who], RUN, self.epochs[who], name, "create")
        self.creates[name].began = True
        self.creates[name].running = {f"{name}-{number}" for number in range(nodes)}
        return True

    def look(self, who: int, name: str) -> None:
        """By whoever looks: a truth is never refused, whatever the epoch."""
        create = self.creates[name]
        if create.running:
            budget.commit(self.handles[who], RUN, name, tuple(map(machine, sorted(create.running))), NOON)
            create.known = True
        else:
            budget.release(self.handles[who], RUN, name, "made nothing")
            create.gone = True

    def begun(self, index: int) -> str | None:
        names = [name for name, one in self.creates.items() if one.began and not one.gone and f"-{index}-" in name]
        return names[-1] if names else None

    @rule(who=WHO, index=INDEX, share=SHARE, all_of_them=st.booleans())
    def delete(self, who: int, index: int, share: Decimal, all_of_them: bool) -> None:
        if (name := self.begun(index)) is None:
            return
        create = self.creates[name]
        self.look(who, name)
        while create.running:
            usd = ((create.worst_usd - create.paid_usd) * share).quantize(Decimal("0.000001"), "ROUND_DOWN")
            node = create.running.pop()
            for handle in self.handles:
                budget.settle(handle, RUN, name, machine(node), usd, NOON, NOON + timedelta(hours=1))
            create.paid_usd += usd
            create.gone = not create.running
            if not all_of_them:
                break

    @rule(who=WHO, index=INDEX, usd=USD)
    def extend(self, who: int, index: int, usd: Decimal) -> None:
        if (name := self.begun(index)) is None:
            return
        try:
            budget.extend(self.handles[who], RUN, self.epochs[who], name, usd)
        except Fenced:
            assert not self.owns(who)
        except OverBudget:
            assert self.exposure_usd() + usd > self.budget_usd
        else:
            assert self.owns(who)
            self.creates[name].worst_usd += usd

    @rule(who=WHO)
    def fence(self, who: int) -> None:
        self.epochs[who] = self.handles[who].fence(RUN)
        self.creates = {name: one for name, one in self.creates.items() if one.began}

    @rule(who=WHO)
    def restart(self, who: int) -> None:
        self.handles[who] = Ledger(self.folder.as_uri())
        self.epochs[who] = self.handles[who].open(RUN, self.budget_usd)

    @rule(torn=st.binary(min_size=1, max_size=40).filter(lambda data: b"\n" not in data))
    def crash(self, torn: bytes) -> None:
        """A writer that dies in the middle of its line."""
        with (self.folder / "ledger.jsonl").open("ab") as file:
            file.write(torn)

    @precondition(lambda self: self.budget_usd)
    @invariant()
    def the_budget_is_not_passed(self) -> None:
        now = budget.spend(self.handles[0].events(), RUN)
        assert now.settled_usd + now.reserved_usd <= now.budget_usd == self.budget_usd
        assert self.exposure_usd() == now.settled_usd + now.reserved_usd

    @invariant()
    def all_read_the_same(self) -> None:
        assert self.handles[0].events() == self.handles[1].events() == Ledger(self.folder.as_uri()).events()

    @invariant()
    def open_intents_are_the_creates_of_unknown_outcome(self) -> None:
        unknown = {name for name, one in self.creates.items() if one.began and not one.known and not one.gone}
        assert {event.token for event in open_intents(self.handles[1].events(), RUN)} == unknown

    def exposure_usd(self) -> Decimal:
        return sum((one.exposure_usd for one in self.creates.values()), Decimal(0))

    def teardown(self) -> None:
        shutil.rmtree(self.folder)


def machine(id: str) -> Resource:
    return Resource(cloud="local", region="here", kind="machine", id=id)


TestBooks = Books.TestCase
TestBooks.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
