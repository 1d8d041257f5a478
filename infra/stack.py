"""A run's cluster as a Pulumi stack: the same program, state and passphrase as plain `pulumi up` in the checkout."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypedDict

import yaml
from pulumi.automation import ConfigValue, LocalWorkspace, OutputMap, OutputValue, Stack
from pulumi.automation.errors import CommandError, StackNotFoundError

from infra.engine import environment
from infra.engine.command import Command
from infra.engine.failure import failure
from infra.engine.folder import PROJECT, StateFolder
from infra.engine.settings import backend
from infra.settings import StackSettings
from spec import load
from spec.errors import Interrupted, MegatokError, RecipeError
from spec.group import NODE_GROUP
from spec.home import ROOT
from spec.inventory import Inventory

__all__ = ["StackSettings", "destroy", "extend", "forget", "inventory", "preview", "settings", "stacks", "up"]

Tell = Callable[[str], object]


class _Plain(TypedDict):
    color: str
    suppress_progress: bool
    suppress_outputs: bool
    show_secrets: bool
    """A stack of ours has none, and to decrypt none costs time all the same."""


_PLAIN: _Plain = {"color": "never", "suppress_progress": True, "suppress_outputs": True, "show_secrets": False}


def quiet(_line: str) -> None:
    """For callers that want no progress."""


def up(wanted: StackSettings, *, on_line: Tell = quiet, cancel: threading.Event | None = None) -> Inventory:
    """Stand the cluster up, or find it standing. Set `cancel` from any thread to stop it: Interrupted."""
    with _errors(wanted.run, cancel):
        stack = _Checkout(cancel).select(wanted.run)
        if _configured(stack, wanted):
            # Nodes may have ended since. What a killed engine left in the making our plug-in finds by its token.
            stack.refresh(clear_pending_creates=True, on_output=on_line, on_error=on_line, **_PLAIN)
        return _up(stack, on_line)


def preview(wanted: StackSettings) -> str:
    """What `up` would do, as Pulumi tells it."""
    with _errors(wanted.run):
        stack = _Checkout().select(wanted.run)
        _configured(stack, wanted)
        return stack.preview(color="never", suppress_progress=True).stdout


def inventory(run: str) -> Inventory | None:
    """The stack's inventory as it was last known; None where there is none."""
    with _errors(run), contextlib.suppress(StackNotFoundError):
        return _inventory(_Checkout().stack_outputs(run))
    return None


def extend(run: str, extend_s: float) -> Inventory:
    """Let the nodes of a run live `extend_s` longer than they would now; OverBudget where the budget is too small.

    Counted from what its state says was granted, not from what was ever asked for: an extension that was killed on its
    way is granted once when it is asked for again, and one that was refused is not granted by a later `up`.
    """
    if extend_s <= 0:
        raise RecipeError(f"extend by {extend_s} s: give a number of seconds above 0")
    told = settings(run)
    with _errors(run):
        stack = _Checkout().select(run)
        granted_s = _granted_s(stack)
        if granted_s is None:
            raise RecipeError(f"stack {run} knows of no node that could live longer; see: megatok status {run}")
        _configured(stack, dataclasses.replace(told, extend_s=granted_s + extend_s))
        try:
            return _up(stack)
        except CommandError:
            stack.set_config(f"{PROJECT}:extend_s", ConfigValue(str(granted_s)))
            raise


def _granted_s(stack: Stack) -> float | None:
    """What nodes have in their ends beyond their first lifetime; None where the state has no node."""
    try:
        resources = (stack.export_stack().deployment or {}).get("resources", ())
    except StackNotFoundError:
        return None
    outputs = [one["outputs"] for one in resources if one.get("type") == NODE_GROUP and one.get("outputs")]
    return max((float(one["extended_s"]) for one in outputs if one.get("nodes")), default=None)


def settings(run: str) -> StackSettings:
    """What the stack was asked for. Read without the engine and its passphrase: a teardown must not need them."""
    try:
        told = yaml.safe_load(_config_file(run).read_text())["config"]
        return StackSettings.of(run, lambda key: str(told[name]) if (name := f"{PROJECT}:{key}") in told else None)
    except FileNotFoundError:
        raise RecipeError(f"there is no stack {run!r}; see: megatok status") from None
    except (yaml.YAMLError, LookupError, TypeError) as error:
        raise RecipeError(f"{_config_file(run)} is not the config of a stack: {error}") from None


def destroy(run: str, *, on_line: Tell = quiet) -> None:
    """Delete all nodes of a run, and settle them. A stack that does not exist is destroyed."""
    with _errors(run), contextlib.suppress(StackNotFoundError):
        stack = _Checkout().select(run)
        stack.destroy(on_output=on_line, on_error=on_line, **_PLAIN)


def forget(run: str) -> None:
    """Drop what Pulumi remembers of a run: its state, lock and config. For after a teardown that did not need them."""
    folder = StateFolder.of(backend())
    if folder:
        folder.forget(run)
    else:
        with _errors(run), contextlib.suppress(StackNotFoundError):
            _Checkout().remove_stack(run, force=True)
    _config_file(run).unlink(missing_ok=True)


def stacks() -> tuple[str, ...]:
    """Every stack of this project, also those made by hand."""
    folder = StateFolder.of(backend())
    if folder:
        return folder.stacks()
    with _errors("list"):
        return tuple(sorted(found.name for found in _Checkout().list_stacks()))


class _Checkout(LocalWorkspace):
    """The project itself. Selects no stack: which one is selected is for the user's own `pulumi` commands."""

    def __init__(self, cancel: threading.Event | None = None) -> None:
        super().__init__(work_dir=str(ROOT), env_vars=environment(), pulumi_command=Command(cancel))

    def select(self, run: str) -> Stack:
        return Stack.select(run, self)

    def select_stack(self, stack_name: str) -> None:
        """Every command names its stack."""

    def stack_outputs(self, stack_name: str) -> OutputMap:
        told = json.loads(self._run_pulumi_cmd_sync(["stack", "output", "--json", "--stack", stack_name]).stdout)
        return {name: OutputValue(value, secret=False) for name, value in told.items()}

    def create_stack(self, stack_name: str) -> None:
        self._run_pulumi_cmd_sync(["stack", "init", "--no-select", stack_name])


def _configured(stack: Stack, wanted: StackSettings) -> bool:
    """Put these settings into its config; whether there was such a stack before."""
    cluster = load.cluster(wanted.recipe)
    whole = dataclasses.replace(wanted, nodes=wanted.nodes or cluster.nodes)
    config = {f"{PROJECT}:{key}": ConfigValue(value) for key, value in whole.config().items()}
    try:
        stack.set_all_config(config)
    except StackNotFoundError:
        stack.workspace.create_stack(wanted.run)
        stack.set_all_config(config)
        return False
    return True


def _up(stack: Stack, on_line: Tell = quiet) -> Inventory:
    found = _inventory(stack.up(on_output=on_line, on_error=on_line, **_PLAIN).outputs)
    if found is None:
        raise MegatokError(f"stack {stack.name} is up but has no inventory; see its program's output")
    return found


def _config_file(run: str) -> Path:
    return ROOT / f"Pulumi.{run}.yaml"


@contextlib.contextmanager
def _errors(run: str, cancel: threading.Event | None = None) -> Iterator[None]:
    """Errors of the engine as ours; and a lock that a dead process has left goes first."""
    folder = StateFolder.of(backend())
    if folder:
        folder.unlock(run)
    try:
        yield
    except StackNotFoundError:
        raise
    except CommandError as error:
        if cancel and cancel.is_set():
            raise Interrupted(f"stack {run} was stopped while it was being changed") from None
        raise failure(error, run) from None


def _inventory(outputs: OutputMap) -> Inventory | None:
    if "inventory" not in outputs:
        return None
    return Inventory.model_validate_json(json.dumps(outputs["inventory"].value))
