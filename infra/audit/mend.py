"""What an audit may put right: end what is past its end or closed, adopt what is unknown, settle what is dead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from infra.audit.adopt import adopt
from infra.audit.blind import end_blindly
from infra.audit.look import answered
from infra.audit.report import Finding, Owned, Report, audit
from infra.cloud import Item, Machine
from infra.teardown import Tell, remove, teardown
from money import reaper
from money.account import account
from money.ledger import Ledger
from spec import clock
from spec.errors import MegatokError
from spec.ledger import Event, Resource, Scope

WORKERS = 8
CLOSED = "settled and closed"
"""What became of a run that was ended as a whole."""
LOST = "may have ended unseen: all that was set aside counts as paid"
LIMIT_S = 120.0
"""For what would not go."""
BEATS = 3
"""A heartbeat counts for so many rounds: one that is late does not disarm it."""


@dataclass
class Mended:
    """`done`: by resource id, token, or run; `doubts`: what could not be shown to be right, with the way on."""

    done: dict[str, str] = field(default_factory=dict)
    runs: list[str] = field(default_factory=list)
    """Those that were ended as a whole."""
    doubts: list[str] = field(default_factory=list)


def mend(report: Report, names: Sequence[str], owned: Owned, tell: Tell) -> tuple[Mended, Report]:
    """Put right what may be; what was done, and how things stand after it."""
    if report.unread:
        return _mend_blindly(report, names, tell), audit(report.address, owned)
    work, named = Mended(), _with_theirs(report, names)
    adopted = _adopt(work, report, named)
    runs = _whole_runs(report, names)
    _each(runs, lambda run: _end_run(work, report, run, tell, foreign=run in names))
    single = _singles(report, named, runs)
    _each(single, lambda run: _end_things(work, report.address, run, single[run], tell))
    after = audit(report.address, owned)
    work.done |= {id: "adopted, over budget" if run in after.over else "adopted" for id, run in adopted.items()}
    idle = [one.run for one in after.hollow if not one.busy]
    _each(idle, lambda run: _end_run(work, after, run, tell))
    loose = [event for event in after.intents if event.run not in idle]
    _each({event.run: None for event in loose}, lambda run: _give_up(work, after.address, run, loose, tell))
    return work, audit(report.address, owned) if idle or loose else after


def _mend_blindly(report: Report, names: Sequence[str], tell: Tell) -> Mended:
    over = [one.item.id for one in report.findings if one.verdict == "expired"]
    done, doubts = end_blindly(report, [*over, *_with_theirs(report, names)], LIMIT_S, tell)
    seen = {name for one in report.findings for name in (one.item.id, one.item.run)}
    strange = [
        f"{name}: nothing of that name is seen, and the ledger cannot be read" for name in names if name not in seen
    ]
    return Mended(done, doubts=[*strange, *doubts])


def _with_theirs(report: Report, names: Sequence[str]) -> set[str]:
    """The ids of what is named, and of what was made with a machine that is: it would go on billing without it."""
    named = [one.item for one in report.findings if _named(one, names)]
    machines = {_origin(item) for item in named if isinstance(item, Machine)}
    return {item.id for item in named} | {one.item.id for one in report.findings if _origin(one.item) in machines}


def _origin(item: Item) -> tuple[str, ...]:
    """What a machine shares with all that was made with it, and with nothing else: `run-0` has a `run-0-disk`."""
    name = item.name.removesuffix(f"-{item.resource.kind}")
    return item.resource.cloud, item.ledger, item.run, item.token, name


def _each(runs: Iterable[str], act: Callable[[str], None]) -> None:
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(act, runs))


def _named(one: Finding, names: Sequence[str]) -> bool:
    return one.item.id in names or one.item.run in names


def _adopt(work: Mended, report: Report, goes: Set[str]) -> dict[str, str]:
    """What was adopted: the run of each thing, by its id. Not what `goes`, by id."""
    ledger = Ledger(report.address)
    adopted: dict[str, str] = {}
    for sight in report.sights:
        here = [one for one in report.findings if one.item.resource.cloud == sight.where.name]
        unknown = [one.item for one in here if one.verdict == "unknown" and one.item.id not in goes]
        for run in dict.fromkeys(item.run for item in unknown):
            items = [item for item in unknown if item.run == run]
            beside = [one.item for one in here if one.verdict == "by right" and one.item.run == run]
            try:
                answered(partial(adopt, ledger, sight.where, items, beside, sight.now))
            except MegatokError as error:
                work.doubts.append(f"run {run} cannot be adopted: {error}; end it with: megatok down {run}")
                continue
            adopted |= {item.id: run for item in items}
    return adopted


def _whole_runs(report: Report, names: Sequence[str]) -> tuple[str, ...]:
    """Those named, and those that the ledger has closed."""
    ledger = Ledger(report.address)
    named = [name for name in names if name in ledger.runs() or any(one.item.run == name for one in report.findings)]
    closed = [one.item.run for one in report.findings if one.verdict == "closed" and not one.run_is_open]
    return tuple(dict.fromkeys((*named, *closed)))


def _singles(report: Report, named: Set[str], whole: Sequence[str]) -> Mapping[str, tuple[Resource, ...]]:
    """Things to end by their run, which itself goes on."""
    found: dict[str, tuple[Resource, ...]] = {}
    for one in report.findings:
        if one.item.run not in whole and (one.verdict in ("expired", "closed") or one.item.id in named):
            found[one.item.run] = (*found.get(one.item.run, ()), one.item.resource)
    return found


def _end_run(work: Mended, report: Report, run: str, tell: Tell, *, foreign: bool = False) -> None:
    receipt = teardown(run, report.address, on_line=tell, settle_timeout_s=LIMIT_S, foreign=foreign)
    for one in report.findings:
        if one.item.run == run:
            work.done[one.item.id] = "deleted, proven gone" if receipt.proven else "NOT proven gone"
    work.runs.append(run)
    work.done[run] = CLOSED if receipt.proven else "NOT proven gone"
    work.doubts += receipt.unproven


def _end_things(work: Mended, address: str, run: str, things: tuple[Resource, ...], tell: Tell) -> None:
    doubts = remove(run, address, things, on_line=tell, settle_timeout_s=LIMIT_S)
    for one in things:
        work.done[one.id] = "NOT proven gone" if doubts else "deleted, proven gone"
    work.doubts += [f"{doubt}; megatok audit --fix goes on" for doubt in doubts]


def _give_up(work: Mended, address: str, run: str, loose: Sequence[Event], tell: Tell) -> None:
    tokens = [event.token for event in loose if event.run == run]
    doubts = remove(run, address, (), tokens, on_line=tell, settle_timeout_s=LIMIT_S)
    known = account(Ledger(address).events(run), run).tokens
    made_nothing = {token: LOST if known[token].settled else "made nothing, released" for token in tokens}
    work.done |= dict.fromkeys(tokens, "NOT known") if doubts else made_nothing
    work.doubts += [f"{doubt}; megatok audit --fix goes on" for doubt in doubts]


def beat(report: Report, every_minutes: float) -> tuple[Scope, ...]:
    """Say in the ledger that this machine keeps watch; only of clouds that answered, in which all is right."""
    scopes = tuple(sight.scope for sight in report.sights)
    if scopes:
        until = clock.now() + timedelta(minutes=BEATS * every_minutes)
        reaper.beat(Ledger(report.address), scopes, until)
    return scopes
