"""Rounds of the kill test: who is killed when, in what kind of run; drawn whole from a seed."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

VICTIMS = ("runner", "engine", "plug-in")
USD_PER_HOUR = Decimal("0.20")
CHOSEN_BILLED = 0.6
"""So often a moment is taken at which a node is up in most runs."""
RESUMED = 0.3
"""So often the user goes on with a run whose runner was killed, instead of ending it."""

FILES = {
    "phase": "runs/*/progress.log",
    "ledger": "ledger/ledger.jsonl",
    "request": "localcloud/localcloud.log",
    "meter": "localcloud/meter.jsonl",
}


@dataclass(frozen=True)
class Moment:
    """`delay_s` after the first line that matches `pattern` in one of FILES."""

    phase: str
    file: str
    pattern: str
    billed: bool
    spread_s: float
    engine: bool = False
    """Whether an engine, and its plug-in, are there then, or come soon."""
    delay_s: float = 0.0


MOMENTS = (
    Moment("provision", "phase", r"\] provision", billed=False, spread_s=1.5, engine=True),
    Moment("provision", "ledger", '"kind":"open"', billed=False, spread_s=0.05, engine=True),
    Moment("provision", "ledger", '"kind":"reserve"', billed=False, spread_s=0.02, engine=True),
    Moment("provision", "ledger", '"kind":"intent"', billed=False, spread_s=0.1, engine=True),
    Moment("provision", "request", "POST /v1/nodes", billed=False, spread_s=0.1, engine=True),
    Moment("provision", "meter", '"start"', billed=True, spread_s=0.5, engine=True),
    Moment("provision", "ledger", '"kind":"commit"', billed=True, spread_s=0.5, engine=True),
    Moment("provision", "ledger", '"kind":"armed"', billed=True, spread_s=1.0, engine=True),
    Moment("prepare", "phase", r"nodes up", billed=True, spread_s=0.5),
    Moment("prepare", "phase", r"\] prepare", billed=True, spread_s=1.0),
    Moment("serve", "phase", r"\] serve", billed=True, spread_s=1.0),
    Moment("serve", "phase", r"\] smoke", billed=True, spread_s=1.0),
    Moment("measure", "phase", r"\] measure", billed=True, spread_s=10.0),
    Moment("measure", "phase", r"\] stop", billed=True, spread_s=0.5),
    Moment("measure", "phase", r"\] collect", billed=True, spread_s=0.5),
    Moment("destroy", "phase", r"\] destroy", billed=True, spread_s=0.8, engine=True),
    Moment("destroy", "request", "DELETE /v1/nodes", billed=True, spread_s=0.02, engine=True),
    Moment("destroy", "meter", '"stop"', billed=False, spread_s=0.05, engine=True),
    Moment("destroy", "ledger", '"kind":"settle"', billed=False, spread_s=0.05, engine=True),
    Moment("destroy", "ledger", '"kind":"fence"', billed=False, spread_s=0.1),
    Moment("destroy", "ledger", '"kind":"sighting"', billed=False, spread_s=0.2),
    Moment("destroy", "ledger", '"kind":"close"', billed=False, spread_s=0.3),
)


@dataclass(frozen=True)
class Round:
    """One kill, drawn whole from its seed, so that the round can be played again."""

    seed: str
    victim: str
    moment: Moment
    nodes: int
    layout: str
    gateway: str
    requests: int
    faults: tuple[Mapping[str, Any], ...]
    wait_s: float
    """Until the user acts, after a runner was killed."""
    resume: bool
    """The user goes on with the run, instead of ending it."""

    def recipe(self) -> str:
        wanted = {
            "name": "kill",
            "title": "a run that is killed",
            "budget_usd": 1,
            "lifetime_s": 900,
            "cluster": {
                "name": "kill", "cloud": "local", "gpu": "cpu", "stand_in": "cpu", "node_type": "cpu-2",
                "nodes": self.nodes, "gpus_per_node": 2, "max_usd_per_hour": float(USD_PER_HOUR),
            },
            "model": "smollm2",
            "engine": {"name": "llamacpp", "slots": 2, "context_tokens": 512},
            "workload": {"name": "tiny", "isl_tokens": 16, "osl_tokens": 8, "requests": self.requests},
            "sweep": [{"layout": [self.layout], "gateway": [self.gateway], "concurrency": [1]}],
            "repeats": 1,
        }  # fmt: skip
        return json.dumps(wanted, indent=1)  # JSON is YAML


def drawn(seed: int, number: int) -> Round:
    """Victims take turns, and each one's phases too; all else is left to chance."""
    rng = random.Random(f"{seed}/{number}")
    turn, which = divmod(number, len(VICTIMS))
    victim = VICTIMS[which]
    known = [moment for moment in MOMENTS if victim == "runner" or moment.engine]
    moment = _moment(rng, known, seed + turn)
    half_up = victim != "runner" and moment.phase == "provision"
    nodes = 2 if half_up else rng.choice((1, 2, 2))
    return Round(
        seed=f"{seed}/{number}",
        victim=victim,
        moment=moment,
        nodes=nodes,
        layout=rng.choice(("DP1xTP1", "DP1xTP2") if nodes == 1 else ("DP2xTP1", "DP2xTP2")),
        gateway=rng.choice(("none", "nginx")),
        requests=rng.choice((2, 4, 6)),
        faults=tuple(_faults(rng, nodes, slow=half_up or rng.random() < 0.5)),
        wait_s=rng.choice((0.0, 0.0, round(rng.uniform(0, 4), 1))),
        resume=victim == "runner" and rng.random() < RESUMED,
    )


def _moment(rng: random.Random, known: Sequence[Moment], turn: int) -> Moment:
    phases = list(dict.fromkeys(moment.phase for moment in known))
    here = [moment for moment in known if moment.phase == phases[turn % len(phases)]]
    billed = [moment for moment in here if moment.billed]
    moment = rng.choice(billed if rng.random() < CHOSEN_BILLED else here)
    return dataclasses.replace(moment, delay_s=round(rng.uniform(0, moment.spread_s), 3))


def _faults(rng: random.Random, nodes: int, *, slow: bool) -> Iterator[Mapping[str, Any]]:
    """A cloud that takes its time, so that one node bills while the engine still works; and one that is contrary."""
    if slow:
        yield {"fault": "create_slow", "match": {"name": f"*-{nodes - 1}"}, "seconds": round(rng.uniform(1, 3), 1)}
    if rng.random() < 0.3:
        yield {"fault": rng.choice(("delete_refused", "throttled")), "times": rng.choice((1, 2))}
    if rng.random() < 0.2:
        yield {"fault": "create_timeout", "match": {"name": "*-0"}, "seconds": 0.3}
