"""What stands now and what ran before, from the ledger, the clouds, the stacks and the run folders."""

from __future__ import annotations

import contextlib
from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import Decimal
from functools import partial

from campaign.folder import RunFolder, folders
from infra import stack
from infra.audit.look import answered
from infra.cloud import Item, Machine
from infra.clouds import CLOUDS, cloud
from infra.provider.switches import Armed, look
from money.account import Account
from money.books import Books
from money.ledger import Ledger
from money.limits import Left, left
from money.periods import FOREVER
from spec import clock, home
from spec.base import shown
from spec.errors import MegatokError, NotConfigured
from spec.home import ledger_address
from spec.inventory import Inventory, Switch
from spec.receipt import Receipt


@dataclass(frozen=True)
class NodeEnd:
    """A node that stands, and what ends it when nobody does."""

    run: str
    name: str
    id: str
    expires: str
    switches: tuple[Switch, ...]
    note: str = ""


@dataclass(frozen=True)
class Standing:
    """One run that may hold something billable, or that is not proven to be gone."""

    run: str
    phase: str
    owner: int | None
    """Process that works on it."""
    budget_owner: str
    """In whose day and month it counts."""
    machines: int | None
    """None where it may hold some in a cloud that does not answer."""
    spent_usd: str
    """Settled, and what the clouds charge, or hours x price, for what is not."""
    budget_usd: str
    expires: str
    note: str = ""
    nodes: tuple[NodeEnd, ...] = ()

    def data(self) -> dict[str, object]:
        told = asdict(self)
        told["nodes"] = [
            {**asdict(node), "switches": [one.model_dump(mode="json") for one in node.switches]} for node in self.nodes
        ]
        return told


def open_runs() -> tuple[Standing, ...]:
    """Every run that a ledger, a stack or a cloud's tags know and that has no receipt yet."""
    ledger = Ledger(ledger_address())
    books = Books(ledger.events())
    machines, silent = _machines()
    unsettled = (run for run in ledger.runs() if books.account(run).is_open or books.account(run).held)
    names = dict.fromkeys((*unsettled, *stack.stacks(), *machines))
    return tuple(_standing(name, ledger, books.account(name), machines.get(name, []), silent) for name in names)


def _machines() -> tuple[dict[str, list[Machine]], dict[str, str]]:
    """Machines by run, in every cloud; and why a cloud does not answer, by its name."""
    found: dict[str, list[Machine]] = {}
    silent: dict[str, str] = {}
    for name in CLOUDS:
        try:
            for item in answered(partial(_listing, name)):
                if isinstance(item, Machine):
                    found.setdefault(item.run, []).append(item)
        except NotConfigured:
            continue
        except MegatokError as error:
            silent[name] = f"{name}: {error}"
    return found, silent


def _listing(name: str) -> tuple[Item, ...]:
    return cloud(name).inventory()


def _standing(name: str, ledger: Ledger, money: Account, machines: list[Machine], silent: dict[str, str]) -> Standing:
    folder = RunFolder(name)
    owner = folder.owner()
    inventory = folder.inventory() or _of_stack(name)
    told = [node.expires_at for node in inventory.nodes if node.expires_at] if inventory else []
    phase = folder.last_line() if owner else "no runner"
    clouds = {resource.cloud for event in ledger.events(name) for resource in event.resources}
    unseen = bool(silent.keys() & clouds) if clouds else bool(silent)
    held = [token.until for token in money.held.values() if token.until != FOREVER] if unseen else []
    ends = [one.expires_at for one in machines if one.expires_at] or told or held
    over = bool(ends) and min(ends) < clock.now()
    note = "lifetime is over; settle with: megatok down " + name if over and not machines and not unseen else ""
    if machines and not money.budget_usd:
        note = "the ledger does not know it; see: megatok audit"
    return Standing(
        run=name,
        phase=phase,
        owner=owner,
        budget_owner=money.owner,
        machines=None if unseen else len(machines),
        spent_usd=shown(max(money.settled_usd + _running_usd(machines), _charged_usd(name))),
        budget_usd=shown(money.budget_usd),
        expires=_moment(min(ends, default=None)),
        note="; ".join([*([note] if note else []), *silent.values()]),
        nodes=tuple(_node_end(one, ledger) for one in machines),
    )


def _of_stack(name: str) -> Inventory | None:
    """None also where the engine cannot tell: what stands is known from the clouds."""
    try:
        return stack.inventory(name)
    except (MegatokError, OSError):
        return None


def _node_end(machine: Machine, ledger: Ledger) -> NodeEnd:
    found: Armed = ()
    note = ""
    try:
        found = answered(lambda: look(cloud(machine.resource.cloud), ledger, machine))
    except MegatokError as error:
        note = str(error)
    return NodeEnd(machine.run, machine.name, machine.id, _moment(machine.expires_at), found, note)


def _moment(at: datetime | None) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}" if at else ""


def _running_usd(machines: list[Machine]) -> Decimal:
    """Hours so far of nodes that still run, x price."""
    times = {name: _now(name) for name in {one.resource.cloud for one in machines}}
    return sum(
        (
            one.usd_per_hour * Decimal((times[one.resource.cloud] - one.started_at).total_seconds()) / 3600
            for one in machines
            if one.started_at
        ),
        Decimal(0),
    )


def _now(name: str) -> datetime:
    """By the cloud's clock, or ours where it does not answer."""
    try:
        return answered(lambda: cloud(name).now())
    except MegatokError:
        return clock.now()


def _charged_usd(run: str) -> Decimal:
    """What the clouds themselves charge for a run so far, those that tell it and answer."""
    total = Decimal(0)
    for name in CLOUDS:
        with contextlib.suppress(MegatokError):
            total += answered(partial(_bill_usd, name, run))
    return total


def _bill_usd(name: str, run: str) -> Decimal:
    return sum(cloud(name).billed_usd(run).values(), Decimal(0))


def limits(owner: str | None = None) -> tuple[str, Left]:
    """An owner (this user), and what day and month leave."""
    who = owner or home.owner()
    return who, left(Ledger(ledger_address()).events(), who, clock.now())


@dataclass(frozen=True)
class Past:
    """One run folder in a line."""

    run: str
    title: str
    outcome: str
    cells: str
    usd: str


def past_runs() -> tuple[Past, ...]:
    """Oldest first."""
    return tuple(_past(folder) for folder in folders())


def _past(folder: RunFolder) -> Past:
    document, receipt = folder.document(), folder.receipt()
    usd = shown(receipt.usd) if receipt else ""
    if document is None:
        return Past(folder.run, "", _end_of(folder, receipt), "", usd)
    good = sum(record.valid for record in document.cells)
    outcome = f"exit {document.exit_code}, {_end_of(folder, receipt)}"
    return Past(folder.run, document.title, outcome, f"{good}/{document.whole}", usd)


def _end_of(folder: RunFolder, receipt: Receipt | None) -> str:
    """A run that was brought up again since its receipt has an inventory."""
    if folder.owner():
        return "running"
    if folder.inventory() is not None:
        return "stands; see megatok status"
    if receipt is None:
        return "nothing was rented, or it is not known"
    return "proven gone" if receipt.proven else "NOT proven gone"
