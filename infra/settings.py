"""What a stack is asked for: the keys of its config, and back."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Self

from spec.errors import RecipeError
from spec.home import ROOT


@dataclass(frozen=True)
class StackSettings:
    """`nodes` None: as the recipe says. `extend_s`: all that was ever added to `lifetime_s`."""

    run: str
    recipe: Path
    budget_usd: Decimal
    lifetime_s: float
    ledger: str
    nodes: int | None = None
    extend_s: float = 0

    def config(self) -> dict[str, str]:
        """As keys of the stack's config, without their namespace."""
        return {
            "recipe": str(self.recipe.absolute()),
            "budget_usd": format(self.budget_usd, "f"),
            "lifetime_s": str(self.lifetime_s),
            "ledger": self.ledger,
            **({"extend_s": str(self.extend_s)} if self.extend_s else {}),
            **({"nodes": str(self.nodes)} if self.nodes is not None else {}),
        }

    @classmethod
    def of(cls, run: str, get: Callable[[str], str | None]) -> Self:
        """From the stack's config; a relative recipe is one of the checkout."""
        nodes = get("nodes")
        return cls(
            run=run,
            recipe=ROOT / _required(get, "recipe"),
            budget_usd=_decimal("budget_usd", _required(get, "budget_usd")),
            lifetime_s=_seconds("lifetime_s", _required(get, "lifetime_s")),
            ledger=_required(get, "ledger"),
            nodes=None if nodes is None else _count("nodes", nodes),
            extend_s=_seconds("extend_s", get("extend_s") or "0"),
        )


def _required(get: Callable[[str], str | None], key: str) -> str:
    value = get(key)
    if not value:
        raise RecipeError(f"the stack has no {key}; set it: pulumi config set {key} VALUE")
    return value


def _decimal(key: str, text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise RecipeError(f"{key} is {text!r}; write dollars, like 12.50") from None


def _seconds(key: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds):
        raise RecipeError(f"{key} is {text!r}; write seconds, like 3600")
    return seconds


def _count(key: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise RecipeError(f"{key} is {text!r}; write a whole number of at least 1")
    return int(text)
