"""The run's document, made from what a run has gathered."""

from __future__ import annotations

from campaign.run import Run
from spec.errors import worst
from spec.record import RunDocument


def exit_code(run: Run) -> int:
    return worst([error.exit_code for error in run.failures])


def message(run: Run) -> str:
    """The failure that gave the exit code; empty where all went well."""
    code = exit_code(run)
    return next((str(error) for error in run.failures if error.exit_code == code), "")


def document(run: Run) -> RunDocument:
    """Cells in the order of the sweep."""
    order = [str(key) for key in run.campaign.cells()]
    return RunDocument(
        run=run.name,
        title=run.campaign.title,
        recipe=str(run.folder.recipe),
        simulated=run.simulated,
        stand_in=run.campaign.cluster.stand_in,
        exit_code=exit_code(run),
        message=message(run),
        phases=tuple(run.phases),
        cells=tuple(run.cells[name] for name in order if name in run.cells),
        asked=tuple(order),
        receipt=run.receipt,
        folder=str(run.folder.path),
        plan=run.folder.plan(),
    )
