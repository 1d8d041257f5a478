"""Whether a thing that stands does so by right: the cloud's word about it, against the ledger's."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

from infra.cloud import Item, Machine
from money.account import Account, Token, key

Verdict = Literal["by right", "expired", "closed", "unknown", "not known", "foreign ledger"]

SLACK = timedelta(seconds=30)
"""For a cloud's own switch to end what is past its end."""


def judge_blindly(item: Item, mark: str, now: datetime) -> tuple[Verdict, str]:
    """What the tags and the cloud's clock say, while the ledger cannot be read."""
    verdict, why = judge(item, Account(), mark, now, busy=False)
    return ("not known", "the ledger cannot be read") if verdict == "unknown" else (verdict, why)


def judge(item: Item, run: Account, mark: str, now: datetime, busy: bool) -> tuple[Verdict, str]:
    """The verdict and why. `mark`: of our ledger; `now`: of the cloud; `busy`: somebody may be at work on the run."""
    if not item.is_of(mark):
        return "foreign ledger", f"accounted in another ledger ({item.ledger}): see to it there, or name it here"
    if item.expires_at and now > item.expires_at + SLACK:
        return "expired", "past its end, and nothing has ended it"
    if not run.budget_usd:
        return "unknown", "the ledger does not know its run"
    if key(item.resource) in run.settled:
        return "closed", "paid and over by the ledger"
    if not run.is_open:
        return "closed", "its run is closed"
    return _in_open_run(run.tokens.get(item.token), item, busy)


def _in_open_run(token: Token | None, item: Item, busy: bool) -> tuple[Verdict, str]:
    if token is None or not token.begun:
        return "unknown", "the ledger knows its run, but not the thing"
    if token.released:
        return "closed", f"its attempt {item.token} was given up"
    if token.committed and token.reserved_until is None:
        return "unknown", "on record, but nothing is set aside for it"
    if token.committed and isinstance(item, Machine) and key(item.resource) not in token.made and not busy:
        return "unknown", f"the ledger knows other machines of its attempt {item.token}, but not this one"
    if token.committed:
        return "by right", "" if item.expires_at else "without an end of its own"
    return ("by right", "being created") if busy else ("unknown", "made by a create whose outcome was never recorded")
