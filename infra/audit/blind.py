"""What may be ended while the ledger cannot be read: by the clouds' tags and clocks alone, and nothing is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from infra.audit.look import Sight, answered
from infra.audit.report import Report
from infra.cloud import Item
from infra.provider.end import in_order, see_gone
from infra.teardown import Tell
from spec.errors import MegatokError

WORKERS = 8
DONE = "deleted, gone; not settled"
WAY_ON = "nothing was adopted, settled or put on record: mend the ledger as told, then go on with: megatok audit --fix"


def end_blindly(report: Report, ids: Iterable[str], limit_s: float, tell: Tell) -> tuple[dict[str, str], list[str]]:
    """End the things of these ids, what holds others first: what became of each, and what would not go."""
    wanted = set(ids)
    done: dict[str, str] = {}
    doubts: list[str] = []
    for sight in report.sights:
        items = [one for one in sight.items if one.id in wanted]
        for batch in in_order(sight.where, items, lambda item: item.resource.kind):
            refusals = _end(sight, batch, limit_s)
            done |= {id: "NOT gone" if refusal else DONE for id, refusal in refusals.items()}
            doubts += [refusal for refusal in refusals.values() if refusal]
    for id, what in done.items():
        tell(f"{id}: {what}")
    return done, [*doubts, WAY_ON]


def _end(sight: Sight, items: Sequence[Item], limit_s: float) -> dict[str, str]:
    """Why each would not go, by id; empty where it is gone."""

    def end(item: Item) -> str:
        try:
            answered(lambda: see_gone(sight.where, item.resource, limit_s))
        except MegatokError as error:
            return f"{item.resource.kind} {item.id} of run {item.run}: {error}"
        return ""

    with ThreadPoolExecutor(WORKERS) as pool:
        return dict(zip((item.id for item in items), pool.map(end, items), strict=True))
