"""What one cell was asked and what happened, and the whole run's document. `docs/schemas/{record,run}.json`."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime

from spec.base import Natural, Seq, Spec, Usd
from spec.receipt import Receipt
from spec.recipe import CellKey, Workload


class RequestRecord(Spec):
    """One request as its client saw it, whatever load generator was used. Times in epoch seconds."""

    started_s: float
    first_token_s: float | None
    """None where no token came."""
    ended_s: float
    input_tokens: Natural
    output_tokens: Natural
    ok: bool
    error: str = ""
    itl_ms: Seq[float] = ()
    """Gaps between the chunks that carried tokens; empty where the load generator kept none."""
    prompt: str = ""
    """The load generator's name of the prompt: requests that share it asked the same. Empty where it has none."""
    cached_tokens: Natural | None = None
    """Prompt tokens that the server took from its prefix cache; None where it does not tell."""


class Check(Spec):
    """One validity check of a cell."""

    name: str
    outcome: Literal["pass", "fail", "not applicable", "unknown"]
    detail: str


class Quantiles(Spec):
    """Milliseconds."""

    mean_ms: float
    p50_ms: float
    p90_ms: float
    p99_ms: float


class Figures(Spec):
    """Counted from the load generator's per-request records, not from its summary."""

    requests: Natural
    answered: Natural
    errors: Natural
    duration_s: float
    input_tokens: Natural
    output_tokens: Natural
    isl_mean_tokens: float
    osl_mean_tokens: float
    output_tok_per_s: float
    total_tok_per_s: float
    requests_per_s: float
    in_flight_mean: float
    """Requests in flight, averaged over the window: the load that was really delivered."""
    ttft: Quantiles
    tpot: Quantiles | None
    """None where no answer has two tokens."""
    itl: Quantiles | None
    """None where the load generator kept no gaps."""
    e2e: Quantiles


class Forecast(Spec):
    """What the plan expected of a cell, and between which ends; all 0 where nothing was measured to go by."""

    output_tok_per_s: float
    low: float
    high: float
    source: str


class Record(Spec):
    version: Literal[1] = 1
    run: str
    cell: CellKey
    simulated: bool
    engine: str
    model: str
    workload: Workload | None = None
    """What was asked of each request; None where a cell never began."""
    forecast: Forecast | None = None
    started_at: AwareDatetime
    ended_at: AwareDatetime
    figures: Figures | None
    checks: Seq[Check]
    valid: bool
    commands: Seq[str]
    versions: dict[str, str]
    usd: Usd
    """Node time of this cell x price."""
    usd_per_million_output_tokens: Usd | None
    evidence: Seq[str] = ()
    """Files in the run folder."""


class Phase(Spec):
    """`own_s`: seconds in this phase outside the load generator's own processes."""

    name: str
    started_at: AwareDatetime
    seconds: float
    own_s: float


class RunDocument(Spec):
    version: Literal[1] = 1
    run: str
    title: str
    recipe: str
    simulated: bool
    stand_in: Literal["cpu"] | None
    exit_code: Natural
    message: str
    phases: Seq[Phase]
    cells: Seq[Record]
    asked: Seq[str] = ()
    """Every cell of the campaign, in its order; those without a record were not measured."""
    receipt: Receipt | None
    folder: str
    plan: str = ""
    """The plan as it was rendered before anything was rented."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Cells that the campaign asked for and that nobody measured."""
        measured = {str(record.cell) for record in self.cells}
        return tuple(name for name in self.asked if name not in measured)

    @property
    def whole(self) -> int:
        """Cells of the campaign."""
        return len(self.cells) + len(self.missing)
