from __future__ import annotations

from pathlib import Path

import pytest

from campaign.document import document
from campaign.folder import RunFolder
from campaign.run import Run
from spec import load
from spec.errors import GateFailed, Interrupted, MegatokError, NoCapacity, NodeError, ResultInvalid, TeardownUnproven


@pytest.fixture
def run(home: Path) -> Run:
    folder = RunFolder("try")
    folder.make()
    return Run(folder, load.campaign(load.RECIPES / "campaigns" / "local.yaml"), simulated=True)


@pytest.mark.parametrize(
    ("failures", "code", "message"),
    [
        ([], 0, ""),
        ([MegatokError("a")], 1, "a"),
        ([NodeError("a"), ResultInvalid("b")], 6, "b"),
        ([ResultInvalid("a"), GateFailed("b"), GateFailed("c")], 5, "b"),
        ([NoCapacity("a"), Interrupted("b")], 8, "b"),
        ([Interrupted("a"), TeardownUnproven("b"), ResultInvalid("c")], 7, "b"),
    ],
)
def test_the_worst_failure_speaks_and_of_its_kind_the_first(
    run: Run, failures: list[MegatokError], code: int, message: str
) -> None:
    for failure in failures:
        run.fail(failure)
    found = document(run)
    assert (found.exit_code, found.message) == (code, message)
    assert found.receipt is None and found.cells == ()


def test_phases_are_timed_also_where_they_fail(run: Run) -> None:
    with pytest.raises(GateFailed), run.phase("gate"):
        raise GateFailed("no")
    (phase,) = document(run).phases
    assert phase.name == "gate" and phase.seconds >= phase.own_s >= 0


def test_the_clients_own_time_is_told_apart(run: Run) -> None:
    with run.phase("measure"):
        run.client_s += 1000
    (phase,) = run.phases
    assert phase.own_s == 0
