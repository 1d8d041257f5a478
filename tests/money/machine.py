"""Any order of what plug-ins, teardowns, owners and crashes do to one ledger, beside the truth of it."""

from __future__ import annotations

import copy
import shutil
import tempfile
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from money import budget
from money.books import Books
from money.intents import attempt, open_intents, token
from money.ledger import Ledger
from money.limits import set_limits
from money.periods import UNITS
from spec.errors import Fenced, OverBudget
from spec.ledger import Resource
from tests.money.shelf import FAULTS, Fault, Shelf
from tests.money.world import OWNERS, RUNS, Create, Truth, at, names

USD = st.integers(0, 300).map(lambda cents: Decimal(cents) / 100)
LIMIT = st.none() | st.integers(200, 900).map(lambda cents: Decimal(cents) / 100)
SHARE = st.sampled_from([Decimal(0), Decimal("0.3"), Decimal(1)])
WHO = st.sampled_from([0, 1])
INDEX = st.sampled_from([0, 1])
RUN = st.sampled_from(sorted(RUNS))
NODES = st.sampled_from([0, 1, 2, 2, 3])
STEPS = st.sampled_from([1, 2, 3, 3, 3])
HOURS = st.sampled_from([1, 3, 30])
END = st.sampled_from(["moved", "moved", "refused", "died"])
RACER = 7
"""Index of groups that nothing else touches."""
LAST_HOUR = 80
"""The clock stops here, so that everything ends within the days that the truth counts."""

MEMORY = Path("/dev/shm")
"""Thousands of appends, each durable, would wait for a disk that others use as well."""


class Plugin:
    """One process of a run: its handle, and the epoch that it read when it began."""

    def __init__(self, run: str, handle: Callable[[], Ledger], truth: Truth) -> None:
        self.run, self.truth, self.ledger = run, truth, handle()
        self.epoch = self.ledger.open(run, truth.budgets[run], owner=RUNS[run])
        self.turn = truth.turns[run]

    @property
    def owns(self) -> bool:
        return self.turn == self.truth.turns[self.run]

    def last(self, index: int) -> tuple[str, bool]:
        number, held = attempt(self.ledger.events(), self.run, index)
        return token(self.run, index, number), held

    def reserve(self, name: str, usd: Decimal, hours: int) -> bool:
        now, known = self.truth.now, self.truth.creates.get(name)
        after = known or Create(self.run, now, now + hours, usd)
        wanted = Create(self.run, after.since, max(after.until, now + hours), max(after.base_usd, usd))
        try:
            budget.reserve(self.ledger, self.run, self.epoch, name, usd, at(now + hours))
        except Fenced:
            assert not self.owns
            return False
        except OverBudget:
            assert self._would_pass(name, wanted, now + hours), "refused what fits"
            return False
        assert self.owns, "an older owner reserved"
        self.truth.creates[name] = wanted
        return True

    def begin(self, name: str, nodes: int) -> bool:
        budget.intent(self.ledger, self.run, self.epoch, name, "create")
        create = self.truth.creates[name]
        create.began, create.running = self.truth.now, {f"{name}-{number}" for number in range(nodes)}
        return True

    def look(self, name: str) -> None:
        """By whoever looks: a truth is never refused, whatever the epoch."""
        create = self.truth.creates[name]
        if create.running or create.paid:
            budget.commit(self.ledger, self.run, name, tuple(map(machine, sorted(create.running))), at(self.truth.now))
            create.known = True
        else:
            budget.release(self.ledger, self.run, name, "made nothing")
            create.gone = True

    def adopt(self, index: int, usd: Decimal, hours: int) -> None:
        run, now = self.run, self.truth.now
        name = self.truth.standing(run, index) or self.last(index)[0]
        create = self.truth.creates.setdefault(name, Create(run, now, now + hours, Decimal(0)))
        create.stands_too(f"{name}-late{len(create.paid) + len(create.running)}", usd, now, now + hours)
        budget.commit(self.ledger, run, name, tuple(map(machine, sorted(create.running))), at(now))
        budget.hold(self.ledger, run, name, usd, at(now), at(now + hours))
        self.truth.allow_what_stands(run)

    def extend(self, name: str, usd: Decimal, until: int) -> bool:
        create = self.truth.creates[name]
        wanted = copy.deepcopy(create)
        wanted.asked[until] = max(wanted.asked.get(until, usd), usd)
        try:
            budget.extend(self.ledger, self.run, self.epoch, name, usd, at(until))
        except Fenced:
            assert not self.owns
            return False
        except OverBudget:
            assert self._would_pass(name, wanted, max((until, create.until, *create.asked))), "refused what fits"
            return False
        assert self.owns, "an older owner extended"
        self.truth.creates[name] = wanted
        return True

    def _would_pass(self, name: str, wanted: Create, until: int) -> bool:
        after = copy.deepcopy(self.truth)
        after.creates[name] = wanted
        return after.is_over(self.run, wanted.since, until)


class Watched(RuleBasedStateMachine):
    """What must hold after each step; over a file."""

    def __init__(self) -> None:
        super().__init__()
        self.truth = Truth()
        self.plugins: dict[str, list[Plugin]] = {}
        self.set_up()

    def set_up(self) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))

    def handle(self) -> Ledger:
        return Ledger(self.folder.as_uri(), clock=lambda: at(self.truth.now))

    @invariant()
    def no_budget_is_passed(self) -> None:
        self.truth.check()

    @invariant()
    def the_books_are_true(self) -> None:
        events = self.handle().events()
        books = Books(events)
        for run in self.plugins:
            now = budget.spend(events, run)
            assert (books.account(run).free_usd, now.budget_usd) == (now.free_usd, self.truth.budgets[run])
            assert now.settled_usd + now.reserved_usd == self.truth.promised_usd(run), f"run {run} is told wrong"
            tokens = {event.token for event in open_intents(events, run)}
            assert tokens == self.truth.unknown(run), "open intents are not the creates of unknown outcome"
        rounding = Fraction(sum(event.kind == "settle" for event in events), 10**6)
        for owner in OWNERS:
            for unit in UNITS:
                for number, name in enumerate(names(unit)):
                    told = Fraction(books.purse(owner).used_usd(name, unit, at(self.truth.now)))
                    true = self.truth.promised_in(owner, number, unit)
                    assert true <= told and told - true <= rounding, f"{owner}'s {unit} {name} is told wrong"

    @invariant()
    def all_read_the_same(self) -> None:
        fresh = self.handle().head()
        for plugins in self.plugins.values():
            assert all(plugin.ledger.head() == fresh for plugin in plugins), "two handles read different events"

    def teardown(self) -> None:
        shutil.rmtree(self.folder)


class OnFile(Watched):
    """What may happen."""

    @initialize(
        cents=st.lists(st.integers(200, 1000), min_size=3, max_size=3),
        limits=st.lists(LIMIT, min_size=4, max_size=4),
    )
    def open(self, cents: list[int], limits: list[Decimal | None]) -> None:
        for run, usd in zip(sorted(RUNS), cents, strict=True):
            self.truth.budgets[run], self.truth.turns[run] = Decimal(usd) / 100, 1
            self.plugins[run] = [Plugin(run, self.handle, self.truth) for _ in range(2)]
        for number, owner in enumerate(OWNERS):
            self.limit(owner, *limits[2 * number : 2 * number + 2])

    @rule(owner=st.sampled_from(OWNERS), day_usd=LIMIT, month_usd=LIMIT)
    def limit(self, owner: str, day_usd: Decimal | None, month_usd: Decimal | None) -> None:
        set_limits(self.handle(), owner, day_usd, month_usd)
        self.truth.set_limit(owner, "day", day_usd)
        self.truth.set_limit(owner, "month", month_usd)

    @rule(hours=st.sampled_from([1, 5, 24]))
    def pass_time(self, hours: int) -> None:
        self.truth.now = min(self.truth.now + hours, LAST_HOUR)

    @rule(who=WHO, run=RUN, index=INDEX, usd=USD, hours=HOURS, nodes=NODES, steps=STEPS)
    def create(self, who: int, run: str, index: int, usd: Decimal, hours: int, nodes: int, steps: int) -> None:
        """A plug-in's create, which may die after each of its steps; goes on with an attempt left open."""
        plugin = self.plugins[run][who]
        name, held = plugin.last(index)
        assert held == (self.truth.standing(run, index) is not None), "what may stand is not known"
        begun = held or (plugin.reserve(name, usd, hours) and steps > 1 and plugin.begin(name, nodes))
        if begun and steps > 2:
            plugin.look(name)

    @rule(who=WHO, run=RUN, index=INDEX, share=SHARE, all_of_them=st.booleans())
    def delete(self, who: int, run: str, index: int, share: Decimal, all_of_them: bool) -> None:
        """Whoever does it says what he saw; both may say it."""
        if (name := self.truth.standing(run, index, given_up=True)) is None:
            return
        self.plugins[run][who].look(name)
        create = self.truth.creates[name]
        while create.running:
            usd = (create.could_usd * share).quantize(Decimal("0.000001"), "ROUND_DOWN")
            node, start = create.running.pop(), create.began or 0
            end = max(start, min(self.truth.now, create.ends))
            for plugin in self.plugins[run]:
                budget.settle(plugin.ledger, run, name, machine(node), usd, at(start), at(end))
            create.paid.append((usd, start, end))
            create.gone = not create.running
            if not all_of_them:
                break

    @rule(who=WHO, run=RUN, index=INDEX, note=st.sampled_from(["no SSH", "replaced"]))
    def give_up(self, who: int, run: str, index: int, note: str) -> None:
        """A node that came up unfit: its attempt is over, and paid for until it is gone."""
        if name := self._running(who, run, index):
            self.plugins[run][who].look(name)
            budget.release(self.plugins[run][who].ledger, run, name, note)
            self.truth.creates[name].given_up = True

    def _running(self, who: int, run: str, index: int) -> str | None:
        """An attempt that has nodes; made if there is none and money for it."""
        if self.truth.standing(run, index) is None:
            self.create(who, run, index, Decimal("0.5"), 3, 2, 3)
        name = self.truth.standing(run, index)
        return name if name and self.truth.creates[name].running else None

    @rule(who=WHO, run=RUN, index=INDEX, usd=USD, hours=HOURS, ends=st.lists(END, min_size=1, max_size=3))
    def extend(self, who: int, run: str, index: int, usd: Decimal, hours: int, ends: list[str]) -> None:
        for number, end in enumerate(ends):
            if name := self._running(who, run, index):
                self._extend(self.plugins[run][who], name, usd / 2**number, hours, end)

    def _extend(self, plugin: Plugin, name: str, usd: Decimal, hours: int, end: str) -> None:
        """Set aside, then ask the cloud; what it refused is given back, unless the plug-in died."""
        until = self.truth.creates[name].ends + hours
        if not plugin.extend(name, usd, until):
            return
        create = self.truth.creates[name]
        if end == "moved":
            create.moved[until] = create.asked[until]
        elif end == "refused":
            budget.unextend(plugin.ledger, plugin.run, plugin.epoch, name, at(until), "refused")
            del create.asked[until]

    @rule(who=WHO, run=RUN, index=INDEX, usd=USD, hours=HOURS, again=st.booleans(), share=SHARE)
    def adopt(self, who: int, run: str, index: int, usd: Decimal, hours: int, again: bool, share: Decimal) -> None:
        """An audit finds one node more than the ledger has, and puts it on record whatever limit that passes; `again`
        another, once one of that attempt is paid."""
        self.plugins[run][who].adopt(index, usd, hours)
        if again:
            self.plugins[run][who].adopt(index, usd, hours)
            self.delete(who, run, index, share, all_of_them=False)
            self.plugins[run][who].adopt(index, usd, hours)

    @rule(who=WHO, run=RUN)
    def fence(self, who: int, run: str) -> None:
        self._changes_hands(run)
        plugin = self.plugins[run][who]
        plugin.epoch, plugin.turn = plugin.ledger.fence(run), self.truth.turns[run]

    @rule(who=WHO, run=RUN, more=USD)
    def end(self, who: int, run: str, more: Decimal) -> None:
        """A run is closed, nothing can be created in it, and it goes on later with the budget that is left of it."""
        budget.close(self.plugins[run][who].ledger, run, "done")
        self._changes_hands(run)
        self.truth.check()
        try:
            budget.reserve(self.handle(), run, 10**6, f"{run}-9-a1", Decimal(0))
        except OverBudget:
            self.truth.budgets[run] += more
            self.plugins[run][who] = Plugin(run, self.handle, self.truth)
        else:
            raise AssertionError("a closed run reserved")

    def _changes_hands(self, run: str) -> None:
        self.truth.turns[run] += 1
        creates = self.truth.creates.items()
        self.truth.creates = {name: one for name, one in creates if one.run != run or one.began is not None}

    @rule(who=WHO, run=RUN)
    def restart(self, who: int, run: str) -> None:
        self.plugins[run][who] = Plugin(run, self.handle, self.truth)

    @rule(torn=st.binary(min_size=1, max_size=40).filter(lambda data: b"\n" not in data))
    def crash(self, torn: bytes) -> None:
        """A writer that dies in the middle of its line."""
        with (self.folder / "ledger.jsonl").open("ab") as file:
            file.write(torn)


class OnShelf(OnFile):
    """Over a bucket whose puts get lost or are refused, before or after they took effect."""

    def set_up(self) -> None:
        self.shelf = Shelf()

    def handle(self) -> Ledger:
        return Ledger("s3://shelf/ledger", clock=lambda: at(self.truth.now), where=self.shelf.bucket())

    @rule(faults=st.lists(st.sampled_from(FAULTS), min_size=1, max_size=3))
    def lose(self, faults: list[Fault]) -> None:
        self.shelf.faults = faults

    @rule(who=WHO, run=RUN, index=INDEX, usd=USD, nodes=NODES)
    def race(self, who: int, run: str, index: int, usd: Decimal, nodes: int) -> None:
        """Between the look and the write of a create, another plug-in takes all the money that is left."""

        def create() -> None:
            other = Plugin(run, self.handle, self.truth)
            name, held = other.last(RACER)
            left_usd = max(Decimal(0), self.truth.budgets[run] - self.truth.promised_usd(run))
            if held or (other.reserve(name, left_usd, 3) and other.begin(name, 2)):
                other.look(name)

        self.shelf.races = [create]
        self.create(who, run, index, usd, 1, nodes, 3)

    crash = None  # type: ignore[assignment]  # an object is whole or not there

    def teardown(self) -> None:
        """Nothing is left outside this process."""


def machine(id: str) -> Resource:
    return Resource(cloud="local", region="here", kind="machine", id=id)
