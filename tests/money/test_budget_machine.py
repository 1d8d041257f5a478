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
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

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


class Truth:
    """What was really created and paid, kept without the ledger."""

    def __init__(self) -> None:
        self.budget_usd = Decimal(0)
        self.creates: dict[str, Create] = {}

    def exposure_usd(self) -> Decimal:
        return sum((one.exposure_usd for one in self.creates.values()), Decimal(0))

    def begun(self, index: int) -> str | None:
        names = [name for name, one in self.creates.items() if one.began and not one.gone and f"-{index}-" in name]
        return names[-1] if names else None

    def unknown(self) -> set[str]:
        return {name for name, one in self.creates.items() if one.began and not one.known and not one.gone}


class Plugin:
    """One process: its handle, and the epoch that it read when it began."""

    def __init__(self, address: str, truth: Truth) -> None:
        self.ledger = Ledger(address)
        self.truth = truth
        self.epoch = self.ledger.open(RUN, truth.budget_usd)

    def owns(self) -> bool:
        return self.epoch == self.ledger.epoch(RUN)

    def last(self, index: int) -> tuple[str, bool]:
        number, held = attempt(self.ledger.events(), RUN, index)
        return token(RUN, index, number), held

    def reserve(self, name: str, usd: Decimal) -> bool:
        known = self.truth.creates.get(name)
        before_usd = known.worst_usd if known else Decimal(0)
        try:
            budget.reserve(self.ledger, RUN, self.epoch, name, usd)
        except Fenced:
            assert not self.owns()
            return False
        except OverBudget:
            assert self.truth.exposure_usd() + usd - before_usd > self.truth.budget_usd
            return False
        assert self.owns()
        self.truth.creates[name] = Create(max(before_usd, usd))
        return True

    def begin(self, name: str, nodes: int) -> bool:
        budget.intent(self.ledger, RUN, self.epoch, name, "create")
        self.truth.creates[name].began = True
        self.truth.creates[name].running = {f"{name}-{number}" for number in range(nodes)}
        return True

    def look(self, name: str) -> None:
        """By whoever looks: a truth is never refused, whatever the epoch."""
        create = self.truth.creates[name]
        if create.running:
            budget.commit(self.ledger, RUN, name, tuple(map(machine, sorted(create.running))), NOON)
            create.known = True
        else:
            budget.release(self.ledger, RUN, name, "made nothing")
            create.gone = True

    def extend(self, name: str, usd: Decimal) -> None:
        try:
            budget.extend(self.ledger, RUN, self.epoch, name, usd)
        except Fenced:
            assert not self.owns()
        except OverBudget:
            assert self.truth.exposure_usd() + usd > self.truth.budget_usd
        else:
            assert self.owns()
            self.truth.creates[name].worst_usd += usd


class Books(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.truth = Truth()
        self.plugins: list[Plugin] = []

    @initialize(usd=st.integers(200, 1000).map(lambda cents: Decimal(cents) / 100))
    def open(self, usd: Decimal) -> None:
        self.truth.budget_usd = usd
        self.plugins = [Plugin(self.folder.as_uri(), self.truth) for _ in range(2)]

    @rule(who=WHO, index=INDEX, usd=USD, nodes=st.integers(0, 3), steps=st.integers(1, 3))
    def create(self, who: int, index: int, usd: Decimal, nodes: int, steps: int) -> None:
        """A plug-in's create, which may die after each of its steps; goes on with an attempt left open."""
        plugin = self.plugins[who]
        name, held = plugin.last(index)
        begun = held or (plugin.reserve(name, usd) and steps > 1 and plugin.begin(name, nodes))
        if begun and steps > 2:
            plugin.look(name)

    @rule(who=WHO, index=INDEX, share=SHARE, all_of_them=st.booleans())
    def delete(self, who: int, index: int, share: Decimal, all_of_them: bool) -> None:
        if (name := self.truth.begun(index)) is None:
            return
        create = self.truth.creates[name]
        self.plugins[who].look(name)
        while create.running:
            usd = ((create.worst_usd - create.paid_usd) * share).quantize(Decimal("0.000001"), "ROUND_DOWN")
            node = create.running.pop()
            for plugin in self.plugins:
                budget.settle(plugin.ledger, RUN, name, machine(node), usd, NOON, NOON + timedelta(hours=1))
            create.paid_usd += usd
            create.gone = not create.running
            if not all_of_them:
                break

    @rule(who=WHO, index=INDEX, usd=USD)
    def extend(self, who: int, index: int, usd: Decimal) -> None:
        if name := self.truth.begun(index):
            self.plugins[who].extend(name, usd)

    @rule(who=WHO)
    def fence(self, who: int) -> None:
        self.plugins[who].epoch = self.plugins[who].ledger.fence(RUN)
        self.truth.creates = {name: one for name, one in self.truth.creates.items() if one.began}

    @rule(who=WHO)
    def restart(self, who: int) -> None:
        self.plugins[who] = Plugin(self.folder.as_uri(), self.truth)

    @rule(torn=st.binary(min_size=1, max_size=40).filter(lambda data: b"\n" not in data))
    def crash(self, torn: bytes) -> None:
        """A writer that dies in the middle of its line."""
        with (self.folder / "ledger.jsonl").open("ab") as file:
            file.write(torn)

    @invariant()
    def the_budget_is_not_passed(self) -> None:
        now = budget.spend(Ledger(self.folder.as_uri()).events(), RUN)
        assert now.settled_usd + now.reserved_usd <= now.budget_usd == self.truth.budget_usd
        assert self.truth.exposure_usd() == now.settled_usd + now.reserved_usd

    @invariant()
    def all_read_the_same(self) -> None:
        fresh = Ledger(self.folder.as_uri()).events()
        assert all(plugin.ledger.events() == fresh for plugin in self.plugins)

    @invariant()
    def open_intents_are_the_creates_of_unknown_outcome(self) -> None:
        tokens = {event.token for event in open_intents(Ledger(self.folder.as_uri()).events(), RUN)}
        assert tokens == self.truth.unknown()

    def teardown(self) -> None:
        shutil.rmtree(self.folder)


def machine(id: str) -> Resource:
    return Resource(cloud="local", region="here", kind="machine", id=id)


TestBooks = Books.TestCase
TestBooks.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
