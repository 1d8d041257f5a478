"""End a run from another terminal, or one whose runner is dead."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable

from campaign.begin import again
from campaign.folder import RECEIPT, RunFolder, folders, known
from campaign.run import Run, Say
from campaign.steps import tear_down
from infra import stack
from infra.audit.look import answered
from infra.clouds import CLOUDS, cloud
from infra.teardown import configured, teardown
from money.ledger import Ledger
from spec.errors import CloudError, MegatokError, RecipeError
from spec.home import ledger_address
from spec.receipt import Receipt

STOP_LIMIT_S = 300.0
"""A runner that was asked to stop has this long for its own teardown."""


def stop(name: str, say: Say) -> Receipt | None:
    """Ask the live runner of this run to end, and wait for its receipt; None where it left none."""
    folder = known(name)
    owner = folder.owner()
    if owner is None:
        say(f"nobody works on run {name}; tearing down what is left of it")
        return down(name, say)
    say(f"asking process {owner} to stop and tear down")
    os.kill(owner, signal.SIGTERM)
    if not _released(folder):
        raise MegatokError(f"process {owner} still works on run {name} after {STOP_LIMIT_S:.0f} s; wait, or end it")
    document = folder.document()
    return document.receipt if document else None


def down(name: str, say: Say) -> Receipt:
    """Tear down, after the runner where one is alive."""
    folder = RunFolder(name)
    owner = folder.owner()
    if owner is not None:
        receipt = stop(name, say)
        if receipt is not None and receipt.proven:
            return receipt
    run = _opened(name, say)
    if run is not None:
        return tear_down(run)
    if not (_in_ledger(name) or name in stack.stacks() or _is_tagged(name)):
        raise RecipeError(
            f"no run {name!r}: no folder, stack, ledger entry or cloud's tag has that name; see: megatok ls"
        )
    return _by_tags(name, say)


def _in_ledger(name: str) -> bool:
    """Also where it cannot be read, since then nobody can say no."""
    try:
        return name in Ledger(ledger_address()).runs()
    except MegatokError:
        return True


def _is_tagged(name: str) -> bool:
    """Whether some cloud has anything of that run; also where one does not answer, since then nobody can say no."""
    try:
        return answered(lambda: any(cloud(each).inventory(name) for each in filter(configured, CLOUDS)))
    except CloudError:
        return True


def _opened(name: str, say: Say) -> Run | None:
    """The run, where its folder still holds a recipe that can be read."""
    if not RunFolder(name).recipe.exists():
        return None
    try:
        return again(name, say)
    except MegatokError as error:
        say(f"{error}; going on without the recipe")
        return None


def _by_tags(name: str, say: Say) -> Receipt:
    """A stack made by hand, or a run whose folder is lost."""
    address = ledger_address()
    if name in stack.stacks():
        try:
            address = stack.settings(name).ledger
            stack.destroy(name, on_line=lambda _line: None)
        except MegatokError as error:
            say(f"going on by ledger and tags, without the stack's state: {error}")
    receipt = teardown(name, address, on_line=say)
    if receipt.proven:
        stack.forget(name)
    try:
        RunFolder(name).write(RECEIPT, receipt.model_dump_json(indent=1))
    except MegatokError as error:
        say(str(error))
    return receipt


def forget(names: Iterable[str], say: Say) -> None:
    """Drop what stacks and run folders say of runs that were ended without them: nothing of it stands any more."""
    known = set(names) & {*stack.stacks(), *(folder.run for folder in folders())}
    latest = _latest_receipts(say) if known else {}
    for name in known:
        folder = RunFolder(name)
        try:
            folder.forget_inventory()
            stack.forget(name)
            if name in latest:
                folder.write(RECEIPT, latest[name].model_dump_json(indent=1))
        except (MegatokError, OSError) as error:
            say(f"stack {name}: {error}")


def _latest_receipts(say: Say) -> dict[str, Receipt]:
    """Of each run, as kept beside the ledger."""
    try:
        kept = Ledger(ledger_address()).receipts().values()
    except MegatokError as error:
        say(str(error))
        return {}
    return {one.run: one for one in sorted(kept, key=lambda one: one.written_at)}


def _released(folder: RunFolder) -> bool:
    deadline = time.monotonic() + STOP_LIMIT_S
    while time.monotonic() < deadline:
        if folder.owner() is None:
            return True
        time.sleep(0.2)
    return False
