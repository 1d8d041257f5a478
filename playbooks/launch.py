"""Long processes on nodes: started detached, looked at, stopped. Two back ends: systemd where it runs, else plain.

Each has the folder `~/.megatok-run/RUN/NAME` on its node: its files, `env` (mode 600: holds secrets), `start`, `log`,
`pid`, `rc`. Under either back end `start` runs and keeps `pid` and `rc`; so only start and stop tell them apart.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from plan.launch import Launch
from playbooks.run import Done, Host, Step, require
from spec.errors import NodeError

ROOT = ".megatok-run"
CHECK_S = 30.0
"""For a program's own check of its config."""
START_S = 10.0
"""Until `start` has written its pid: two processes further, on a busy node."""

# It leads the session of all that it starts. TERM is for them; it stays, to write `rc`, and to remove what they left in
# a folder for temporary files of their own (AIPerf leaves two in each run).
_START = """cd {place} || exit
exec >>log 2>&1 </dev/null
trap : TERM INT HUP
read -r line </proc/$$/stat
set -- ${{line##*) }}
read -r boot </proc/sys/kernel/random/boot_id
echo "$$ ${{20}} $boot" >pid.part && mv pid.part pid
. ./env
TMPDIR=$(mktemp -d) && export TMPDIR
{argv}
rc=$?
rm -rf -- "$TMPDIR"
echo $rc >rc.part && mv rc.part rc
"""

# A session keeps its number as long as any process is left in it; then a stranger may get the number. Boot id and start
# time tell: `own NAME` sets pid, empty where it is no longer ours. `scan` sets the live processes of each session.
_LOOK = """cd ~/{folder} 2>/dev/null || exit 0
own() {{
  local began boot now line
  pid=
  read -r pid began boot 2>/dev/null <"$1/pid" || return 0
  read -r now </proc/sys/kernel/random/boot_id
  [ "$boot" = "$now" ] || pid=
  read -r line 2>/dev/null <"/proc/$pid/stat" || return 0
  set -- ${{line##*) }}
  [ "${{20}}" = "$began" ] || pid=
}}
scan() {{
  local file line
  members=()
  for file in /proc/[0-9]*/stat; do
    read -r line 2>/dev/null <"$file" || continue
    set -- ${{line##*) }}
    [ "$1" = Z ] || members[$4]+=" ${{line%% *}}"
  done
}}
declare -A members
names=({names})
"""

_STATUS = """scan
for name in "${names[@]}"; do
  own "$name"
  live=${pid:+${members[$pid]}}
  rc=
  [ -n "$live" ] || read -r rc 2>/dev/null <"$name/rc"
  read -r began _ 2>/dev/null <"$name/pid" && printf '%s\t%s\t%s\t%s\n' "$name" "${live:+1}" "$rc" "$began"
done
true
"""

# Every second, while figures are taken: reads no process but the leaders, 2 ms of processor time instead of 30.
_ENDED = """for name in "${names[@]}"; do
  own "$name"
  line=
  [ -z "$pid" ] || [ -e "$name/rc" ] || read -r line 2>/dev/null <"/proc/$pid/stat"
  [[ -n $line && $line != *") Z "* ]] || printf '%s\t' "$name"
done
"""

# Signals go to each process of the session, so that those in a process group of their own get them too.
_STOP = """left() {
  scan
  targets=
  for name in "${names[@]}"; do own "$name"; targets+=${pid:+${members[$pid]}}; done
  [ -n "$targets" ]
}
ctl() { if [ "$(id -u)" = 0 ]; then systemctl "$@"; else XDG_RUNTIME_DIR=/run/user/$(id -u) systemctl --user "$@"; fi; }
for name in "${names[@]}"; do
  [ ! -e "$name/unit" ] || ctl stop --no-block "$(<"$name/unit")"
done
left && kill -TERM $targets 2>/dev/null
for ((i = 0; i < GRACE * 10; i++)); do left || break; sleep 0.1; done
for name in "${names[@]}"; do
  [ ! -e "$name/unit" ] || ctl kill -s KILL "$(<"$name/unit")" 2>/dev/null
done
for ((i = 0; i < 50; i++)); do left || break; kill -KILL $targets 2>/dev/null; sleep 0.1; done
for name in "${names[@]}"; do [ ! -e "$name/pid" ] || [ -e "$name/rc" ] || echo 137 >"$name/rc"; done
[ -z "$targets" ] || { echo "processes$targets are still there" >&2; exit 1; }
"""

_PLAIN = "setsid bash {start} >/dev/null 2>&1 &"

# Its stop also reaches what went into a session of its own.
_SYSTEMD = """echo {unit} >unit
if [ "$(id -u)" = 0 ]; then set --; else set -- --user; export XDG_RUNTIME_DIR=/run/user/$(id -u); fi
systemd-run "$@" --quiet --collect --unit={unit} bash {start} || exit"""


@dataclass(frozen=True)
class Status:
    """`rc` is None while it lives, or where nothing was left to write it. `pid` leads its session; 0 before a start."""

    alive: bool
    rc: int | None
    pid: int


def folder(run: str, name: str) -> str:
    """Its folder on the node, relative to the home of the node's user."""
    return f"{ROOT}/{run}/{name}"


def start(
    host: Host,
    run: str,
    launch: Launch,
    fills: Mapping[str, str],
    secrets: Mapping[str, str],
    *,
    systemd: bool = False,
    replace: bool = False,
) -> bool:
    """Start `launch` after its own check; False where it runs already, the same.

    One that runs with other settings is refused, or stopped first with `replace`. `fills` are the values of
    `{env}`, `{cache}` and `{model}`, as far as they occur; `{dir}` is known here.
    """
    name = launch.name
    home, content, now = _before(host, run, name)
    place = f"{home}/{folder(run, name)}"
    texts = _texts(launch, place, {**fills, "dir": place}, secrets)
    wanted = hashlib.sha256(repr(texts).encode()).hexdigest()
    if now.alive and content == wanted:
        return False
    if now.alive and not replace:
        raise NodeError(f"{name} runs already, with other settings (pid {now.pid}); stop it first")
    if now.alive:
        stop(host, run, [name])
    steps = [Step(f"files of {name}", _write(place, texts), CHECK_S)]
    if launch.check:
        check = shlex.join(_fill(part, {**fills, "dir": place}) for part in launch.check)
        steps.append(Step(f"check of {name}'s config", f"cd {shlex.quote(place)} && . ./env && {check}", CHECK_S))
    steps.append(Step(f"start of {name}", _begin(place, f"megatok-{run}-{name}", wanted, systemd), START_S))
    _require_all(host.steps(steps), steps)
    return True


def status(host: Host, run: str, names: Sequence[str]) -> dict[str, Status]:
    """How each of `names` is, in one round trip; those never started are dead, without an exit code."""
    return _statuses(host.run(_look(run, names) + _STATUS).out, names)


def ended(host: Host, run: str, names: Sequence[str]) -> tuple[str, ...]:
    """Those of `names` that have ended or were never started, whatever they left behind. Cheap enough to ask often."""
    listed = " ".join(map(shlex.quote, names))
    never = f"[ -d ~/{ROOT}/{run} ] || {{ echo {listed}; exit; }}\n"
    return tuple(host.run(never + _look(run, names) + _ENDED).out.split())


def stop(host: Host, run: str, names: Sequence[str], *, grace_s: float = 5.0) -> None:
    """End `names` with all that they started: TERM, then KILL what is left after `grace_s`. Gone already is success."""
    host.run(_look(run, names) + f"GRACE={ceil(grace_s)}\n" + _STOP, limit_s=grace_s + CHECK_S)


def tail(host: Host, run: str, name: str, *, lines: int = 40) -> str:
    """The end of its log."""
    return host.run(f"tail -n {lines} ~/{folder(run, name)}/log").out


def _before(host: Host, run: str, name: str) -> tuple[str, str, Status]:
    """Home, what was started last (a hash), and how that is."""
    steps = [
        Step("look", f'echo "$HOME"; cat ~/{folder(run, name)}/content 2>/dev/null; true'),
        Step("status", _look(run, [name]) + _STATUS),
    ]
    found, now = _require_all(host.steps(steps), steps)
    home, _, content = found.out.strip().partition("\n")
    return home, content, _statuses(now.out, [name])[name]


def _statuses(text: str, names: Sequence[str]) -> dict[str, Status]:
    found = {name: Status(False, None, 0) for name in names}
    for line in text.splitlines():
        name, alive, rc, pid = line.split("\t")
        found[name] = Status(bool(alive), int(rc) if rc else None, int(pid))
    return found


def _look(run: str, names: Sequence[str]) -> str:
    return _LOOK.format(folder=f"{ROOT}/{run}", names=" ".join(map(shlex.quote, names)))


def _fill(text: str, fills: Mapping[str, str]) -> str:
    return re.sub(r"\{(env|dir|cache|model)\}", lambda found: fills[found[1]], text)


def _texts(launch: Launch, place: str, fills: Mapping[str, str], secrets: Mapping[str, str]) -> dict[str, str]:
    """All that is written on the node, by file name."""
    values = {name: _fill(value, fills) for name, value in launch.env}
    values |= {name: secrets[name] for name in launch.secrets}
    argv = shlex.join(_fill(part, fills) for part in launch.argv)
    return {
        **{name: _fill(text, fills) for name, text in launch.files},
        "env": "".join(f"export {name}={shlex.quote(value)}\n" for name, value in values.items()),
        "start": _START.format(place=shlex.quote(place), argv=argv),
    }


def _write(place: str, texts: Mapping[str, str]) -> str:
    """Nobody else may look into the folder. `env` begins with what a system's unit would lack."""
    lines = [
        "umask 077",
        f"mkdir -p {shlex.quote(place)} && cd {shlex.quote(place)} || exit",
        "rm -f pid rc content unit",
        "[ ! -e log ] || mv -f log log.1",
        """printf 'export HOME=%q PATH=%q\\n' "$HOME" "$PATH" >env""",
    ]
    for name, text in texts.items():
        if "/" in name:
            lines.append(f"mkdir -p {shlex.quote(name.rpartition('/')[0])}")
        lines.append(f"printf %s {shlex.quote(text)} {'>>' if name == 'env' else '>'}{shlex.quote(name)} || exit")
    return "\n".join(lines)


def _begin(place: str, unit: str, content: str, systemd: bool) -> str:
    """Start it and wait until its pid is known. `content` comes last: without it, the next start distrusts it."""
    starter = (_SYSTEMD if systemd else _PLAIN).format(unit=unit, start=shlex.quote(f"{place}/start"))
    return (
        f"cd {shlex.quote(place)} || exit\n{starter}\n"
        f"until [ -e pid ]; do sleep 0.02; done\n(umask 077; echo {content} >content)"
    )


def _require_all(done: Sequence[Done], steps: Sequence[Step]) -> Sequence[Done]:
    for each, step in zip(done, steps):
        require(each, step.limit_s)
    return done
