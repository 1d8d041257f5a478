"""One run as its phases see it: the recipe, the folder, the clock, and what has happened so far."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

from campaign.folder import RunFolder
from campaign.stop import Stop
from infra.clouds import cloud
from infra.stack import StackSettings
from money.budget import spend
from money.ledger import Ledger
from spec import clock
from spec.base import shown
from spec.errors import MegatokError
from spec.home import ledger_address
from spec.inventory import Inventory
from spec.receipt import Receipt
from spec.recipe import Campaign
from spec.record import Phase, Record, RunDocument

Say = Callable[[str], None]


def quiet(_line: str) -> None:
    """For callers that want no progress."""


@dataclass
class Run:
    """Everything that the phases of one run share. Only its own thread changes it."""

    folder: RunFolder
    campaign: Campaign
    simulated: bool
    tell: Say = quiet
    cells: dict[str, Record] = field(default_factory=dict)
    phases: list[Phase] = field(default_factory=list)
    failures: list[MegatokError] = field(default_factory=list)
    receipt: Receipt | None = None
    skew: timedelta | None = None
    """How far the cloud's clock is ahead of ours, once it was measured."""
    client_s: float = 0.0
    """Seconds so far in the load generator's own processes."""
    stop: Stop = field(init=False)
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.stop = Stop(self.say)

    @property
    def name(self) -> str:
        return self.folder.run

    @property
    def settings(self) -> StackSettings:
        return StackSettings(
            run=self.name,
            recipe=self.folder.recipe,
            budget_usd=self.campaign.budget_usd,
            lifetime_s=self.campaign.lifetime_s,
            ledger=ledger_address(),
        )

    def say(self, line: str) -> None:
        """One line of progress, with the time since the start, and the money."""
        elapsed = int(time.monotonic() - self.started)
        text = f"[{elapsed // 60:02d}:{elapsed % 60:02d}] {line}"
        self.tell(text)
        with contextlib.suppress(OSError), (self.folder.path / "progress.log").open("a") as file:
            file.write(f"{clock.now():%Y-%m-%dT%H:%M:%SZ} {text}\n")

    def note(self, line: str) -> None:
        """A line for the log alone."""
        path = self.folder.path / "logs" / "provision.log"
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a") as file:
                file.write(f"{line.rstrip()}\n")

    def money_line(self) -> str:
        """`$0.0123 of $1.0000, ends by 21:40:10Z`: what was spent so far, at most, and the deadline."""
        due = self.deadline()
        end = f", ends by {due:%H:%M:%S}Z" if due else ""
        return f"${shown(self.spent_usd())} of ${shown(self.campaign.budget_usd)}{end}"

    def spent_usd(self) -> Decimal:
        """Settled, and the hours so far of nodes that still run."""
        settled = spend(Ledger(ledger_address()).events(self.name), self.name).settled_usd
        inventory = self.folder.inventory()
        if self.receipt is not None or inventory is None:
            return settled
        now = clock.now() + self.measured_skew()
        return settled + sum(
            (node.usd_per_hour * Decimal((now - node.created_at).total_seconds()) / 3600 for node in inventory.nodes),
            Decimal(0),
        )

    def deadline(self) -> datetime | None:
        """When, by our clock, work must end so that a teardown still fits into the nodes' lifetime."""
        inventory = self.folder.inventory()
        ends = [node.expires_at for node in inventory.nodes if node.expires_at] if inventory else []
        margin = min(60.0, self.campaign.lifetime_s * 0.05)
        return min(ends) - timedelta(seconds=margin) - self.measured_skew() if ends else None

    def measured_skew(self) -> timedelta:
        """The cloud's clock against ours, asked for once: lifetimes are by the cloud's, and ours may be wrong."""
        if self.skew is None:
            self.skew = cloud(self.campaign.cluster.cloud).now() - clock.now()
        return self.skew

    @contextlib.contextmanager
    def phase(self, name: str, detail: str = "") -> Iterator[None]:
        """Time a phase, say that it begins, and keep the run's document current."""
        self.say(f"{name} {detail}".rstrip())
        began, at, client_s = time.monotonic(), clock.now(), self.client_s
        try:
            yield
        finally:
            seconds = time.monotonic() - began
            own_s = max(0.0, seconds - (self.client_s - client_s))
            self.phases.append(Phase(name=name, started_at=at, seconds=round(seconds, 3), own_s=round(own_s, 3)))

    def fail(self, error: MegatokError) -> None:
        """Remember a failure; the worst one becomes the exit code."""
        self.failures.append(error)
        self.say(f"{type(error).__name__}: {error}")

    def keep(self, document: RunDocument) -> Path:
        return self.folder.write("document.json", document.model_dump_json(indent=1))

    def keep_inventory(self, inventory: Inventory) -> None:
        self.folder.write("inventory.json", inventory.model_dump_json(indent=1))
