"""Several steps as one shell script, and what each did, read back from the two streams that it wrote."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

GRACE_S = 5
"""From TERM to KILL."""
STOPPED = 124
"""Exit code of a step that did not end within its limit, as `timeout` has it."""

# Runs a script from its input. Where sshd's own shell is a bash that leads its session, as nearly always, that shell
# does it, with half the processes; else one below `timeout`, which makes a process group of its own. Shells without
# `[[` take it for a command that fails.
COMMAND = (
    '[ "$BASH_VERSION" ] && read -r megatok </proc/$$/stat && [[ $megatok == *") "?" "*" $$ $$ "* ]] '
    '&& IFS= read -rd "" megatok && eval "$megatok" || exec timeout -k {grace_s} {limit_s} bash -s'
)

# The watcher holds the script's own input, of which nothing follows: it ends when the caller cuts the line, when its
# sshd does, or with time. It then stops the whole process group: as it is a member, the number is no other's. Bash
# reads a script from a pipe only as far as it has parsed: one compound command, so that all of it is read first.
_TEMPLATE = """{{ exec 3<&0 </dev/null
{exports}
( trap '' TERM; exec >/dev/null 2>&1; read -r -t {limit_s} -u 3; kill -TERM 0; sleep {grace_s}; kill -KILL 0 ) &
_megatok_watcher=$!
exec 3<&-
cd
_megatok_step() {{
  local from=${{EPOCHREALTIME/[.,]/}} rc
  ( eval "$1" )
  rc=$?
  printf '{mark}%d %d\\n' $rc $(( ${{EPOCHREALTIME/[.,]/}} - from ))
  printf '{mark}' >&2
  return $rc
}}
{steps}
_megatok_rc=$?
kill -KILL $_megatok_watcher
exit $_megatok_rc
}}
"""


@dataclass(frozen=True)
class Step:
    """Bash, begun in $HOME, in a shell of its own: what it sets or where it goes, the next step does not see."""

    name: str
    script: str
    limit_s: float = 60.0


@dataclass(frozen=True)
class Done:
    """What a step did. `seconds` by the node's clock; `rc` is 124 where the step ran out of time and was stopped."""

    name: str
    rc: int
    out: str
    err: str
    seconds: float


def new_mark() -> str:
    """A word that no step's output holds."""
    return f":{secrets.token_hex(12)}:"


def command(steps: Sequence[Step]) -> str:
    """What sshd is asked to run; it reads what `render` made."""
    return COMMAND.format(limit_s=_most_s(steps), grace_s=GRACE_S)


def render(steps: Sequence[Step], env: Mapping[str, str], mark: str) -> bytes:
    """One script that runs `steps` up to the first that fails."""
    exports = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in env.items())
    calls = " &&\n".join(f"_megatok_step {shlex.quote(step.script)}" for step in steps)
    text = _TEMPLATE.format(exports=exports, mark=mark, steps=calls, limit_s=_most_s(steps), grace_s=GRACE_S)
    return text.encode() + b"\0"


def _most_s(steps: Sequence[Step]) -> int:
    """The node's own limit: the last resort, for when nobody is left to close the input."""
    return ceil(sum(step.limit_s for step in steps)) + GRACE_S


def read(steps: Sequence[Step], mark: str, out: bytes, err: bytes, rc: int, seconds: float) -> tuple[Done, ...]:
    """What each step did. `rc` and `seconds` (of all together) tell of one that was broken off, so without a mark."""
    outs, errs = (stream.decode(errors="replace").split(mark) for stream in (out, err))
    errs += [""] * (len(outs) - len(errs))
    done = []
    text = outs[0]
    for step, rest, complaint in zip(steps, outs[1:], errs):
        figures, _, following = rest.partition("\n")
        code, microseconds = figures.split()
        done.append(Done(step.name, int(code), text, complaint, int(microseconds) / 1e6))
        text = following
    if len(done) < len(steps) and (not done or done[-1].rc == 0):
        done.append(
            Done(
                steps[len(done)].name,
                rc or STOPPED,
                text,
                errs[len(outs) - 1],
                seconds - sum(each.seconds for each in done),
            )
        )
    return tuple(done)
