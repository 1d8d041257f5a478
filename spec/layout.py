"""Layouts: how replicas and parallelism are written, `DP4xTP2`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from spec.base import Positive, Spec

_TEXT = re.compile(r"DP([1-9][0-9]*)(?:xTP([1-9][0-9]*))?(?:xPP([1-9][0-9]*))?(?:xEP([1-9][0-9]*))?")


class LayoutShape(Spec):
    """`dp` replicas, each on `tp` x `pp` GPUs; `ep` spreads experts over those same GPUs."""

    dp: Positive
    tp: Positive = 1
    pp: Positive = 1
    ep: Positive = 1

    @property
    def gpus_per_replica(self) -> int:
        return self.tp * self.pp

    @property
    def gpus(self) -> int:
        return self.dp * self.gpus_per_replica

    def __str__(self) -> str:
        tail = "".join(f"x{k}{v}" for k, v in (("PP", self.pp), ("EP", self.ep)) if v > 1)
        return f"DP{self.dp}xTP{self.tp}{tail}"


def misfit(layout: LayoutShape, gpus: Sequence[int]) -> str:
    """Why `layout` does not fit nodes with so many GPUs each, with the numbers and the way out; empty where it fits."""
    need = layout.gpus_per_replica
    if max(gpus, default=0) < need:
        return f"layout {layout} needs {need} GPUs on one node, the largest has {max(gpus, default=0)}; lower TP or PP"
    room = sum(count // need for count in gpus)
    if room < layout.dp:
        nodes = f"{len(gpus)} nodes with {sum(gpus)} GPUs"
        return f"layout {layout} needs room for {layout.dp} replicas, {nodes} hold {room}; lower DP or add nodes"
    return ""


def _parse(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    found = _TEXT.fullmatch(value)
    if not found:
        raise ValueError(f"{value!r} is not a layout; write it like DP4xTP2")
    dp, tp, pp, ep = (int(part or 1) for part in found.groups())
    return LayoutShape(dp=dp, tp=tp, pp=pp, ep=ep)


Layout = Annotated[
    LayoutShape,
    BeforeValidator(_parse),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": f"^{_TEXT.pattern}$"}),
]
