"""Rounds of `make chaos`: all that is left to chance comes from (seed, round), so that a seed replays."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

PARTS = ("runner", "engine", "plug-in", "node")
USD_PER_HOUR = Decimal("0.10")
LIFETIME_S = 300
SHORT_LIFETIMES_S = (12, 20)
TIGHT = 0.2
"""Share of rounds whose budget is tight enough to trip: below the worst case, or too small for a node made twice."""
PAUSE_S = 1.2
"""A call is held for up to so long before the kill, while others come up and are billed."""
LATE_S = 0.4
"""A held call goes on up to so long after the kill: within `infra.teardown.UNKNOWN_S`, which waits for such calls."""


@dataclass(frozen=True)
class Moment:
    """The `nth` event of that kind in the ledger (`ledger commit`), or the nth such call of the cloud (`create made`),
    counted from the start of a command; of a call also the point: accepted, made, or answered."""

    where: str
    nth: int

    @property
    def on_cloud(self) -> bool:
        return not self.where.startswith("ledger ")


@dataclass(frozen=True)
class Kill:
    victims: tuple[str, ...]
    """Of PARTS; who is not there is spared, and where none is, the runner dies."""
    moment: Moment
    pause_s: float
    late_s: float


@dataclass(frozen=True)
class Step:
    """A command of `megatok`, and the kills while it is at work."""

    command: str
    kills: tuple[Kill, ...] = ()


@dataclass(frozen=True)
class Round:
    seed: str
    nodes: int
    lifetime_s: int
    budget_usd: Decimal
    tight: bool
    faults: tuple[Mapping[str, Any], ...]
    struck: tuple[Step, ...]
    recovery: str
    """Of RECOVERIES: what acts at the end, undisturbed."""
    wait_s: float
    """From a killed command to the next one."""


def recipe(nodes: int, lifetime_s: int, budget_usd: Decimal, node_type: str = "cpu-1") -> str:
    """A campaign of which only the cluster is ever made."""
    wanted = {
        "name": "chaos",
        "title": "a run under kills and faults",
        "budget_usd": float(budget_usd),
        "lifetime_s": lifetime_s,
        "cluster": {
            "name": "chaos", "cloud": "local", "gpu": "cpu", "stand_in": "cpu", "node_type": node_type,
            "nodes": nodes, "gpus_per_node": 1, "max_usd_per_hour": float(USD_PER_HOUR),
        },
        "model": "smollm2",
        "engine": {"name": "llamacpp", "slots": 2, "context_tokens": 256},
        "workload": {"name": "tiny", "isl_tokens": 16, "osl_tokens": 8, "requests": 2},
        "sweep": [{"layout": ["DP1xTP1"], "gateway": ["none"], "concurrency": [1]}],
    }  # fmt: skip
    return json.dumps(wanted, indent=1)  # JSON is YAML


Weighted = Mapping[str, int]
UP: Weighted = {
    "ledger open": 1, "ledger reserve": 1, "ledger intent": 1, "ledger commit": 6, "ledger armed": 8,
    "create accepted": 4, "create made": 10, "create answered": 4,
}  # fmt: skip
UP_AGAIN: Weighted = {
    "ledger fence": 1, "ledger commit": 3, "ledger armed": 2, "* accepted": 2, "* made": 2, "* answered": 1,
    "create accepted": 1, "create made": 4,
}  # fmt: skip
DOWN: Weighted = {
    "ledger settle": 2, "ledger sighting": 1, "ledger close": 1, "list answered": 2, "read answered": 2,
    "delete accepted": 14, "delete made": 4, "delete answered": 2,
}  # fmt: skip
ONCE = {"ledger open", "ledger close", "ledger fence", "ledger sighting"}
"""A command writes one of them; of others, up to one a node."""
RECOVERIES: Weighted = {"down": 3, "up": 2, "audit": 2, "lifetimes": 3}
"""`audit` is `megatok audit --fix RUN`."""


def drawn(seed: int, number: int) -> Round:
    rng = random.Random(f"{seed}/{number}")
    nodes = rng.choices(range(1, 9), (2, 3, 3, 3, 2, 2, 1, 1))[0]
    recovery = _weighted(rng, RECOVERIES)
    lifetime_s = rng.randint(*SHORT_LIFETIMES_S) if recovery == "lifetimes" else LIFETIME_S
    tight = rng.random() < TIGHT
    worst_usd = nodes * lifetime_s * USD_PER_HOUR / 3600
    share = Decimal(str(round(rng.uniform(0.9, 1.5) if tight else rng.uniform(4, 8), 3)))
    return Round(
        seed=f"{seed}/{number}",
        nodes=nodes,
        lifetime_s=lifetime_s,
        budget_usd=(worst_usd * share).quantize(Decimal("0.000001")),
        tight=tight,
        faults=tuple(_faults(rng)),
        struck=tuple(_steps(rng, nodes, recovery)),
        recovery=recovery,
        wait_s=rng.choice((0.0, 0.0, round(rng.uniform(0, 2), 2))),
    )


def _steps(rng: random.Random, nodes: int, recovery: str) -> Iterator[Step]:
    yield Step("up", tuple(_kills(rng, UP, nodes)))
    commands = ("up",) if recovery == "lifetimes" else ("up", "down", "down", "audit")
    for _ in range(rng.choice((0, 1, 2)) if recovery == "lifetimes" else rng.choice((2, 3, 4))):
        command = rng.choice(commands)
        yield Step(command, tuple(_kills(rng, UP_AGAIN if command == "up" else DOWN, nodes)))


def _kills(rng: random.Random, moments: Weighted, nodes: int) -> Iterator[Kill]:
    """One; and where the runner survives it, often another: in the teardown of its own that follows, or where only a
    node has died, as it goes on."""
    yield (first := _kill(rng, moments, nodes))
    if "runner" not in first.victims and rng.random() < 0.8:
        yield _kill(rng, moments if first.victims == ("node",) else DOWN, nodes)


def _kill(rng: random.Random, moments: Weighted, nodes: int) -> Kill:
    where = _weighted(rng, moments)
    several = rng.random() < 0.2
    victims = rng.sample(PARTS, rng.choice((2, 3))) if several else rng.choices(PARTS, (4, 3, 3, 1))
    return Kill(
        victims=tuple(sorted(victims)),
        moment=Moment(where, 1 if where in ONCE else rng.randint(1, nodes)),
        pause_s=rng.choice((0.0, round(rng.uniform(0, PAUSE_S), 2), PAUSE_S)),
        late_s=rng.choice((0.0, round(rng.uniform(0, LATE_S), 2))),
    )


def _faults(rng: random.Random) -> Iterator[Mapping[str, Any]]:
    for kind in rng.sample(sorted(FAULTS), rng.choice((0, 0, 1, 1, 2))):
        yield {"fault": kind, **FAULTS[kind], "times": rng.choice((1, 1, 2))}


FAULTS: Mapping[str, Mapping[str, Any]] = {
    "no_capacity": {},
    "quota": {},
    "throttled": {},
    "create_slow": {"seconds": 1.5},
    "create_timeout": {"seconds": 0.3},
    "create_garbage": {},
    "delete_refused": {},
    "delete_lost": {},
    "unreachable": {},
    "eventual": {"seconds": 0.15},
    "spot_notice": {"seconds": 2.0},
    "die": {"seconds": 1.5},
}
"""Those that a provisioning meets and lives through, less the ones that only cost time (a node that never boots), and
less `native_dead`: where lifetimes are all that acts, nothing else may be broken."""


def _weighted(rng: random.Random, weights: Weighted) -> str:
    names: Sequence[str] = tuple(weights)
    return rng.choices(names, tuple(weights.values()))[0]
