"""SSH to one node: a link that is opened once and kept, and one command's talk over it.

Links are Fabric Connections with our own settings: pinned host keys, one key, no agent, nothing of the user's own.
Commands do not go through Fabric's runner: that takes two threads and a hundred wake-ups a second for each.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import logging
import random
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import fabric
import paramiko
from paramiko.config import SSH_PORT
from paramiko.pkey import UnknownKeyType

from spec.errors import ConnectionLost, Interrupted, NodeError, RecipeError
from spec.inventory import Node

CONNECT_S = 15.0
"""For each of: TCP, the server's banner and key exchange, authentication."""
ATTEMPTS = 5
"""Connects before a node counts as silent: a busy sshd drops some unanswered (MaxStartups)."""
PAUSE_S = 0.25
"""Before the second attempt, on average; doubles with each."""
LINGER_S = 1.0
"""Output is waited for after a command ended; more only comes from what it left in the background."""
STUBBORN_S = 7.0
"""A command that was told to end is waited for: it gets KILL 5 s after TERM."""
LOOK_S = 5.0
"""A waiting command looks this often for an exit code that came without the end of its output."""
SOON_S = 0.1
"""The same, once its last step has ended."""
KILLED = 137
"""Exit code where the server tells of a signal instead of one."""

_KEEPALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 11_000}
"""A cut link is noticed within 11 s, idle or with data on its way; paramiko's own keepalive does not end it."""

_connecting = threading.BoundedSemaphore(64)
_links: dict[tuple[str, ...], Link] = {}
_links_lock = threading.Lock()

# Each failure is raised as an error with its reason; paramiko would log it once more, with its stack.
logging.getLogger("paramiko").setLevel(logging.CRITICAL)


class _Transport(paramiko.Transport):
    """Paramiko's, with the cheapest of the safe algorithms first, and fewer idle wake-ups."""

    _active_check_timeout = 10.0
    _preferred_kex = ("curve25519-sha256@libssh.org", "ecdh-sha2-nistp256", "diffie-hellman-group16-sha512")
    _preferred_ciphers = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes256-ctr")


@dataclass(frozen=True)
class Ended:
    """How a command ended. `late`: it was stopped at its limit."""

    rc: int
    out: bytes
    err: bytes
    late: bool
    last_s: float
    """Since the start or the last mark."""


@cache
def _config() -> fabric.Config:
    return fabric.Config(lazy=True, overrides={"load_ssh_configs": False})


def _public_key(text: str) -> paramiko.PKey:
    try:
        kind, blob = text.split()[:2]
        return paramiko.PKey.from_type_string(kind, base64.b64decode(blob))
    except (ValueError, paramiko.SSHException, UnknownKeyType) as exc:
        raise RecipeError(f"host key {text!r} is none; write it like `ssh-ed25519 AAAA...`") from exc


@cache
def _private_key(path: str) -> paramiko.PKey:
    try:
        return paramiko.PKey.from_path(path)
    except (OSError, ValueError, paramiko.SSHException, UnknownKeyType) as exc:
        raise RecipeError(
            f"key file {path} cannot be used: {exc or type(exc).__name__}; name a private key without a passphrase"
        ) from exc


def _connection(node: Node) -> fabric.Connection:
    connection = fabric.Connection(
        node.host,
        user=node.user,
        port=node.ssh_port,
        config=_config(),
        connect_kwargs={
            "pkey": _private_key(node.key_file),
            "allow_agent": False,
            "look_for_keys": False,
            "banner_timeout": CONNECT_S,
            "auth_timeout": CONNECT_S,
            "timeout": CONNECT_S,
            "transport_factory": _Transport,
        },
    )
    connection.client.set_missing_host_key_policy(paramiko.RejectPolicy())
    name = node.host if node.ssh_port == SSH_PORT else f"[{node.host}]:{node.ssh_port}"
    pinned = _public_key(node.host_key)
    connection.client.get_host_keys().add(name, pinned.get_name(), pinned)
    return connection


class Link:
    """The connection to one node: opened by the first command, opened again when it broke in between."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._connection = _connection(node)
        self._lock = threading.Lock()
        self._dialling: socket.socket | None = None

    def channel(self, stopped: threading.Event) -> paramiko.Channel:
        """A channel for one command. Nothing has run there when this raises."""
        reason: Exception | None = None
        with self._lock:
            for attempt in range(ATTEMPTS):
                if stopped.wait(random.uniform(0.5, 1.5) * PAUSE_S * 2 ** (attempt - 1) if attempt else 0):
                    raise Interrupted(f"stopped while connecting to {self._node.name}")
                try:
                    return self._open()
                except paramiko.BadHostKeyException as exc:
                    raise NodeError(
                        f"host key is {exc.key.fingerprint}, pinned is {exc.expected_key.fingerprint}: "
                        "another machine answers; make the inventory anew"
                    ) from exc
                except paramiko.AuthenticationException as exc:
                    raise NodeError(
                        f"{self._node.user} was refused with key {self._node.key_file}; authorise that key there"
                    ) from exc
                except (OSError, EOFError, paramiko.SSHException) as exc:
                    self.close()
                    reason = exc
        where = f"{self._node.host}:{self._node.ssh_port}"
        raise ConnectionLost(f"no SSH at {where} in {ATTEMPTS} attempts: {reason or type(reason).__name__}") from reason

    def _open(self) -> paramiko.Channel:
        if not self._connection.is_connected:
            with _connecting:
                self._dial()
        channel: paramiko.Channel = self._connection.transport.open_session(timeout=CONNECT_S)
        return channel

    def _dial(self) -> None:
        family, kind, protocol, _, address = socket.getaddrinfo(
            self._node.host, self._node.ssh_port, type=socket.SOCK_STREAM
        )[0]
        sock = self._dialling = self._connection.connect_kwargs["sock"] = socket.socket(family, kind, protocol)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in _KEEPALIVE.items():
                if hasattr(socket, name):
                    sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
            sock.settimeout(CONNECT_S)
            sock.connect(address)
            self._connection.open()
        finally:
            self._dialling = None

    def hang_up(self) -> None:
        """Break off a connect that is under way."""
        if sock := self._dialling:
            _shut(sock)

    def close(self) -> None:
        """End the connection at once; paramiko alone would let its thread sleep on."""
        if sock := self._connection.connect_kwargs.pop("sock", None):
            _shut(sock)
            self._connection.close()
            sock.close()


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def link(node: Node) -> Link:
    """The link to `node`, kept for the life of this process or until `close`."""
    key = (node.name, node.host, str(node.ssh_port), node.user, node.key_file, node.host_key)
    with _links_lock:  # a Connection must not be built while another is: they share their Config
        if key not in _links:
            _links[key] = Link(node)
        return _links[key]


@atexit.register
def close_all() -> None:
    """Close every link of this process; the next command opens its own again."""
    with _links_lock:
        for each in _links.values():
            each.close()
        _links.clear()


class Talk:
    """One command on a channel: what goes in, what comes out, and the time that it may take."""

    def __init__(self, channel: paramiko.Channel, deadline: float) -> None:
        self._channel = channel
        self._deadline = deadline
        self._wake = threading.Event()
        self._out = bytearray()
        self._err = bytearray()
        self._scanned = 0
        self._marks = 0
        self._since = time.monotonic()
        channel.in_buffer.set_event(self._wake)
        channel.in_stderr_buffer.set_event(self._wake)

    def run(self, command: str, stdin: bytes, limits_s: Sequence[float], mark: bytes = b"") -> Ended:
        """Start `command`, feed it, and wait for its end; each mark on stdout starts the next of `limits_s`.

        With marks, its input stays open until a limit has passed: what watches there then ends it.
        Without, its input ends with `stdin`.
        """
        try:
            self._channel.settimeout(max(0.0, self._deadline - time.monotonic()))
            self._channel.exec_command(command)
            self._channel.sendall(stdin)
            if not mark:
                self._channel.shutdown_write()
            late = self._wait(limits_s, mark)
            self._channel.status_event.wait(LINGER_S)
            rc = self._channel.exit_status
            if rc == -1 and not late and not self._channel.get_transport().is_active():
                raise ConnectionLost("the link broke while the command ran; what it did is not known")
            return Ended(
                rc if rc != -1 else KILLED, bytes(self._out), bytes(self._err), late, time.monotonic() - self._since
            )
        except (OSError, EOFError, paramiko.SSHException) as exc:
            raise ConnectionLost(f"the link broke: {exc or type(exc).__name__}") from exc
        finally:
            self._channel.close()

    def break_off(self) -> None:
        """From another thread: end it now. The command sees the end of its input."""
        self._channel.close()

    def _wait(self, limits_s: Sequence[float], mark: bytes) -> bool:
        late = False
        while True:
            if self._drain():
                self._count(mark)
                continue
            if self._channel.eof_received or self._channel.closed:
                return late
            if self._channel.exit_status_ready() and not self._wake.wait(LINGER_S):
                return late
            look_s = SOON_S if self._marks == len(limits_s) else LOOK_S
            limit_s = limits_s[min(self._marks, len(limits_s) - 1)]
            left_s = min(self._since + limit_s, self._deadline) + late * STUBBORN_S - time.monotonic()
            if left_s > 0:
                self._wake.wait(min(left_s, look_s))
            elif late:
                return late
            else:
                late = True
                self._channel.shutdown_write()

    def _drain(self) -> bool:
        moved = False
        while self._channel.recv_ready():
            self._out += self._channel.recv(1 << 16)
            moved = True
        while self._channel.recv_stderr_ready():
            self._err += self._channel.recv_stderr(1 << 16)
            moved = True
        return moved

    def _count(self, mark: bytes) -> None:
        while mark and (at := self._out.find(mark, self._scanned)) >= 0:
            self._scanned = at + len(mark)
            self._marks += 1
            self._since = time.monotonic()
        self._scanned = max(self._scanned, len(self._out) - len(mark))
