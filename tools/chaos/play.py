"""One round: commands, kills at their moments, recovery, and what the meter and /proc say in the end."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from pathlib import Path

from tools.chaos.cloud import CloudSide, kill
from tools.chaos.draw import LATE_S, Kill, Moment, Round, Step, recipe
from tools.kill import receipt
from tools.kill.chain import Chain, command_line, process_of, wait_until
from tools.kill.hands import COMMAND_S, Hands
from tools.kill.warm import Command, Warm

LEAVE_S = 3.0
"""For the last processes to leave /proc after their command has answered."""
POLL_S = 0.003
HELD_POLL_S = 0.02
ENDED = {("down", 0), ("audit", 0)}
TRIES = 3
"""So often exit code 7 is followed by the command that it names."""


@dataclass(frozen=True)
class Struck:
    """A kill that fell."""

    command: str
    where: str
    nth: int
    victims: tuple[str, ...]
    billed: bool
    """Whether a machine was, by the meter."""
    at: float


@dataclass
class Found:
    """What a round came to."""

    round: int
    seed: str
    recovery: str
    tight: bool
    nodes: int
    kills: list[Struck] = field(default_factory=list)
    missed: int = 0
    codes: list[tuple[str, int]] = field(default_factory=list)
    """Exit code of each command, in order."""
    machines_left: int = 0
    usd: str = "0"
    """The meter's total."""
    usd_over: str = "0"
    zero_s: float | None = None
    """From the last kill (where machines stood by right after it: from the recovery's begin) to the last one's end."""
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)
    folder: str = ""


class Play:
    """A round at work."""

    def __init__(self, one: Round, number: int, into: Path, warm: Warm) -> None:
        self.one = one
        home = Path(tempfile.mkdtemp(prefix=f"chaos-{one.seed.replace('/', '-')}-", dir=into))
        self.chain = Chain(home, f"chaos-{one.seed.replace('/', '-')}-{home.name[-8:].lower().replace('_', 'x')}")
        self.cloud = CloudSide(home)
        self.found = Found(number, one.seed, one.recovery, one.tight, one.nodes, folder=str(home))
        self.hands = Hands(self.chain, warm)
        self._late: list[threading.Timer] = []

    def play(self, busy: AbstractContextManager[object], *, keep: bool) -> Found:
        """`busy` is held but for the time in which nothing but the clock acts."""
        began = time.monotonic()
        try:
            with busy:
                self._begin()
                self._strike_all()
                self._recover()
            if self.one.recovery == "lifetimes":
                self._outlive()
            with busy:
                self._judge()
        finally:
            self._end(keep)
        self.found.seconds = round(time.monotonic() - began, 1)
        return self.found

    def _begin(self) -> None:
        self.hands.recipe.write_text(recipe(self.one.nodes, self.one.lifetime_s, self.one.budget_usd))
        self.cloud.begin(list(self.one.faults))

    def _strike_all(self) -> None:
        for step in self.one.struck:
            code = self._struck(step)
            if code in (2, 3) and not self.found.kills:
                return  # refused before anything was made
            if (step.command, code) in ENDED:
                return  # over before a kill fell: nothing is left to recover
            time.sleep(self.one.wait_s)

    def _struck(self, step: Step) -> int:
        command = self.hands.start(step.command)
        for each in step.kills:
            if struck := self._strike(step.command, each, command):
                self.found.kills.append(struck)
            else:
                self.found.missed += 1
                break
        return self.hands.finished(step.command, command)

    def _strike(self, name: str, wanted: Kill, command: Command) -> Struck | None:
        """None where the command was over before its moment."""
        hold, come = self._awaited(wanted.moment)
        wait_until(lambda: come() or command.poll() is not None, COMMAND_S, HELD_POLL_S if hold else POLL_S)
        time.sleep(wanted.pause_s if hold and come() else 0)
        billed, at_s = self.cloud.running() > 0, time.time()
        victims = tuple(self._kill(wanted, command)) if come() else ()
        if hold:
            self._release(hold, wanted.late_s if victims else 0)
        where = wanted.moment.where
        return Struck(name, where, wanted.moment.nth, victims, billed, at_s) if victims else None

    def _release(self, hold: str, late_s: float) -> None:
        """While the next command begins already."""
        late = threading.Timer(late_s, self.cloud.release, (hold,))
        late.start()
        self._late.append(late)

    def _kill(self, wanted: Kill, command: Command) -> Iterator[str]:
        victims = {part: pid for part in wanted.victims if (pid := self._process(part, command))}
        for part, pid in (victims or {"runner": command.pid}).items():
            if (part != "runner" or command.poll() is None) and kill(pid):
                yield part

    def _process(self, part: str, command: Command) -> int | None:
        if part == "node":
            return next(iter(self.cloud.supervisors()), None)
        return process_of(part, command.pid)

    def _awaited(self, moment: Moment) -> tuple[str, Callable[[], bool]]:
        """Whether it has come; of a call of the cloud also the rule that then holds it."""
        kind, _, at = moment.where.partition(" ")
        if moment.on_cloud:
            hold = self.cloud.hold(kind, at, moment.nth, COMMAND_S)
            return hold, lambda: self.cloud.holds(hold)
        before = self.chain.events(at)
        return "", lambda: self.chain.events(at) >= before + moment.nth

    def _recover(self) -> None:
        """What the documents tell a user to do."""
        if self.one.recovery == "lifetimes":
            return
        if self.hands.codes[-1] in ENDED:
            return
        if self.one.recovery == "up":
            self.hands.done("up")
        name = "audit" if self.one.recovery == "audit" else "down"
        if code := self.hands.until_proven(name, TRIES):
            # A run that was refused before it began is nothing that a later command could know.
            unknown = code == 2 and not self.chain.events("open")
            self.found.faults += [] if unknown else [f"{name} ends with exit code {code}"]

    def _outlive(self) -> None:
        """Until nothing bills, and nobody is left who could make something that does."""
        limit_s = 2 * self.one.lifetime_s + COMMAND_S / 4
        time.sleep(LATE_S)
        wait_until(lambda: not standing(self.chain) and not creators(self.chain), limit_s, 0.5)

    def _judge(self) -> None:
        """By the meter and /proc."""
        found = self.found
        wait_until(lambda: not self.chain.processes(), LEAVE_S)
        bill = self.cloud.bill()
        found.codes, found.faults = self.hands.codes, [*self.hands.faults, *found.faults]
        found.machines_left = max(bill["running"], standing(self.chain))
        found.usd = bill["usd"]
        found.usd_over = str(max(Decimal(0), Decimal(bill["usd"]) - self.one.budget_usd))
        found.faults += [f"{found.machines_left} machines left"] * (found.machines_left > 0)
        found.faults += [f"${found.usd_over} over the budget of ${self.one.budget_usd}"] * (Decimal(found.usd_over) > 0)
        found.faults += [f"process left: {pid} {command_line(pid)[:200]}" for pid in self.chain.processes()]
        self._measure()
        if self.one.recovery != "lifetimes" and self.hands.codes[-1] == ("down", 0):
            metered = (line["id"] for line in bill["lines"])
            found.faults += receipt.faults(self.chain, metered, Decimal(bill["usd"]))

    def _measure(self) -> None:
        """Of rounds in which something was still billed then."""
        since = self.hands.acted_at if self.one.recovery == "up" else self.found.kills[-1].at if self.found.kills else 0
        ends = [end for _, end in self.chain.bills().values() if end is not None and end > since]
        if self.found.kills and ends and not self.found.machines_left:
            self.found.zero_s = round(max(ends) - since, 3)

    def _end(self, keep: bool) -> None:
        home = self.chain.home
        for late in self._late:
            late.join()
        self.chain.end()
        with contextlib.suppress(FileNotFoundError):
            for path in self.chain.stack_files():
                shutil.move(path, home / path.name)
        (home / "round.json").write_text(json.dumps(asdict(self.found), indent=1))
        if not (keep or self.found.faults):
            shutil.rmtree(home)


def standing(chain: Chain) -> int:
    """Machines that are not gone, also those that are still being made and bill later."""
    return sum(node["ended_at"] is None for node in chain.nodes())


def creators(chain: Chain) -> list[int]:
    """Who could still make a machine."""
    return [pid for pid in chain.processes() if "infra.provider" in command_line(pid)]
