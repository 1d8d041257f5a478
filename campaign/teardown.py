"""Giving nodes back: by the stack's state, then proven by tags, whatever else goes wrong on the way."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from campaign.folder import RECEIPT
from campaign.run import Run
from infra import stack
from infra.teardown import teardown
from spec.errors import GateFailed, Interrupted, MegatokError, TeardownUnproven
from spec.home import ledger_address
from spec.receipt import Receipt


def torn_down(run: Run) -> Receipt:
    """Destroy and prove; a state that is of no use ends nothing. What is unproven is a failure of the run."""
    run.stop.tearing_down = True
    with run.phase("destroy"):
        try:
            stack.destroy(run.name, on_line=run.note)
        except Exception as error:
            run.say(f"going on by ledger and tags, without the stack's state: {error}")
        try:
            receipt = teardown(run.name, ledger_address(), on_line=run.note, burned=_burned(run))
        except MegatokError as error:
            raise TeardownUnproven(
                f"{error}; what stands ends with its lifetime, or with: megatok down {run.name}"
            ) from error
    run.receipt = receipt
    if receipt.proven:
        _forget(run)
    else:
        unproven = "; ".join(receipt.unproven) or f"see the receipt; megatok down {run.name} goes on"
        run.fail(TeardownUnproven(f"not all is shown to be gone: {unproven}"))
    try:
        run.folder.write(RECEIPT, receipt.model_dump_json(indent=1))
    except MegatokError as error:
        run.fail(error)
    return receipt


def _burned(run: Run) -> str:
    """Why the nodes' cost bought nothing: they were not fit, and nothing was measured on them."""
    unfit = [str(error) for error in run.failures if isinstance(error, GateFailed)]
    return unfit[0].splitlines()[0][:200] if unfit and not run.cells else ""


@contextlib.contextmanager
def kept_unless_it_fails(run: Run) -> Iterator[None]:
    """What is rented in here stays up, but not where something fails or a stop comes: then the worst error goes on."""
    with run.folder.owned(), run.stop.listening(run.deadline):
        stood = run.folder.inventory() is not None
        try:
            yield
        except BaseException as error:
            unproven = None if stood or torn_down(run).proven else run.failures[-1]
            if unproven:
                raise unproven from error
            if run.stop.event.is_set():
                raise interrupted(run) from error
            raise


def interrupted(run: Run) -> Interrupted:
    return Interrupted(f"stopped by {run.stop.reason}; go on with: megatok run --resume {run.name}")


def _forget(run: Run) -> None:
    """Nothing stands: neither a stack nor an inventory may say so."""
    run.folder.forget_inventory()
    try:
        stack.forget(run.name)
    except Exception as error:
        run.say(f"stack: {error}")
