"""The figures of all rounds of a seed."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

BETWEEN = ("create accepted", "create made", "delete accepted", "delete made")
"""The cloud has taken an order to make or end something, and its answer has not left."""


def told(done: Sequence[dict[str, Any]]) -> dict[str, Any]:
    kills = [kill for each in done for kill in each["kills"]]
    zero = [each["zero_s"] for each in done if each["zero_s"] is not None]
    return {
        "kills": len(kills),
        "machines_left": sum(each["machines_left"] for each in done),
        "usd_over": str(sum((Decimal(each["usd_over"]) for each in done), Decimal(0))),
        "seconds_to_zero_p50": round(statistics.median(zero), 2) if zero else None,
        "seconds_to_zero_max": round(max(zero), 2) if zero else None,
        "rounds": len(done),
        "failures": [
            {"round": each["seed"], "why": each["faults"], "folder": each["folder"]} for each in done if each["faults"]
        ],
        "billed_share": _share([kill["billed"] for kill in kills]),
        "between_accept_and_answer_share": _share([kill["where"] in BETWEEN for kill in kills]),
        "by_moment": _counted(kill["where"] for kill in kills),
        "by_victim": _counted("+".join(kill["victims"]) for kill in kills),
        "by_command": _counted(kill["command"] for kill in kills),
        "by_recovery": _counted(each["recovery"] for each in done if each["kills"]),
        "tight_rounds": sum(each["tight"] for each in done),
        "missed": sum(each["missed"] for each in done),
        "usd_metered": str(sum((Decimal(each["usd"]) for each in done), Decimal(0))),
    }


def outcome(line: dict[str, Any]) -> str:
    """A round in one line, for a person."""
    fell = (f"{'+'.join(kill['victims'])} at {kill['where']} {kill['nth']}" for kill in line["kills"])
    codes = " ".join(f"{name}={code}" for name, code in line["codes"])
    wrong = "; ".join(line["faults"]) or "clean"
    return (
        f"{line['seed']} {line['nodes']} nodes, killed {', '.join(fell) or 'nobody'}; {line['recovery']}: {codes}; "
        f"{line['seconds']} s; {wrong}"
    )


def _share(each: Sequence[bool]) -> float:
    return round(sum(each) / max(1, len(each)), 3)


def _counted(words: Any) -> dict[str, int]:
    return dict(Counter(words).most_common())
