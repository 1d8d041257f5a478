"""Stack config, both ways."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from infra.settings import StackSettings
from spec.errors import RecipeError
from spec.home import ROOT

CONFIG = {"recipe": "recipes/clusters/local-4.yaml", "budget_usd": "12.50", "lifetime_s": "600", "ledger": "file:///l"}


def test_settings_survive_the_config() -> None:
    wanted = StackSettings("r", Path("/x.yaml"), Decimal("1.10"), 600.5, "file:///l", nodes=3, extend_s=60)
    assert StackSettings.of("r", wanted.config().get) == wanted


def test_a_relative_recipe_is_one_of_the_checkout() -> None:
    assert StackSettings.of("r", CONFIG.get).recipe == ROOT / "recipes/clusters/local-4.yaml"


@pytest.mark.parametrize("key", CONFIG)
def test_a_missing_key_is_named(key: str) -> None:
    with pytest.raises(RecipeError, match=f"has no {key}; set it: pulumi config set {key}"):
        StackSettings.of("r", {**CONFIG, key: ""}.get)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("budget_usd", "ten"),
        ("lifetime_s", "1h"),
        ("lifetime_s", "nan"),
        ("nodes", "0"),
        ("nodes", "-1"),
        ("extend_s", "x"),
    ],
)
def test_a_value_that_is_none_is_named(key: str, value: str) -> None:
    with pytest.raises(RecipeError, match=f"{key} is '{value}'; write"):
        StackSettings.of("r", {**CONFIG, key: value}.get)
