"""Engines and plug-ins of a run that outlived whoever started them on this machine, found in /proc and ended.

An engine whose runner was killed goes on, and a plug-in whose engine was killed finishes what it had begun. The ledger
refuses them any new create (its fence); this ends them, so that nothing is on its way any more when clouds are asked.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from spec import clock
from spec.home import home
from spec.ledger import Event

PLUGIN = "infra.provider"
ENGINE = "pulumi"
GRACE_S = 15.0
"""For what they have begun: a create that is answered in time still reaches the ledger."""
KILL_S = 5.0
"""For the kernel to end what was killed, on a busy machine."""
LEEWAY = timedelta(seconds=1)
"""A process' start is told in clock ticks."""
PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """`ticks`, its start, makes it one process: numbers are used again."""

    pid: int
    parent: int
    ticks: int
    argv: tuple[str, ...]

    @property
    def started_at(self) -> datetime:
        """By the clock that events of the ledger are written with."""
        age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - self.ticks / os.sysconf("SC_CLK_TCK")
        return clock.now() - timedelta(seconds=age_s)

    @property
    def is_plugin(self) -> bool:
        return PLUGIN in self.argv

    @property
    def is_engine(self) -> bool:
        return bool(self.argv) and Path(self.argv[0]).name == ENGINE

    @property
    def environment(self) -> frozenset[bytes]:
        """As it began; empty where it is not ours to read."""
        with contextlib.suppress(OSError):
            return frozenset((PROC / str(self.pid) / "environ").read_bytes().split(b"\0"))
        return frozenset()

    @property
    def is_automated(self) -> bool:
        """Whether one of our own commands began it, and not a person who typed `pulumi up`."""
        return b"PULUMI_AUTOMATION_API=true" in self.environment

    @property
    def lives(self) -> bool:
        now = look(self.pid)
        return now is not None and now.ticks == self.ticks

    def send(self, number: signal.Signals) -> None:
        if self.lives:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


def look(pid: int) -> Process | None:
    """The process of that number; None where there is none, or only what is left of one that ended."""
    try:
        state, parent, *rest = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        argv = (PROC / str(pid) / "cmdline").read_text(errors="replace").split("\0")[:-1]
    except OSError:
        return None
    return None if state == "Z" else Process(pid, int(parent), int(rest[17]), tuple(argv))


def orphans(events: Iterable[Event], run: str) -> tuple[Process, ...]:
    """Live engines and plug-ins of the run: those that the ledger names, and engines that say so themselves."""
    named = [found for event in events if event.run == run and (found := _writer(event))]
    engines = [found for plugin in named if (found := look(plugin.parent)) and found.is_engine]
    everything = (look(int(entry.name)) for entry in PROC.glob("[0-9]*"))
    telling = [found for found in everything if found and found.is_engine and _says(found, run)]
    return tuple(dict.fromkeys((*engines, *telling, *named)))


def end(processes: Iterable[Process]) -> None:
    """TERM, which lets them finish what they had begun, then KILL; returns when they are gone."""
    left = tuple(processes)
    for number, limit_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, KILL_S)):
        for process in left:
            process.send(number)
        give_up_at = time.monotonic() + limit_s
        while any(process.lives for process in left) and time.monotonic() < give_up_at:
            time.sleep(0.05)


def _writer(event: Event) -> Process | None:
    """The plug-in that wrote the event, where it lives here; a later process of its number is another."""
    if event.host != socket.gethostname():
        return None
    found = look(event.pid)
    return found if found and found.is_plugin and found.started_at <= event.at + LEEWAY else None


def _says(engine: Process, run: str) -> bool:
    """Whether an engine works on this run's stack in our MEGATOK_HOME; another home's run may be called the same."""
    return run in engine.argv and f"MEGATOK_HOME={home()}".encode() in engine.environment
