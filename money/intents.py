"""Attempts to create a group, and what became of them: read from what was written before the call, never recounted."""

from __future__ import annotations

from collections.abc import Iterable

from money.account import Account, account
from spec.ledger import Event


def token(run: str, index: int, attempt: int) -> str:
    """Idempotency token of the group whose first node is `index`."""
    return f"{run}-{index}-a{attempt}"


def open_intents(events: Iterable[Event], run: str) -> tuple[Event, ...]:
    """The latest intent of each token whose create may have been called, with no known outcome."""
    tokens = account(events, run).tokens.values()
    return tuple(one.intent for one in tokens if one.intent is not None and one.unknown)


def attempt(events: Iterable[Event], run: str, index: int) -> tuple[int, bool]:
    """Number of the attempt to go on with, and whether something may stand under its token already.

    True until the attempt is released or all it made is settled, also after its commit: an orphaned plug-in may have
    finished a create whose result the engine never saved. So look (`Cloud.find`) before the call.
    """
    tokens = account(events, run).tokens
    last = max((_number(name) for name in tokens if _group(name) == f"{run}-{index}"), default=0)
    if not last:
        return 1, False
    state = tokens[token(run, index, last)]
    if state.over or state.released:
        return last + 1, False
    return last, state.begun


def replaced_by(total: Account, name: str) -> str:
    """The first later attempt for the same group that may have created something; empty where there is none."""
    later = [
        (_number(other), other)
        for other, state in total.tokens.items()
        if state.begun and _group(other) == _group(name) and _number(other) > _number(name)
    ]
    return min(later)[1] if later else ""


def _group(name: str) -> str:
    return name.rpartition("-a")[0]


def _number(name: str) -> int:
    """Attempt that a token names; 0 where it is not a token of ours."""
    tail = name.rpartition("-a")[2]
    return int(tail) if tail.isdecimal() else 0
