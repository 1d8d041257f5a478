"""The node's own dead-man switch: a script of the first boot that powers it off when its time is over.

It needs `sh`, `date` and `poweroff`, no bash and no systemd. It counts seconds since boot, so that a clock which is set
meanwhile moves nothing. The node's clock is asked once, for how long the boot took, and not believed beyond `BOOT_S`.
"""

from __future__ import annotations

import math
from datetime import datetime

MARK = "# megatok: powers this machine off when its time is over"
"""First line below the shebang: by it a cloud tells that an order carried the timer."""
SLACK_S = 1
"""The cloud's own end goes first."""
BOOT_S = 300
READ_S = 30
"""Between two looks at the tag: an end that was moved is seen so much later at most, and always before the old one."""

_SCRIPT = """\
#!/bin/sh
{mark}
first={first} life={life}
expires() {{ {expires_command}; }}
up() {{ read -r up _ </proc/uptime; echo "${{up%%.*}}"; }}
moved() {{
  told=$(expires) || return
  case $told in ????-??-??T??:??:??Z) ;; *) return 1 ;; esac
  day=${{told%T*}} hour=${{told#*T}}
  told=$(date -u -d "$day ${{hour%Z}}" +%s) && echo $((told - first))
}}
timer() {{
  trap '' HUP
  left=$((first - $(date -u +%s)))
  [ $((life - left)) -ge 0 ] && [ $((life - left)) -le {boot_s} ] || left=$life
  end=$(($(up) + left + {slack_s})) by=0
  while :; do
    told=$(moved) && by=$told
    rest=$((end + by - $(up)))
    [ "$rest" -gt 0 ] || break
    [ "$rest" -lt {read_s} ] || rest={read_s}
    sleep "$rest"
  done
  while :; do poweroff; sleep 10; done
}}
(timer) </dev/null >/dev/null 2>&1 &
echo "timer armed: $life s"
"""


def first_boot(lifetime_s: float, expires_at: datetime, expires_command: str) -> str:
    """The script. `expires_at` is the value of the tag `megatok-expires` in the create request, `expires_command` the
    cloud's `Capabilities.expires_command`: where it fails, the last end that was read holds."""
    return _SCRIPT.format(
        mark=MARK,
        first=int(expires_at.timestamp()),
        life=math.ceil(lifetime_s),
        expires_command=expires_command,
        boot_s=BOOT_S,
        slack_s=SLACK_S,
        read_s=READ_S,
    )
