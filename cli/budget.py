"""What day and month may cost, over all runs of an owner in the ledger (UTC). Sets it, where an amount is given."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import click

from campaign.overview import limits
from cli.output import JSON, USD, answer
from money.ledger import Ledger
from money.limits import Left, set_limits
from spec import clock
from spec.base import shown
from spec.home import ledger_address

LIFTED = "none"


class _Limit(click.ParamType[Decimal | str]):
    """An amount, or the word that lifts the limit."""

    name = "usd"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Decimal | str:
        return LIFTED if value == LIFTED else USD.convert(value, param, ctx)


LIMIT = _Limit()


@click.command("budget", help=__doc__)
@click.option("--day", type=LIMIT, metavar="USD", help="Of each UTC day; `none` lifts it.")
@click.option("--month", type=LIMIT, metavar="USD", help="Of each UTC month; `none` lifts it.")
@click.option("--owner", metavar="NAME", help="Else MEGATOK_OWNER, else the user's login name.")
@JSON
def COMMAND(day: Decimal | str | None, month: Decimal | str | None, owner: str | None, as_json: bool) -> int:
    who, now = limits(owner)
    if day or month:
        set_limits(Ledger(ledger_address()), who, _wanted(day, now.day_usd), _wanted(month, now.month_usd))
        who, now = limits(owner)
    text = f"owner  {who}\nledger {ledger_address()}\n{lines(now)}"
    return answer("budget", as_json, text, {"owner": who, "ledger": ledger_address(), **data(now)})


def _wanted(asked: Decimal | str | None, before: Decimal | None) -> Decimal | None:
    return before if asked is None else None if isinstance(asked, str) else asked


def data(now: Left) -> dict[str, Any]:
    return {"day": _told(now.day_usd, now.day_used_usd), "month": _told(now.month_usd, now.month_used_usd)}


def _told(limit: Decimal | None, used: Decimal) -> dict[str, str | None]:
    return {"limit_usd": None if limit is None else str(limit), "used_usd": str(used)}


def lines(now: Left) -> str:
    """Both in words. Used is what ran and what is set aside."""
    today = clock.now()
    return "\n".join(
        [
            f"day    {today:%Y-%m-%d} (UTC): {_line(now.day_usd, now.day_used_usd)}",
            f"month  {today:%Y-%m} (UTC): {_line(now.month_usd, now.month_used_usd)}",
        ]
    )


def _line(limit: Decimal | None, used: Decimal) -> str:
    if limit is None:
        return f"${shown(used)} spent or set aside, no limit"
    return f"${shown(used)} of ${shown(limit)} spent or set aside, ${shown(max(Decimal(0), limit - used))} left"
