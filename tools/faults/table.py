"""What each fault of the local cloud is tried as, and how `megatok` may end then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from localcloud.faults import FAULTS

ALWAYS = None
"""As `times` of a rule: it strikes each time."""
LIFETIME_S = 300
ONE = {"name": "*-1"}
"""The second of three nodes."""


@dataclass(frozen=True)
class Fault:
    """`rule` as the cloud takes it; exit codes that are right for `megatok up`, and for the `gate` that follows."""

    rule: Mapping[str, Any]
    up: frozenset[int]
    gate: frozenset[int] | None = None
    """None: it does not show there, and nobody looks."""
    lifetime_s: int = LIFETIME_S
    node_type: str = ""
    """Where it shows on one kind of node alone."""


DONE, NO_ROOM, UNFIT = frozenset({0}), frozenset({4}), frozenset({5})
NO_ANSWER = frozenset({1})

TABLE: Mapping[str, Fault] = {
    "no_capacity": Fault({"match": ONE, "times": ALWAYS}, up=NO_ROOM),
    "quota": Fault({"match": ONE, "times": ALWAYS}, up=NO_ROOM),
    "throttled": Fault({"times": 4}, up=DONE),
    "create_slow": Fault({"match": ONE, "seconds": 1.0}, up=DONE),
    "create_timeout": Fault({"match": ONE, "seconds": 0.3}, up=DONE),
    "create_garbage": Fault({"match": ONE}, up=DONE),
    "delete_refused": Fault({"times": 2}, up=DONE),
    "ssh_silent": Fault({"match": ONE}, up=DONE, gate=UNFIT),
    "host_key_changed": Fault({"match": ONE}, up=DONE, gate=UNFIT),
    # It stays pending until its end, and another place is tried then.
    "boot_never": Fault({"match": ONE}, up=DONE | NO_ROOM, lifetime_s=15),
    # A create that was never heard is not repeated: the run ends, and says so.
    "unreachable": Fault({"times": 3}, up=DONE | NO_ANSWER),
    "clock_skew": Fault({"seconds": 7200}, up=DONE),
    # The recipe names the dearest price that it allows, and so takes an old one.
    "price_stale": Fault({"times": ALWAYS}, up=DONE),
    "price_foreign": Fault({"times": ALWAYS}, up=NO_ROOM),
    "price_unknown": Fault({"times": ALWAYS}, up=NO_ROOM),
    "dearer": Fault({}, up=NO_ROOM),
    "delete_lost": Fault({"times": 2}, up=DONE),
    "disk_stuck": Fault({"times": 2}, up=DONE, node_type="cpu-1-disk"),
    "native_dead": Fault({"match": ONE}, up=DONE),
    "eventual": Fault({"times": ALWAYS, "seconds": 0.15}, up=DONE),
    # They are up when the cloud answers, and may be gone before anybody looks.
    "spot_notice": Fault({"match": ONE, "seconds": 1.0}, up=DONE, gate=UNFIT),
    "hold": Fault({"match": {"call": "create"}, "at": "made", "seconds": 0.5}, up=DONE),
    "die": Fault({"match": ONE, "seconds": 1.0}, up=DONE, gate=UNFIT),
}


def names() -> tuple[str, ...]:
    """Of the faults that the cloud has, in this table's order; KeyError where one of them is not in it."""
    if new := FAULTS.keys() - TABLE.keys():
        raise KeyError(f"tools/faults/table.py does not say how megatok may end under: {', '.join(sorted(new))}")
    return tuple(name for name in TABLE if name in FAULTS)
