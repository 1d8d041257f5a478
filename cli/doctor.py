"""Is this machine fit? Exit 10 where something that a local run needs is missing."""

from __future__ import annotations

import click

from campaign.doctor import examine
from cli.output import JSON, answer, check_data, checks_table


@click.command("doctor", help=__doc__)
@JSON
def COMMAND(as_json: bool) -> int:
    checks = examine()
    bad = [check for check in checks if check.outcome == "fail"]
    message = "; ".join(check.detail for check in bad)
    return answer("doctor", as_json, checks_table(checks), check_data(checks), 10 if bad else 0, message)
