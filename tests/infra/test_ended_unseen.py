"""A create of unknown outcome whose machine has ended by now, if there was one: what it may have cost counts."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from infra.audit.mend import LOST, mend
from infra.audit.report import audit
from infra.engine.wire import PartialCreate
from infra.provider.group import NodeGroups
from infra.teardown import teardown
from money import budget
from money.ledger import Ledger
from spec import clock
from spec.errors import Denied, Unanswered
from spec.home import ledger_address
from spec.ledger import Resource
from spec.receipt import Receipt
from tests.infra.group_calls import RUN, made, money, wanted
from tests.infra.memory_cloud import MemoryCloud

HOLD = Decimal("0.7")


def begun(life_left_s: float, index: int = 0) -> Ledger:
    """A create was called, by a process that died, so long before the end of the life that was reserved."""
    ledger = Ledger(ledger_address())
    epoch, token = ledger.open(RUN, Decimal(10)), f"{RUN}-{index}-a1"
    end = clock.now() + timedelta(seconds=life_left_s)
    budget.reserve(ledger, RUN, epoch, token, HOLD, end, end - timedelta(hours=1))
    unborn = Resource(cloud="memory", region="near", kind="machine", id="", name=f"{RUN}-{index}")
    budget.intent(ledger, RUN, epoch, token, "memory near", (unborn,))
    return ledger


def down() -> Receipt:
    return teardown(RUN, ledger_address())


@pytest.mark.parametrize(
    ("life_left_s", "itemizes", "usd"),
    [
        (-5, False, HOLD),
        (0.5, False, HOLD),  # making it may take less than the second that was reserved for it
        (60, False, Decimal(0)),
        (-5, True, Decimal(0)),
    ],
)
def test_it_is_paid_whole_unless_it_would_still_stand_or_a_bill_would_name_it(
    memory: MemoryCloud, life_left_s: float, itemizes: bool, usd: Decimal
) -> None:
    memory.capabilities = replace(memory.capabilities, itemizes=itemizes)
    begun(life_left_s)
    receipt = down()
    assert (receipt.usd, receipt.burned_usd, receipt.held_usd) == (usd, usd, Decimal(0))
    assert receipt.proven, receipt.unproven
    assert down().usd == usd
    assert (money().reserved_usd, money().settled_usd) == (Decimal(0), usd)


def test_what_is_seen_of_it_is_paid_by_its_own_times(memory: MemoryCloud, groups: NodeGroups) -> None:
    def dies(*_: object) -> None:
        raise SystemExit

    memory.after = dies
    with pytest.raises(SystemExit):
        made(groups)
    memory.ahead = timedelta(hours=2)
    assert down().usd == Decimal("0.033334")


def test_next_attempt_of_its_group_pays_for_it(memory: MemoryCloud, groups: NodeGroups) -> None:
    begun(-5)
    token, _ = made(groups)
    assert token == f"{RUN}-0-a2"
    assert money().settled_usd == HOLD


def test_plugin_that_deletes_it_pays_for_it(memory: MemoryCloud, groups: NodeGroups) -> None:
    def lose(*_: object) -> None:
        raise Unanswered("no answer")

    memory.after, memory.dumb = lose, Denied("no answer")
    with pytest.raises(PartialCreate) as error:
        made(groups)
    memory.dumb, memory.ahead = None, timedelta(hours=2)
    memory.machines.clear()
    groups.delete(error.value.id, error.value.state, wanted())
    assert money().settled_usd == 1


def test_audit_says_so(memory: MemoryCloud, groups: NodeGroups) -> None:
    made(groups)
    begun(-5, index=1)
    work, after = mend(audit(ledger_address(), lambda _: False), (), lambda _: False, lambda _: None)
    assert work.done == {f"{RUN}-1-a1": LOST}
    assert after.unproven == ()
    assert money().settled_usd == HOLD
