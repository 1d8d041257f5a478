"""What an engine must tell, and the engines there are: one is a module in `plan/engines/` and a line here."""

from __future__ import annotations

from typing import Protocol

from plan.engines import llamacpp
from plan.launch import Launch, Replica
from spec.errors import RecipeError
from spec.recipe import Campaign, Model


class Engine(Protocol):
    """A module that knows one serving software."""

    def check(self, campaign: Campaign, model: Model) -> None:
        """RecipeError where the campaign asks for what this engine cannot do."""

    def launch(self, name: str, replica: Replica, campaign: Campaign, *, key: bool) -> Launch:
        """The process that serves `replica`; with `key`, only to clients that show it."""


ENGINES: dict[str, Engine] = {"llamacpp": llamacpp}


def engine(name: str) -> Engine:
    if name not in ENGINES:
        raise RecipeError(f"engine.name: unknown engine {name!r}; there are {', '.join(sorted(ENGINES))}")
    return ENGINES[name]
