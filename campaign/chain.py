"""The whole chain, and the one rule of it: whatever happens in between, the nodes are given back and it is proven."""

from __future__ import annotations

from collections.abc import Sequence

from campaign import phases
from campaign.cells import measure_all
from campaign.document import document
from campaign.run import Run
from campaign.teardown import interrupted, torn_down
from report.write import write
from spec.errors import Interrupted, MegatokError
from spec.receipt import Receipt
from spec.record import RunDocument


def execute(run: Run, *, only: Sequence[str] = (), keep_minutes: float = 0) -> RunDocument:
    """Run the campaign in `run`, tear down on every exit, write the report; the run's document.

    Only a mistake of ours comes out of here as an exception, and that after the teardown.
    """
    with run.folder.owned(), run.stop.listening(run.deadline):
        run.folder.forget_inventory()
        run.receipt = None
        try:
            _forth(run, only)
        except (MegatokError, OSError) as error:
            if not (isinstance(error, Interrupted) and run.stop.event.is_set()):
                run.fail(_ours(run, error))
            _linger(run, keep_minutes)
        finally:
            end(run)
        return document(run)


def _ours(run: Run, error: MegatokError | OSError) -> MegatokError:
    """Files that this machine refuses, above all on a full disk."""
    if isinstance(error, MegatokError):
        return error
    return MegatokError(f"{error}; make room or give rights there, then: megatok run --resume {run.name}")


def end(run: Run) -> Receipt:
    """Give the nodes back, prove it, and report what there is."""
    receipt = torn_down(run)
    if run.stop.event.is_set():
        run.fail(interrupted(run))
    _report(run)
    return receipt


def _forth(run: Run, only: Sequence[str]) -> None:
    inventory = phases.provision(run)
    plan = phases.planned(run.campaign, inventory)
    facts = phases.prepared(run, inventory, plan)
    phases.gated(run, inventory, facts)
    try:
        measure_all(run, inventory, facts, plan, only)
    finally:
        if not run.stop.event.is_set():
            phases.collected(run, inventory)
    run.stop.check()


def _linger(run: Run, minutes: float) -> None:
    """Leave the nodes up for a while, so that a person can look; a stop or the deadline ends it."""
    if minutes <= 0 or run.stop.event.is_set() or run.folder.inventory() is None:
        return
    run.say(f"kept for {minutes:g} minutes: megatok ssh {run.name}; end it with Ctrl-C or: megatok stop {run.name}")
    run.stop.event.wait(minutes * 60)


def _report(run: Run) -> None:
    """Write the report after the receipt, which it holds; then the document once more, since writing may fail."""
    try:
        with run.phase("report"):
            write(document(run), run.folder.path / "report")
    except MegatokError as error:
        run.fail(error)
    try:
        run.keep(document(run))
    except MegatokError as error:
        run.fail(error)
