from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pydantic import AwareDatetime, ValidationError

from spec.base import Seq, Some, Spec

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
