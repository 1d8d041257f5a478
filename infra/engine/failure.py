"""What the engine said when it failed, as an error of ours: what the plug-in named, or what Pulumi itself lacks."""

from __future__ import annotations

import re
import signal

from pulumi.automation.errors import CommandError, ConcurrentUpdateError

from spec import errors
from spec.errors import MegatokError, RecipeError

_NAMED = re.compile(r"\berror: (?:an unhandled error occurred: )?([A-Z]\w+): (.+)")
_CHECKED = re.compile(r"\berror: \S+ resource '.+?': property (\S+) value .* has a problem: (.+)")
_ANY = re.compile(r"\berror: (.+)")
_COUNTED = re.compile(r"\d+ errors? occurred:")
"""Said before a list, one line each, that begins with a star."""
_LISTED = re.compile(r"^\s*\* (.+)", re.MULTILINE)
_EMPTY = {"update failed", "preview failed", "Resource monitor has terminated, shutting down"}
"""What the engine says beside the reason."""
SHOWN = 3
"""So many different reasons are told; 64 nodes may fail alike."""


def failure(error: CommandError, stack: str) -> MegatokError:
    """The worst of the errors that the engine has shown, with every reason of its class."""
    text = str(error)
    if isinstance(error, ConcurrentUpdateError):
        found = re.search(r"created by (\S+) \(pid (\d+)\)", text)
        who = f"process {found.group(2)} of {found.group(1)}" if found else "another process"
        return RecipeError(f"stack {stack} is being changed by {who}; wait for it, or stop it")
    if "no space left on device" in text:
        return MegatokError(f"stack {stack}: the disk of its state is full; make room, then try again")
    if "incorrect passphrase" in text or "passphrase must be set" in text:
        return RecipeError(
            f"the passphrase is not the one that stack {stack} was made with; put the right one back "
            "(MEGATOK_HOME/passphrase or PULUMI_CONFIG_PASSPHRASE), or end the run without it: megatok down " + stack
        )
    return _named(text) or _died(text, stack) or _other(text, stack)


def _named(text: str) -> MegatokError | None:
    """From lines like `error: NoCapacity: no place for ...`."""
    told: dict[type[MegatokError], dict[str, None]] = {}
    for name, message in _NAMED.findall(text):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, MegatokError):
            told.setdefault(kind, {})[message.strip()] = None
    if not told:
        return None
    worst = errors.worst([kind.exit_code for kind in told])
    kind = next(kind for kind in told if kind.exit_code == worst)
    return kind(_joined(list(told[kind])))


def _died(text: str, stack: str) -> MegatokError | None:
    """The engine, ended by a signal (Python's code for it), or our plug-in."""
    if found := re.search(r"\A\s*code: -(\d+)\n", text):
        who = f"its engine was ended by {signal.Signals(int(found[1])).name}"
    elif "exited prematurely" in text:
        who = "its plug-in was killed, or failed"
    else:
        return None
    return MegatokError(f"stack {stack}: {who} in the middle of its work; try again, or end it: megatok down {stack}")


def _other(text: str, stack: str) -> MegatokError:
    wrong = list(dict.fromkeys(f"{name}: {why}" for name, why in _CHECKED.findall(text)))
    if wrong:
        return RecipeError(f"stack {stack}: {_joined(wrong)}")
    lines = (line.strip() for line in (*_ANY.findall(text), *_LISTED.findall(text)))
    said = [line for line in lines if line not in _EMPTY and not _COUNTED.search(line)]
    kind = RecipeError if any("missing configuration" in line for line in said) else MegatokError
    return kind(f"stack {stack}: {_joined(list(dict.fromkeys(said))) or text.strip()[-500:]}")


def _joined(reasons: list[str]) -> str:
    more = f"; and {len(reasons) - SHOWN} more" if len(reasons) > SHOWN else ""
    return "; ".join(reasons[:SHOWN]) + more
