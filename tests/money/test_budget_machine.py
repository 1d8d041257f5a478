"""No sequence of calls, crashes and restarts passes a budget of a run, a day or a month."""

from __future__ import annotations

from hypothesis import Phase, settings

from tests.money.machine import OnFile, OnShelf

QUICK = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    phases=[Phase.reuse, Phase.generate, Phase.shrink],  # to explain takes minutes here
)
TestOnFile = OnFile.TestCase
TestOnFile.settings = QUICK
TestOnShelf = OnShelf.TestCase
TestOnShelf.settings = QUICK
