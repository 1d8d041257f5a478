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
USD = st.decimals(0, 6, places=6)
SHARE = st.decimals(0, 1, places=2)
WHO = st.sampled_from([0, 1])
INDEX = st.sampled_from([0, 1, 2])


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
        return self.paid_usd if self.gone or not self.began else max(self.worst_usd, self.paid_usd)


class Books(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.handles = [Ledger(self.folder.as_uri()) for _ in range(2)]
        self.epochs = [0, 0]
        self.creates: dict[str, Create] = {}
        self.budget_usd = Decimal(0)
        self.made = 0

    @initialize(usd=st.decimals("0.000001", 10, places=6))
    def open(self, usd: Decimal) -> None:
        self.budget_usd = usd
        self.epochs = [handle.open(RUN, usd) for handle in self.handles]

    def owns(self, who: int) -> bool:
        return self.epochs[who] == self.handles[0].epoch(RUN)

    def last(self, who: int, index: int) -> str:
        return token(RUN, index, attempt(self.handles[who].events(), RUN, index)[0])

    @rule(who=WHO, index=INDEX, usd=USD)
    def reserve(self, who: int, index: int, usd: Decimal) -> None:
        name = self.last(who, index)
        try:
            budget.reserve(self.handles[who], RUN, self.epochs[who], name, usd)
        except Fenced:
            assert not self.owns(who)
        except OverBudget:
            known = self.creates.get(name)
            used = self.exposure_usd() + sum(one.worst_usd for one in self.creates.values() if not one.began)
            assert used + usd - (known.worst_usd if known else 0) > self.budget_usd
        else:
            assert self.owns(who)
            create = self.creates.setdefault(name, Create(Decimal(0)))
            create.worst_usd = max(create.worst_usd, usd)

    @rule(who=WHO, index=INDEX, nodes=st.integers(0, 3))
    def create(self, who: int, index: int, nodes: int) -> None:
        """Intent, then the call; whether it is told what it made is left to `commit`."""
        name = self.last(who, index)
        create = self.creates.get(name)
        if create is None or create.began:
            return
        try:
            budget.intent(self.handles[who], RUN, self.epochs[who], name, "create")
        except Fenced:
            assert not self.owns(who)
            return
        create.began = True
        self.made += nodes
        create.running = {str(self.made - number) for number in range(nodes)}

    def begun(self, index: int) -> str | None:
        names = [name for name, one in self.creates.items() if one.began and not one.gone and f"-{index}-" in name]
        return names[-1] if names else None

    @rule(who=WHO, index=INDEX)
    def commit_or_release(self, who: int, index: int) -> None:
        """By whoever looked: a truth is never refused, whatever the epoch."""
        if (name := self.begun(index)) is None:
            return
        create = self.creates[name]
        if create.running:
            things = tuple(machine(name) for name in sorted(create.running))
            budget.commit(self.handles[who], RUN, name, things, NOON)
            create.known = True
        elif not create.known:
            budget.release(self.handles[who], RUN, name, "made nothing")
            create.gone = True

    @rule(who=WHO, index=INDEX, share=SHARE, twice=st.booleans())
    def delete(self, who: int, index: int, share: Decimal, twice: bool) -> None:
        name = self.begun(index)
        if name is None or not self.creates[name].known or not self.creates[name].running:
            return
        create = self.creates[name]
        left_usd = create.worst_usd - create.paid_usd
        usd = (left_usd * share).quantize(Decimal("0.000001"), "ROUND_DOWN")
        node = create.running.pop()
        for _ in range(1 + twice):
            budget.settle(self.handles[who], RUN, name, machine(node), usd, NOON, NOON + timedelta(hours=1))
        create.paid_usd += usd
        create.gone = not create.running

    @rule(who=WHO, index=INDEX, usd=USD)
    def extend(self, who: int, index: int, usd: Decimal) -> None:
        if (name := self.begun(index)) is None:
            return
        try:
            budget.extend(self.handles[who], RUN, self.epochs[who], name, usd)
        except Fenced:
            assert not self.owns(who)
        except OverBudget:
            pass
        else:
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
        assert self.exposure_usd() <= now.settled_usd + now.reserved_usd

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
TestBooks.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
