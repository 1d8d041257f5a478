"""The whole chain: provision, serve, measure, destroy, prove, report."""

from __future__ import annotations

from decimal import Decimal

import click

from campaign import phases
from campaign.begin import again, begin, recipe_path
from campaign.chain import execute
from campaign.document import document
from campaign.run import Run
from cli.output import BUDGET, JSON, Unwritten, complain, out, progress
from plan.make import Plan
from plan.render import render
from report.table import table
from spec import load
from spec.base import shown
from spec.errors import RecipeError
from spec.record import RunDocument


@click.command("run", help=__doc__)
@click.argument("recipe", required=False)
@BUDGET
@click.option("--resume", metavar="RUN", help="Go on with a run: measure the cells that have no valid record.")
@click.option("--id", "run_id", metavar="ID", help="Name of the new run; otherwise one is made.")
@click.option("--only", metavar="CELL", multiple=True, help="Measure this cell alone; may be given again.")
@click.option("--keep-on-failure", "keep", type=click.FloatRange(0), default=0.0, metavar="MINUTES", help="Look first.")
@JSON
def COMMAND(
    recipe: str | None, budget: Decimal | None, resume: str | None, run_id: str | None, only: tuple[str, ...],
    keep: float, as_json: bool,
) -> int:  # fmt: skip
    run = _opened(recipe, budget, resume, run_id, only)
    return _tell(document(run) if _finished(run) else execute(run, only=only, keep_minutes=keep), as_json)


def _opened(
    recipe: str | None, budget: Decimal | None, resume: str | None, run_id: str | None, only: tuple[str, ...]
) -> Run:
    """The run to work on; refused before anything is rented where it cannot be right."""
    if recipe is None and resume is None:
        raise RecipeError("name a recipe (recipes/campaigns/ holds some), or a run with --resume RUN")
    if recipe is not None and resume is not None:
        raise RecipeError(f"run {resume} goes on with the recipe that it has; leave {recipe!r} out")
    if resume:
        run = again(resume, progress)
        plan = phases.planned(run.campaign)
        _check_cells(plan, only)
    else:
        campaign = load.campaign(recipe_path(recipe or ""), budget)
        plan = phases.planned(campaign)
        _check_cells(plan, only)
        progress(render(plan))
        run = begin(plan, name=run_id, tell=progress)
    progress(
        f"run {run.name}: worst case ${shown(plan.worst_usd)} of ${shown(run.campaign.budget_usd)}; {run.folder.path}"
    )
    return run


def _check_cells(plan: Plan, only: tuple[str, ...]) -> None:
    known = [str(cell) for cell in plan.campaign.cells()]
    for name in only:
        if name not in known:
            raise RecipeError(f"no cell {name!r} in this campaign; it has {', '.join(known)}")


def _finished(run: Run) -> bool:
    """All cells are there and all is given back: nothing is left to do."""
    proven = run.receipt is not None and run.receipt.proven
    done = proven and len(run.cells) == len(run.campaign.cells())
    if done:
        progress(f"run {run.name} is finished already; its report: {run.folder.path / 'report' / 'report.html'}")
    return done


def _tell(done: RunDocument, as_json: bool) -> int:
    try:
        out(done.model_dump_json(indent=1) if as_json else table(done))
    except Unwritten as error:
        if not done.exit_code:
            raise
        progress(str(error))
    progress(f"report: {done.folder}/report/report.html")
    if done.exit_code:
        complain(done.message)
    return done.exit_code
