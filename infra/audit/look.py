"""What the clouds say now: one sight of each, and none keeps the others waiting."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TypeVar

from infra.cloud import Cloud, Item
from infra.clouds import CLOUDS, cloud
from infra.provider.job import patiently
from spec.errors import MegatokError, NotConfigured, Unanswered, why
from spec.ledger import Scope

T = TypeVar("T")

PATIENCE_S = 15.0
"""For a cloud that says that trying again can help."""


@dataclass(frozen=True)
class Sight:
    """A cloud that answered. `now` is its own clock, read after the listing."""

    where: Cloud
    scope: Scope
    items: tuple[Item, ...]
    now: datetime


@dataclass(frozen=True)
class Silence:
    """A cloud that did not."""

    cloud: str
    why: str
    configured: bool
    """Without credentials, this machine cannot have made anything there."""


def answered(ask: Callable[[], T]) -> T:
    """A cloud's answer. One whose module crashes has given none: Unanswered, so that it stops nothing but itself."""
    try:
        return ask()
    except MegatokError:
        raise
    except Exception as error:
        raise Unanswered(f"no answer that can be used: {why(error)}") from error


def look() -> tuple[Sight | Silence, ...]:
    """Every cloud, all of its regions."""
    with ThreadPoolExecutor(len(CLOUDS)) as pool:
        return tuple(pool.map(_look, CLOUDS))


def _look(name: str) -> Sight | Silence:
    try:
        return answered(partial(_sight, name))
    except NotConfigured as error:
        return Silence(name, str(error), configured=False)
    except MegatokError as error:
        return Silence(name, str(error), configured=True)


def _sight(name: str) -> Sight:
    where = cloud(name)
    scope = patiently(where.scope, PATIENCE_S)
    items = patiently(where.inventory, PATIENCE_S)
    return Sight(where, scope, items, patiently(where.now, PATIENCE_S))


def stands(where: Cloud, item: Item) -> bool:
    """Whether it is really there: a listing may lag and show what has ended. Yes, where the cloud does not say."""
    try:
        now = answered(lambda: patiently(partial(where.read, item.resource), PATIENCE_S))
    except MegatokError:
        return True
    return now is not None and now.state != "terminated"
