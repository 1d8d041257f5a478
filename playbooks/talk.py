"""One command on an open SSH channel: what goes in, what comes out, and the time that it may take.

Commands do not go through Fabric's runner: that takes two threads and a hundred wake-ups a second for each.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import paramiko

from spec.errors import ConnectionLost

LINGER_S = 1.0
"""After a command's end the channel's end is waited for; more only comes from what it left in the background."""
STUBBORN_S = 7.0
"""A command that was told to end is waited for: it gets KILL 5 s after TERM."""
LOOK_S = 1.0
"""A waiting command looks this often for a limit that passed, and for an exit code without an end of output."""
HEARD = 16
"""Packets of at most 32 KiB that may lie unread: well below the window of 2 MiB, in which the server would stop."""
KILLED = 137
"""Exit code where the server tells of a signal instead of one."""


@dataclass(frozen=True)
class Ended:
    """How a command ended. `late`: it was stopped at its limit."""

    rc: int
    out: bytes
    err: bytes
    late: bool
    seconds: float


class _Bell(threading.Event):
    """Rings at the channel's end, and now and then before. At each packet, threads would change too often."""

    def __init__(self, channel: paramiko.Channel) -> None:
        super().__init__()
        self._channel = channel
        self._packets = 0

    def set(self) -> None:
        self._packets += 1
        if self._channel.closed or self._packets % HEARD == 0:
            super().set()

    def clear(self) -> None:
        """Said when a buffer is empty; there are two of them."""

    def hear(self, timeout_s: float) -> bool:
        heard = self.wait(timeout_s)
        super().clear()
        return heard


class Talk:
    """`deadline` (monotonic) ends it whatever its limits say."""

    def __init__(self, channel: paramiko.Channel, deadline: float) -> None:
        self._channel = channel
        self._deadline = deadline
        self._began = time.monotonic()
        self._bell = _Bell(channel)
        self._out = bytearray()
        self._err = bytearray()
        channel.in_buffer.set_event(self._bell)
        channel.in_stderr_buffer.set_event(self._bell)

    def run(self, command: str, stdin: bytes, limits_s: Sequence[float], mark: str = "") -> Ended:
        """Start `command`, feed it, and wait for its end.

        With `mark`, each line of stdout that is a mark, an exit code and microseconds ends a part, and the next of
        `limits_s` begins; input stays open until one has passed: what watches there then ends it all. Without, input
        ends with `stdin`.
        """
        try:
            self._channel.settimeout(max(0.0, self._deadline - time.monotonic()))
            self._channel.exec_command(command)
            self._channel.sendall(stdin)
            if not mark:
                self._channel.shutdown_write()
            late = self._wait(limits_s, mark)
            rc = self._channel.exit_status if self._channel.exit_status_ready() else -1
            if rc == -1 and not late and not self._is_up():
                raise ConnectionLost("the link broke while the command ran; what it did is not known")
            seconds = time.monotonic() - self._began
            return Ended(rc if rc != -1 else KILLED, bytes(self._out), bytes(self._err), late, seconds)
        except (OSError, EOFError, paramiko.SSHException) as exc:
            raise ConnectionLost(f"the link broke: {exc or type(exc).__name__}") from exc
        finally:
            self._channel.close()

    def break_off(self) -> None:
        """From another thread: end it now. The command sees the end of its input."""
        self._channel.close()

    def _is_up(self) -> bool:
        return self._channel.get_transport().is_active()

    def _wait(self, limits_s: Sequence[float], mark: str) -> bool:
        late = False
        while not self._channel.closed:
            self._drain()
            if self._channel.exit_status_ready() and not self._bell.hear(LINGER_S):
                break
            left_s = self._due(limits_s, mark) + late * STUBBORN_S - time.monotonic()
            if left_s > 0:
                self._bell.hear(min(left_s, LOOK_S))
            elif late:
                break
            else:
                late = True
                self._channel.shutdown_write()
        self._drain()
        return late

    def _due(self, limits_s: Sequence[float], mark: str) -> float:
        """When the part that runs now must end, by the node's own account of those that have."""
        heads = [part.partition(b"\n") for part in self._out.split(mark.encode())[1:]] if len(limits_s) > 1 else []
        spent_s = [int(head.split()[1]) / 1e6 for head, newline, _ in heads if newline]
        limit_s = limits_s[min(len(spent_s), len(limits_s) - 1)]
        return min(self._began + sum(spent_s) + limit_s, self._deadline)

    def _drain(self) -> None:
        while self._channel.recv_ready():
            self._out += self._channel.recv(1 << 20)
        while self._channel.recv_stderr_ready():
            self._err += self._channel.recv_stderr(1 << 20)
