"""The mark that a claimed host bears, `~/.megatok-run/claim`, and the scripts that set it and take it away.

One run holds a host at a time. A hard link is made whole or not at all, so of two runs one gets the host.
"""

from __future__ import annotations

import getpass
import shlex
import socket
from datetime import datetime

from infra.clouds.ssh import link
from infra.clouds.ssh.claims import Claim
from spec import clock
from spec.base import Spec
from spec.errors import CloudError, NoCapacity

GRACE_S = 5
"""Between TERM and KILL."""

# Prints the mark that stands afterwards: ours, or that of who was first.
_SET = """umask 077
mkdir -p ~/.megatok-run && cd ~/.megatok-run || exit
printf '%s\\n' {mark} >claim.$$ || exit
ln claim.$$ claim 2>/dev/null
rm -f claim.$$
cat claim
"""

_TOUCH = """umask 077
cd ~/.megatok-run || exit
grep -qF {token} claim || {{ echo "the host is not held any more"; exit 1; }}
printf '%s\\n' {mark} >claim.$$ && mv claim.$$ claim
"""

# What playbooks start has the folder `.megatok-run/RUN/NAME`: in `pid` the leader of its session, with start time and
# boot id (numbers are used again), in `unit` its systemd unit. Ended are those sessions, and all processes below them.
_CLEAR = """cd ~/.megatok-run 2>/dev/null || exit 0
[ ! -e claim ] || grep -qF {token} claim || {{ echo other; exit 0; }}
user=--user
if [ "$(id -u)" = 0 ]; then user=; else export XDG_RUNTIME_DIR=/run/user/$(id -u); fi
each_unit() {{ for file in {run}/*/unit; do [ ! -e "$file" ] || systemctl $user "$@" "$(<"$file")"; done; }}
declare -A sessions ours
read -r now </proc/sys/kernel/random/boot_id
for file in {run}/*/pid; do
  read -r pid began boot 2>/dev/null <"$file" || continue
  [ "$boot" = "$now" ] || continue
  if read -r line 2>/dev/null <"/proc/$pid/stat"; then set -- ${{line##*) }}; [ "${{20}}" = "$began" ] || continue; fi
  sessions[$pid]=1
done
# Sets `left` to the live processes of our sessions and all below them. What was seen there once (by number and start
# time) stays ours, also when its parent has gone.
look() {{
  local file line more=1 pid above
  declare -A parent began
  left=
  for file in /proc/[0-9]*/stat; do
    read -r line 2>/dev/null <"$file" || continue
    pid=${{line%% *}}
    set -- ${{line##*) }}
    [ "$1" = Z ] && continue
    parent[$pid]=$2 began[$pid]=$pid:${{20}}
    [ -n "${{sessions[$4]}}" ] && ours[$pid:${{20}}]=1
  done
  while [ -n "$more" ]; do
    more=
    for pid in "${{!parent[@]}}"; do
      [ -n "${{ours[${{began[$pid]}}]}}" ] && continue
      above=${{began[${{parent[$pid]}}]:-none}}
      [ -n "${{ours[$above]}}" ] && ours[${{began[$pid]}}]=1 more=1
    done
  done
  for pid in "${{!parent[@]}}"; do [ -z "${{ours[${{began[$pid]}}]}}" ] || left+=" $pid"; done
}}
each_unit stop --no-block
look
[ -z "$left" ] || kill -TERM $left 2>/dev/null
for ((i = 0; i < {grace_s} * 10; i++)); do look; [ -n "$left" ] || break; sleep 0.1; done
each_unit kill -s KILL 2>/dev/null
for ((i = 0; i < 50; i++)); do look; [ -n "$left" ] || break; kill -KILL $left 2>/dev/null; sleep 0.1; done
[ -z "$left" ] || {{ echo "processes$left are still there"; exit 1; }}
rm -rf -- {run} || exit
grep -qsF {token} claim && rm -f claim
cd ~ && rmdir .megatok-run 2>/dev/null
echo gone
"""


class Mark(Spec):
    """What is written on the host."""

    version: int = 1
    run: str
    token: str
    name: str
    by: str
    created_at: datetime
    expires_at: datetime


def mark(claim: Claim) -> Mark:
    return Mark(
        run=claim.run,
        token=claim.token,
        name=claim.name,
        by=f"{getpass.getuser()}@{socket.gethostname()}",
        created_at=claim.created_at,
        expires_at=claim.expires_at,
    )


def put(claim: Claim) -> None:
    """Mark the host as the claim's; NoCapacity where a live run holds it. What an expired run left is ended first."""
    standing = _set(claim)
    if standing.token != claim.token and standing.expires_at < clock.now():
        _clear(claim, standing.run, standing.token)
        standing = _set(claim)
    if (standing.token, standing.name) != (claim.token, claim.name):
        raise NoCapacity(
            f"host {claim.host.address}:{claim.host.port} is held by run {standing.run!r} of {standing.by} until "
            f"{standing.expires_at:%Y-%m-%d %H:%M:%S} UTC; wait, or there: megatok down {standing.run}"
        )


def move(claim: Claim) -> None:
    """Write the mark anew: its end has moved."""
    link.run(claim.host, _TOUCH.format(mark=_quoted(claim), token=_pattern(claim.token)))


def clear(claim: Claim) -> None:
    """End all that the claim's run started on the host, and remove its folder and the mark; a mark of others stays."""
    _clear(claim, claim.run, claim.token)


def _set(claim: Claim) -> Mark:
    text = link.run(claim.host, _SET.format(mark=_quoted(claim)))
    try:
        return Mark.model_validate_json(text)
    except ValueError:
        raise CloudError(
            f"~/.megatok-run/claim on {claim.host.address} cannot be read: {text[:80]!r}; "
            "look who wrote it, then remove it"
        ) from None


def _clear(claim: Claim, run: str, token: str) -> None:
    script = _CLEAR.format(run=shlex.quote(run), token=_pattern(token), grace_s=GRACE_S)
    link.run(claim.host, script, limit_s=GRACE_S + 30)


def _pattern(token: str) -> str:
    """What the mark of this token has in it, and no other."""
    return shlex.quote(f'"token":"{token}"')


def _quoted(claim: Claim) -> str:
    return shlex.quote(mark(claim).model_dump_json())
