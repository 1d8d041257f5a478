from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec import errors

CLASSES = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]


@pytest.mark.parametrize("error", CLASSES)
def test_the_drawn_tree_is_the_tree(error: type[errors.MegatokError]) -> None:
    line = next(line for line in (errors.__doc__ or "").splitlines() if error.__name__ in line.split())
    assert line.split(error.__name__)[1].split()[0] == str(error.exit_code)
    assert ("(retry)" in line) == error.retryable


@pytest.mark.parametrize("error", CLASSES)
def test_every_exit_code_has_its_place_in_the_order(error: type[errors.MegatokError]) -> None:
    assert error.exit_code in errors.SEVERITY


def test_the_drawn_tree_names_every_class_and_no_other() -> None:
    drawn = (errors.__doc__ or "").split("MegatokError", 1)[1].splitlines()
    names = {line.lstrip("│├└─ ").split()[0] for line in drawn[1:] if line}
    assert names | {"MegatokError"} == {error.__name__ for error in CLASSES}


def test_what_may_still_be_billed_outweighs_the_rest() -> None:
    assert errors.worst([6, 3, 7, 8]) == 7
    assert errors.worst([6, 3, 8]) == 8
    assert errors.worst([9, 6, 5]) == 5
    assert errors.worst([]) == 0


@given(st.permutations(errors.SEVERITY), st.integers(1, len(errors.SEVERITY)))
def test_the_order_of_the_codes_does_not_matter(codes: list[int], count: int) -> None:
    assert errors.worst(codes[:count]) == errors.worst(codes[:count][::-1])
