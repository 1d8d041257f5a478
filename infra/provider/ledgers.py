"""Ledgers by address, and the epochs that this process holds in them."""

from __future__ import annotations

import threading

from money.account import account
from money.ledger import Ledger
from spec.errors import Fenced
from spec.group import GroupInputs
from spec.home import owner

Run = tuple[str, str]
"""Address of a ledger, and a run in it."""


class Ledgers:
    """Safe to share between the threads of calls."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ledgers: dict[str, Ledger] = {}
        self._seen: dict[Run, tuple[int, bool]] = {}
        self._epochs: dict[Run, int] = {}

    def ledger(self, address: str) -> Ledger:
        with self._lock:
            return self._ledgers.setdefault(address, Ledger(address))

    def look(self, inputs: GroupInputs) -> None:
        """Note who owns the run now, the first time that it is asked for; writes nothing."""
        events = self.ledger(inputs.ledger).events(inputs.run)
        with self._lock:
            now = account(events, inputs.run)
            self._seen.setdefault((inputs.ledger, inputs.run), (now.epoch, now.is_open))

    def epoch(self, inputs: GroupInputs) -> int:
        """Our epoch in the run, opened if it was not: the one seen at first, never one that a later owner took."""
        ledger = self.ledger(inputs.ledger)
        run = inputs.ledger, inputs.run
        with self._lock:
            if run not in self._epochs:
                seen, is_open = self._seen[run]
                opened = ledger.open(inputs.run, inputs.budget_usd, "pulumi", owner())
                if not is_open and opened != seen + 1:
                    raise Fenced(f"run {inputs.run!r} got another owner while it was being opened; run it again")
                self._epochs[run] = seen if is_open else opened
            return self._epochs[run]
