"""All that is billed with our tag, in every cloud, against the ledger. Needs no state and no run folder.

Without --fix it only looks. With it, what is past its end, closed, or named here is deleted with proof; what the ledger
does not know is adopted into it; runs that hold nothing and that nobody works on are settled and closed.

Exit codes: 0 all stands by right; 7 something is unproven; 3 what stands passes a budget; 2 a name nothing knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import click

from campaign.folder import RunFolder
from campaign.gone import forget
from campaign.heads import verified
from cli.output import JSON, answer, columns, progress
from infra.audit.look import Silence
from infra.audit.mend import CLOSED, Mended, beat, mend
from infra.audit.report import Finding, Hollow, Report, audit
from money.periods import FOREVER
from spec.errors import MegatokError, RecipeError, worst
from spec.home import ledger_address
from spec.ledger import Event, Scope


@click.command("audit", help=__doc__)
@click.argument("names", nargs=-1, metavar="[RUN_OR_ID]...")
@click.option("--fix", is_flag=True, help="Put right what may be, and write the heartbeat of a reaper.")
@click.option("--every", type=click.FloatRange(0, min_open=True), default=10.0, show_default=True, metavar="MINUTES",
              help="How often this is run with --fix: its heartbeat counts for three times that.")  # fmt: skip
@click.option("--verify", is_flag=True, help="Only: was the ledger's past changed? Exit 1 where it was.")
@JSON
def COMMAND(names: tuple[str, ...], fix: bool, every: float, verify: bool, as_json: bool) -> int:
    if verify and (fix or names):
        raise RecipeError("--verify looks at the ledger alone; give no --fix and no names with it")
    return _verify(as_json) if verify else _audit(names, fix, every, as_json)


def _verify(as_json: bool) -> int:
    found = verified(ledger_address())
    head = f"ledger {ledger_address()}: {found.lines} lines"
    text = "\n".join([head, *found.shows, *(f"CHANGED: {fault}" for fault in found.faults)])
    data = {"ledger": ledger_address(), "lines": found.lines, "shows": list(found.shows), "faults": list(found.faults)}
    return answer("audit", as_json, text, data, 1 if found.faults else 0, "; ".join(found.faults))


def _audit(names: tuple[str, ...], fix: bool, every: float, as_json: bool) -> int:
    seen = audit(ledger_address(), _owned)
    named = seen.about(names)
    before = seen if fix else named
    work, after = mend(before, names, _owned, progress) if fix else (Mended(), before)
    forget([run for run in work.runs if work.done.get(run) == CLOSED], progress)
    scopes = _beat(after, every, work) if fix and not after.unread else ()
    doubts = list(dict.fromkeys((*work.doubts, *after.unproven)))
    code = worst([7] * bool(doubts) + [3] * bool(after.over))
    over = after.over_budget
    text = "\n".join([_text(before, work, doubts if fix else []), *(f"OVER BUDGET: {one}" for one in over)])
    data = _data(before, work, doubts) | {
        "over_budget": list(over),
        "watched": [one.model_dump(mode="json") for one in scopes],
    }
    return answer("audit", as_json, text, data, code, "; ".join([*doubts, *over]))


def _beat(report: Report, every: float, work: Mended) -> tuple[Scope, ...]:
    """A watch that is not on record does not count."""
    try:
        return beat(report, every)
    except MegatokError as error:
        work.doubts.append(f"no heartbeat: {error}")
        return ()


def _owned(run: str) -> bool:
    return RunFolder(run).owner() is not None


def _text(report: Report, work: Mended, doubts: Sequence[str]) -> str:
    parts = [
        _things(report.findings, work),
        _intents(report.intents, work),
        _runs(report.hollow, work),
        _ended(report, work),
    ]
    silent = any(one.configured for one in report.silences)
    lines = [part for part in parts if part] or ["nothing is seen" if silent else "nothing stands"]
    lines += [_silence(one) for one in report.silences]
    lines += [f"run {run}: may stand there, and bill {_last(until)}" for run, until in report.dark.items()]
    lines += [f"UNPROVEN: {doubt}" for doubt in doubts]
    lines += [f"LEDGER NOT READ: {report.unread}"] if report.unread else []
    amiss = sum(one.is_amiss for one in report.findings) + len(report.intents)
    if amiss and not (work.done or doubts):
        lines.append(f"{amiss} of these not by right; put right what may be with: megatok audit --fix")
    return "\n".join(lines)


def _things(findings: Sequence[Finding], work: Mended) -> str:
    heads = ("id", "kind", "name", "run", "where", "age", "expires", "$/h", "verdict")
    rows = [
        (
            one.item.id,
            one.item.resource.kind,
            one.item.name or "-",
            one.item.run,
            f"{one.item.resource.cloud}/{one.item.resource.region}",
            _span(one.seen_at - one.item.created_at),
            _end(one.item.expires_at, one.seen_at),
            f"{one.item.usd_per_hour}",
            one.verdict + (f": {one.why}" if one.why else "") + _done(work, one.item.id),
        )
        for one in findings
    ]
    return columns(rows, heads) if rows else ""


def _intents(intents: Sequence[Event], work: Mended) -> str:
    return "\n".join(
        f"create {event.token} of {event.at:%H:%M:%SZ}: its outcome is not known, and who called it (process "
        f"{event.pid} on {event.host}) is dead{_done(work, event.token)}"
        for event in intents
    )


def _runs(hollow: Sequence[Hollow], work: Mended) -> str:
    return "\n".join(
        f"run {one.run}: nothing stands; {'open' if one.is_open else 'closed'}, ${one.held_usd} still held; "
        f"{_workers(one, work)}{_done(work, one.run)}"
        for one in hollow
    )


def _workers(one: Hollow, work: Mended) -> str:
    if one.busy:
        return "somebody may be at work on it"
    return "nobody works on it" + ("" if one.run in work.done else ", settle it with: megatok audit --fix")


def _ended(report: Report, work: Mended) -> str:
    """Runs that became empty by what was done."""
    before = {one.run for one in report.hollow}
    return "\n".join(f"run {run}: {work.done[run]}" for run in work.runs if run not in before)


def _silence(one: Silence) -> str:
    return f"cloud {one.cloud}: {'NO ANSWER' if one.configured else 'not configured here'}: {one.why}"


def _last(until: datetime) -> str:
    return "without a known end" if until == FOREVER else f"until {until:%Y-%m-%dT%H:%M:%SZ} by the ledger"


def _done(work: Mended, name: str) -> str:
    return f" -> {work.done[name]}" if name in work.done else ""


def _end(at: datetime | None, now: datetime) -> str:
    if at is None:
        return "never"
    return f"in {_span(at - now)}" if at > now else f"{_span(now - at)} ago"


def _span(time: timedelta) -> str:
    seconds = max(0, int(time.total_seconds()))
    days, hours, minutes = seconds // 86400, seconds // 3600 % 24, seconds // 60 % 60
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds % 60:02d} s"


def _data(report: Report, work: Mended, doubts: Sequence[str]) -> dict[str, object]:
    return {
        "ledger": report.address,
        "things": [_thing(one, work) for one in report.findings],
        "creates": [
            {"token": event.token, "run": event.run, "at": event.at.isoformat(), "done": work.done.get(event.token, "")}
            for event in report.intents
        ],
        "runs": [
            {"run": one.run, "is_open": one.is_open, "held_usd": str(one.held_usd), "busy": one.busy,
             "done": work.done.get(one.run, "")}
            for one in report.hollow
        ],
        "clouds": [
            *(one.scope.model_dump(mode="json") | {"answered": True} for one in report.sights),
            *({"cloud": one.cloud, "answered": False, "configured": one.configured, "why": one.why}
              for one in report.silences),
        ],
        "dark": {run: None if until == FOREVER else until.isoformat() for run, until in report.dark.items()},
        "unproven": list(doubts),
    }  # fmt: skip


def _thing(one: Finding, work: Mended) -> dict[str, object]:
    item = one.item
    return {
        **item.resource.model_dump(),
        "run": item.run,
        "token": item.token,
        "ledger": item.ledger,
        "state": item.state,
        "usd_per_hour": str(item.usd_per_hour),
        "created_at": item.created_at.isoformat(),
        "expires_at": item.expires_at.isoformat() if item.expires_at else None,
        "verdict": one.verdict,
        "why": one.why,
        "done": work.done.get(item.id, ""),
    }
