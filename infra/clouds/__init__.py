"""Clouds by name. A module costs only who uses it."""

from __future__ import annotations

import importlib

from infra.cloud import Cloud
from spec.errors import RecipeError

CLOUDS = {
    "local": "infra.clouds.local",
    "ssh": "infra.clouds.ssh",
}


def cloud(name: str) -> Cloud:
    """The cloud called `name`; RecipeError where there is none."""
    if name not in CLOUDS:
        raise RecipeError(f"unknown cloud {name!r}; there are {', '.join(sorted(CLOUDS))}")
    found: Cloud = importlib.import_module(CLOUDS[name]).CLOUD
    return found
