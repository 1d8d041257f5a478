"""What the engine says, as errors of ours. The texts are the engine's own, of 3.274.1."""

from __future__ import annotations

import pytest
from pulumi.automation import CommandResult
from pulumi.automation.errors import create_command_error

from infra.engine.failure import failure
from spec.errors import MegatokError, NoCapacity, OverBudget, RecipeError, Unanswered


def told(out: str = "", err: str = "", code: int = 255) -> MegatokError:
    return failure(create_command_error(CommandResult(stdout=out, stderr=err, code=code)), "s")


def nodes(*messages: str) -> str:
    return "Diagnostics:\n" + "\n".join(f"  megatok:infra:NodeGroup (s-0):\n    error: {one}\n" for one in messages)


def test_the_class_that_the_plug_in_named() -> None:
    error = told(nodes("NoCapacity: no place for 1 x b300x8: near: full"))
    assert type(error) is NoCapacity
    assert str(error) == "no place for 1 x b300x8: near: full"


def test_the_worst_class_wins_with_all_its_reasons_once() -> None:
    error = told(nodes("Unanswered: lost", "OverBudget: s-1", "OverBudget: s-2", "OverBudget: s-1"))
    assert type(error) is OverBudget
    assert str(error) == "s-1; s-2"


def test_many_reasons_are_counted() -> None:
    error = told(nodes(*(f"Unanswered: {number}" for number in range(64))))
    assert type(error) is Unanswered
    assert str(error) == "0; 1; 2; and 61 more"


def test_a_program_that_refuses_its_config() -> None:
    error = told(
        "    error: RecipeError: budget_usd is 'x'\n"
        "    error: an unhandled error occurred: RecipeError: budget_usd is 'x'"
    )
    assert type(error) is RecipeError
    assert str(error) == "budget_usd is 'x'"


def test_inputs_that_the_plug_in_refuses() -> None:
    problem = "resource 's-0': property lifetime_s value {0} has a problem: Input should be greater than 0"
    error = told(f"    error: megatok:infra:NodeGroup {problem}\n    error: update failed\n")
    assert type(error) is RecipeError
    assert str(error) == "stack s: lifetime_s: Input should be greater than 0"


def test_missing_config() -> None:
    error = told(err="error: validating stack config: Stack 's' is missing configuration value 'megatok:budget_usd'")
    assert type(error) is RecipeError
    assert "megatok:budget_usd" in str(error)


def test_a_wrong_passphrase() -> None:
    error = told(err="error: getting stack configuration: get stack secrets manager: incorrect passphrase")
    assert type(error) is RecipeError
    assert "megatok down s" in str(error)


def test_a_full_disk() -> None:
    """Half a state has no passphrase that fits."""
    error = told(err="error: incorrect passphrase\nerror: writing state: write /x.json: no space left on device")
    assert type(error) is MegatokError
    assert "make room" in str(error)


def test_a_stack_in_use() -> None:
    err = (
        "error: the stack is currently locked by 1 lock(s). Either wait for the other process(es) to end or delete "
        "the lock file with `pulumi cancel`.\n  file:///x.json: created by me@host (pid 14248) at 2026-11-30T22:12:03Z"
    )
    assert "process 14248 of me@host" in str(told(err=err))


def test_an_engine_that_was_killed() -> None:
    error = told(" +  megatok:infra:NodeGroup s-0 creating (0s)", code=-9)
    assert type(error) is MegatokError
    assert "its engine was ended by SIGKILL" in str(error)
    assert "creating" not in str(error)


def test_a_plug_in_that_was_killed() -> None:
    error = told(nodes("error reading from server: EOF") + "    error: Detected that /x exited prematurely.\n")
    assert "its plug-in was killed" in str(error)


def test_what_the_plug_in_said_counts_more_than_its_end() -> None:
    assert type(told(nodes("NoCapacity: full") + "    error: Detected that /x exited prematurely.\n")) is NoCapacity


def test_a_list_of_reasons_is_told_and_not_only_counted() -> None:
    error = told(err="error: 2 errors occurred:\n    \t* could not load plugin\n    \t* connection refused\n")
    assert str(error) == "stack s: could not load plugin; connection refused"


@pytest.mark.parametrize("text", ["", "panic: something"])
def test_anything_else_is_passed_on(text: str) -> None:
    error = told(err=text)
    assert type(error) is MegatokError
    assert text in str(error)
