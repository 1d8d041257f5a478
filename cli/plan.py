"""What a recipe would do and cost at most. Rents nothing and needs no account."""

from __future__ import annotations

import json
from decimal import Decimal

import click

from campaign import phases
from campaign.begin import recipe_path
from cli.output import BUDGET, JSON, answer, complain
from plan.render import render
from spec import load
from spec.errors import OverBudget


@click.command("plan", help=__doc__)
@click.argument("recipe")
@BUDGET
@JSON
def COMMAND(recipe: str, budget: Decimal | None, as_json: bool) -> int:
    campaign = load.campaign(recipe_path(recipe), budget)
    plan = phases.planned(campaign)
    text = render(plan)
    data = {
        "text": text,
        "worst_usd": str(plan.worst_usd),
        "budget_usd": str(campaign.budget_usd),
        "cells": [str(cell) for cell in campaign.cells()],
        "campaign": json.loads(campaign.model_dump_json()),
    }
    try:
        phases.affordable(plan)
    except OverBudget as error:
        answer("plan", as_json, text, data, error.exit_code, str(error))
        complain(str(error))
        return error.exit_code
    return answer("plan", as_json, text, data)
