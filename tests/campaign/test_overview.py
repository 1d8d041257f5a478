"""What `status` says while a cloud is silent."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from campaign.overview import open_runs
from infra.clouds import CLOUDS
from money import budget
from money.ledger import Ledger
from spec import clock
from spec.errors import Denied
from spec.home import ledger_address
from spec.ledger import Resource
from tests.infra import memory_cloud
from tests.infra.memory_cloud import MemoryCloud


@pytest.mark.parametrize("error", [Denied("key expired"), KeyError("key expired")])
def test_run_in_a_silent_cloud_has_an_unknown_number_of_machines(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    silent = MemoryCloud()

    def inventory(run: str | None = None) -> None:
        raise error

    for name in tuple(CLOUDS):
        monkeypatch.delitem(CLOUDS, name)
    monkeypatch.setitem(CLOUDS, "memory", "tests.infra.memory_cloud")
    monkeypatch.setattr(memory_cloud, "CLOUD", silent)
    monkeypatch.setattr(silent, "inventory", inventory)
    ledger, until = Ledger(ledger_address()), clock.now() + timedelta(hours=1)
    for run, cloud in (("there", "memory"), ("elsewhere", "ssh")):
        epoch = ledger.open(run, Decimal(5))
        budget.reserve(ledger, run, epoch, f"{run}-0-a1", Decimal(1), until)
        unborn = Resource(cloud=cloud, region="near", kind="machine", id="", name=f"{run}-0")
        budget.intent(ledger, run, epoch, f"{run}-0-a1", "", (unborn,))
    there, elsewhere = open_runs()
    assert (there.machines, there.expires) == (None, f"{until:%Y-%m-%dT%H:%M:%SZ}")
    assert there.note.startswith("memory: ") and "key expired" in there.note
    assert elsewhere.machines == 0
