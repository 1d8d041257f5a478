"""Faults on demand: rules that say which call or node goes wrong, how, and how often. They outlive a restart."""

from __future__ import annotations

import fnmatch
import json
import math
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from localcloud.refusal import Refusal

FAULTS = {
    "no_capacity": "create refused",
    "quota": "create refused",
    "throttled": "any call refused",
    "unreachable": "the connection of any call is dropped without an answer, nothing done; for `seconds`, or `times`",
    "clock_skew": "as long as the rule stands, the cloud's clock and all times that it tells are `seconds` off",
    "price_stale": "offers tell prices of `seconds` ago (0: a year)",
    "price_foreign": "offers tell prices in EUR",
    "price_unknown": "offers tell no price",
    "dearer": "as long as the rule stands, offers tell ten times the price, and from then on creates cost it",
    "create_slow": "each create takes `seconds` more",
    "create_timeout": "the machine is made; the connection drops after `seconds` without an answer",
    "create_garbage": "the machine is made; the answer is not JSON",
    "delete_refused": "delete answers in_use",
    "delete_lost": "delete answers 202, and nothing happens",
    "disk_stuck": "delete of a disk answers in_use, though its machine has gone",
    "ssh_silent": "the node accepts TCP and says nothing",
    "host_key_changed": "the node shows another host key than the cloud told",
    "native_dead": "nothing of the cloud ends the node at its expiry",
    "boot_never": "the node stays pending",
    "eventual": "a listing shows what was so `seconds` ago",
    "spot_notice": "the node writes a notice into its home and is ended by itself `seconds` after it came up",
    "die": "the node loses power `seconds` after it came up",
    "hold": "the `nth` call that comes to the point `at` waits there until the rule is deleted, or for `seconds`",
}
POINTS = ("accepted", "made", "answered")
"""Of a call. Accepted: the cloud knows the order, and has made nothing. Made: all is done and bills, no answer is sent.
Answered: the answer is on its way. A call that is refused comes to `answered` only."""
HOLD_LOOK_S = 0.05  # between two looks whether a call that is held has lost its reason


@dataclass
class Rule:
    """`match` holds glob patterns for call, region, node_type, token, name, id or kind; all of them must fit."""

    fault: str
    times: int | None = 1
    """How often it strikes; None: always."""
    match: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    at: str = ""
    nth: int = 1
    id: str = field(default_factory=lambda: secrets.token_hex(4))
    seen: int = 0
    """Calls that have come to `at`, or were told."""
    holding: bool = False
    added_at: float = field(default_factory=time.time)

    @property
    def timed(self) -> bool:
        """In force for its seconds, not for its times."""
        return self.fault == "unreachable" and self.seconds > 0

    def fits(self, fault: str, subject: Mapping[str, str]) -> bool:
        if self.timed and time.time() > self.added_at + self.seconds:
            return False
        return fault == self.fault and all(fnmatch.fnmatch(subject.get(k, ""), v) for k, v in self.match.items())


def rule(wanted: Any) -> Rule:
    """A rule from its JSON form."""
    try:
        made = Rule(**wanted)
    except TypeError:
        raise Refusal(
            "bad_request", f"{wanted!r} is no rule; keys are fault, times, match, seconds, at, nth, id"
        ) from None
    if made.fault not in FAULTS:
        raise Refusal("bad_request", f"unknown fault {made.fault!r}; there are {', '.join(FAULTS)}")
    if made.fault == "hold" and made.at not in POINTS:
        raise Refusal("bad_request", f"hold needs a point `at`, one of {', '.join(POINTS)}; got {made.at!r}")
    return made


class Faults:
    """The rules in force, kept in `path`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Condition()
        kept = [rule(each) for each in json.loads(path.read_text())] if path.exists() else []
        self._rules = [each for each in kept if not each.holding]  # whom these held has gone with the cloud

    def add(self, new: Rule) -> None:
        with self._lock:
            self._rules.append(new)
            self._save()

    def clear(self, id: str | None = None) -> None:
        """Take away one rule, or all; whom it holds goes on."""
        with self._lock:
            self._rules = [each for each in self._rules if id is not None and each.id != id]
            self._save()
            self._lock.notify_all()

    def listed(self) -> list[dict[str, Any]]:
        with self._lock:
            return [asdict(each) for each in self._rules]

    def strike(self, fault: str, **subject: str) -> Rule | None:
        """The first rule that fits, used up by one; None where all goes well."""
        with self._lock:
            found = next((each for each in self._rules if each.fits(fault, subject)), None)
            if found and found.times is not None and not found.timed:
                found.times -= 1
                self._rules = [each for each in self._rules if each.times != 0]
                self._save()
            return found

    def force(self, fault: str, **subject: str) -> Rule | None:
        """The first rule that fits, and is not used up."""
        with self._lock:
            return next((each for each in self._rules if each.fits(fault, subject)), None)

    def tell(self, fault: str, **subject: str) -> None:
        """Note that what this fault does was told to a caller."""
        with self._lock:
            if found := self.force(fault, **subject):
                found.seen += 1
                self._save()

    def hold(self, at: str, subject: Mapping[str, str], moot: Callable[[], bool] = lambda: False) -> None:
        """Count a call that has come to the point `at`; let it wait there where a rule says so, until it is moot."""
        with self._lock:
            met = [each for each in self._rules if each.at == at and each.fits("hold", subject)]
            for each in met:
                each.seen += 1
                each.holding = each.holding or each.seen == each.nth
            if met:
                self._save()
            for each in met:
                if each.seen == each.nth:
                    self._wait(each, moot)

    def _wait(self, held: Rule, moot: Callable[[], bool]) -> None:
        give_up_at = time.monotonic() + (held.seconds or math.inf)
        while held in self._rules and time.monotonic() < give_up_at and not moot():
            self._lock.wait(HOLD_LOOK_S)
        self._rules = [each for each in self._rules if each is not held]
        self._save()

    def _save(self) -> None:
        self._path.write_text(json.dumps([asdict(each) for each in self._rules], indent=1))
