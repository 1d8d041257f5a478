"""No sequence of calls, crashes and restarts passes a budget of a run, a day or a month."""

from __future__ import annotations

from hypothesis import settings

from tests.money.machine import OnFile, OnShelf

TestOnFile = OnFile.TestCase
TestOnFile.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestOnShelf = OnShelf.TestCase
TestOnShelf.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
