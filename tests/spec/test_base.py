from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from pydantic import AwareDatetime, ValidationError

from spec.base import Seq, Some, Spec, shown

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Leaf(Spec):
    at: AwareDatetime


class Tree(Spec):
    leaves: Seq[Leaf] = ()
    times: Seq[AwareDatetime] = ()
    numbers: Some[int] = (1,)


def test_a_list_of_times_comes_back_from_json() -> None:
    tree = Tree(leaves=(Leaf(at=NOON),), times=(NOON,))
    assert Tree.model_validate_json(tree.model_dump_json()) == tree


def test_a_list_is_read_as_it_stands_in_a_recipe() -> None:
    assert Tree.model_validate({"numbers": [1, 2]}).numbers == (1, 2)


@pytest.mark.parametrize("numbers", ["12", {1: 2}, 3, ["1"], [1.0], [True], []])
def test_what_is_no_list_of_numbers_is_refused(numbers: object) -> None:
    with pytest.raises(ValidationError):
        Tree.model_validate({"numbers": numbers})


@pytest.mark.parametrize(
    ("usd", "text"),
    [
        ("0", "0.0000"),
        ("12.5", "12.5000"),
        ("0.010149", "0.0101"),
        ("0.0099999", "0.0100"),
        ("0.003", "0.0030"),
        ("0.00001", "0.00001"),
        ("0.0000123456", "0.00001235"),
        ("1E-20", "0.00000000000000000001"),
        ("1e12", "1000000000000.0000"),
    ],
)
def test_small_amounts_are_shown_with_more_places(usd: str, text: str) -> None:
    assert shown(Decimal(usd)) == text
