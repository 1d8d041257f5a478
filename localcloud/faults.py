"""Faults on demand: rules that say which call or node goes wrong, how, and how often. They outlive a restart."""

from __future__ import annotations

import fnmatch
import json
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from localcloud.refusal import Refusal

FAULTS = {
    "no_capacity": "create refused",
    "quota": "create refused",
    "throttled": "any call refused (match call: offers, create, list, read, delete, expiry, bill)",
    "create_slow": "each create takes `seconds` more",
    "create_timeout": "the machine is made; the connection drops after `seconds` without an answer",
    "create_garbage": "the machine is made; the answer is not JSON",
    "delete_refused": "delete answers in_use",
    "ssh_silent": "the node accepts TCP and says nothing",
    "host_key_changed": "the node shows another host key than the cloud told",
    "boot_never": "the node stays pending",
    "eventual": "a listing shows what was so `seconds` ago",
    "spot_notice": "the node writes a notice into its home and is ended by itself `seconds` after it came up",
    "die": "the node loses power `seconds` after it came up",
}


@dataclass
class Rule:
    """`match` holds glob patterns for region, node_type, token, name, id or call; all of them must fit."""

    fault: str
    times: int | None = 1
    """How often it strikes; None: always."""
    match: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def fits(self, fault: str, subject: Mapping[str, str]) -> bool:
        return fault == self.fault and all(fnmatch.fnmatch(subject.get(k, ""), v) for k, v in self.match.items())


def rule(wanted: Any) -> Rule:
    """A rule from its JSON form."""
    try:
        made = Rule(**wanted)
    except TypeError:
        raise Refusal("bad_request", f"{wanted!r} is no rule; keys are fault, times, match, seconds") from None
    if made.fault not in FAULTS:
        raise Refusal("bad_request", f"unknown fault {made.fault!r}; there are {', '.join(FAULTS)}")
    return made


class Faults:
    """The rules in force, kept in `path`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._rules = [rule(each) for each in json.loads(path.read_text())] if path.exists() else []

    def add(self, new: Rule) -> None:
        with self._lock:
            self._rules.append(new)
            self._save()

    def clear(self) -> None:
        with self._lock:
            self._rules.clear()
            self._save()

    def listed(self) -> list[dict[str, Any]]:
        with self._lock:
            return [asdict(each) for each in self._rules]

    def strike(self, fault: str, **subject: str) -> Rule | None:
        """The first rule that fits, used up by one; None where all goes well."""
        with self._lock:
            found = next((each for each in self._rules if each.fits(fault, subject)), None)
            if found and found.times is not None:
                found.times -= 1
                self._rules = [each for each in self._rules if each.times != 0]
                self._save()
            return found

    def _save(self) -> None:
        self._path.write_text(json.dumps([asdict(each) for each in self._rules], indent=1))
