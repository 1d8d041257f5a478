"""What stands now and what ran before, from the ledger, the clouds, the stacks and the run folders."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from decimal import Decimal

from campaign.folder import RunFolder, folders
from infra import stack
from infra.clouds import CLOUDS, cloud
from money.account import account
from money.budget import spend
from money.ledger import Ledger
from spec import clock
from spec.errors import MegatokError
from spec.home import ledger_address
from spec.inventory import Inventory


@dataclass(frozen=True)
class Standing:
    """One run that may hold something billable, or that is not proven to be gone."""

    run: str
    phase: str
    owner: int | None
    machines: int
    spent_usd: str
    budget_usd: str
    expires: str
    note: str = ""

    def data(self) -> dict[str, object]:
        return asdict(self)


def open_runs() -> tuple[Standing, ...]:
    """Every run that a ledger, a stack or a cloud's tags know and that has no receipt yet."""
    ledger = Ledger(ledger_address())
    events = ledger.events()
    closed = {name for name in ledger.runs() if not account(events, name).is_open}
    machines, notes = _machines()
    names = dict.fromkeys((*(name for name in ledger.runs() if name not in closed), *stack.stacks(), *machines))
    return tuple(_standing(name, ledger, machines.get(name, 0), notes) for name in names)


def _machines() -> tuple[dict[str, int], list[str]]:
    """Machines by run, in every cloud; a cloud that does not answer is named instead."""
    counts: dict[str, int] = {}
    notes = []
    for name in CLOUDS:
        try:
            for item in cloud(name).inventory():
                if item.resource.kind == "machine":
                    counts[item.run] = counts.get(item.run, 0) + 1
        except MegatokError as error:
            notes.append(f"{name}: {error}")
    return counts, notes


def _standing(name: str, ledger: Ledger, machines: int, notes: list[str]) -> Standing:
    folder = RunFolder(name)
    money = spend(ledger.events(name), name)
    owner = folder.owner()
    inventory = folder.inventory() or stack.inventory(name)
    ends = [node.expires_at for node in inventory.nodes if node.expires_at] if inventory else []
    phase = folder.last_line() if owner else "no runner"
    over = bool(ends) and min(ends) < clock.now()
    note = "lifetime is over; settle with: megatok down " + name if over and not machines else ""
    return Standing(
        run=name,
        phase=phase,
        owner=owner,
        machines=machines,
        spent_usd=f"{money.settled_usd + _running_usd(inventory, machines):.4f}",
        budget_usd=f"{money.budget_usd or Decimal(0):.4f}",
        expires=f"{min(ends):%Y-%m-%dT%H:%M:%SZ}" if ends else "",
        note="; ".join([note, *notes] if note else notes),
    )


def _running_usd(inventory: Inventory | None, machines: int) -> Decimal:
    """Hours so far of nodes that still run, x price."""
    if inventory is None or not machines:
        return Decimal(0)
    now = clock.now()
    return sum(
        (node.usd_per_hour * Decimal((now - node.created_at).total_seconds()) / 3600 for node in inventory.nodes),
        Decimal(0),
    )


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
    document = folder.document()
    if document is None:
        outcome = "running" if folder.owner() else "unfinished"
        return Past(folder.run, "", outcome, "", "")
    good = sum(record.valid for record in document.cells)
    proven = "proven gone" if document.receipt and document.receipt.proven else "NOT proven gone"
    outcome = f"exit {document.exit_code}, {proven}"
    usd = f"{document.receipt.usd:.4f}" if document.receipt else ""
    return Past(folder.run, document.title, outcome, f"{good}/{len(document.cells)}", usd)
