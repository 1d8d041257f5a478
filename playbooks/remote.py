"""SSH links to nodes: each is opened once, kept, and opened again when it broke in between.

Links are Fabric Connections with our own settings: pinned host keys, one key, no agent, nothing of the user's own.
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
from collections.abc import Callable
from functools import cache

import fabric
import paramiko
from paramiko.pkey import UnknownKeyType

from spec.errors import ConnectionLost, Interrupted, NodeError, RecipeError
from spec.inventory import Node

CONNECT_S = 15.0
"""For each of: TCP; the server's banner and key exchange; authentication; a channel."""
CONNECTS = 64
"""At once, in this process."""
ATTEMPTS = 5
"""Connects before a node counts as silent: a busy sshd drops some unanswered (MaxStartups)."""
PATIENCE_S = 25.0
"""No attempt begins later than this after the first: a node that takes each connect and says nothing is silent."""
PAUSE_S = 0.25
"""Before the second attempt, on average; doubles with each."""
READ_AHEAD = 1 << 15

_KEEPALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 11_000}
"""A cut link is noticed within 11 s, idle or with data on its way; paramiko's own keepalive does not end it."""
_RSA = ("rsa-sha2-512", "rsa-sha2-256")
"""How a host signs with the key that is called ssh-rsa."""

_connecting = threading.BoundedSemaphore(CONNECTS)
_links: dict[tuple[str, ...], Link] = {}
_links_lock = threading.Lock()

# Each failure is raised as an error with its reason; paramiko would log it once more, with its stack.
logging.getLogger("paramiko").setLevel(logging.CRITICAL)


class _Socket(socket.socket):
    """Reads ahead: paramiko asks for the first bytes of a packet, then for its rest."""

    _ahead = b""

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        if not self._ahead:
            self._ahead = super().recv(READ_AHEAD, flags)
        data, self._ahead = self._ahead[:size], self._ahead[size:]
        return data


class _Packetizer(paramiko.packet.Packetizer):
    """Without a timer, a thread of its own for each connect: who connects here waits no longer than CONNECT_S."""

    def start_handshake(self, timeout: float) -> None:
        pass

    def complete_handshake(self) -> None:
        pass


class _Transport(paramiko.Transport):
    """Paramiko's, with the cheapest of the safe algorithms first, and fewer idle wake-ups."""

    _active_check_timeout = None  # blocks: Link ends it by shutting the socket
    _preferred_kex = ("curve25519-sha256@libssh.org", "ecdh-sha2-nistp256", "diffie-hellman-group16-sha512")
    _preferred_ciphers = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes256-ctr")


class _Connection(fabric.Connection):  # type: ignore[misc]
    """Fabric's, opened our way: the only key is tried once, the host key must be the pinned one, waits do not poll."""

    __setattr__ = object.__setattr__  # Fabric would look each name up in its configuration first

    def __init__(self, node: Node) -> None:
        # What is said here is not looked up in the configuration: half of what a Connection costs.
        says = {"forward_agent": False, "gateway": False, "connect_timeout": int(CONNECT_S), "inline_ssh_env": True}
        super().__init__(node.host, user=node.user, port=node.ssh_port, config=_config(), **says)
        self.node = node
        self.key = _private_key(node.key_file)
        self.pinned = _public_key(node.host_key)
        self.sock: _Socket | None = None
        self.deadline = 0.0

    def open(self) -> None:
        if self.is_connected:
            return
        where = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)[0]
        self.sock = _Socket(*where[:3])
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE.items():
            if hasattr(socket, name):
                self.sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        self.sock.settimeout(self._left_s())
        self.sock.connect(where[4])
        self.transport = _Transport(self.sock, packetizer_class=_Packetizer)
        try:
            self._exchange_keys()
        except paramiko.ssh_exception.IncompatiblePeer as exc:
            raise NodeError(f"{exc}: its SSH server shares no way of talking with this program") from exc
        self._authenticate()

    def _exchange_keys(self) -> None:
        name = self.pinned.get_name()
        self.transport.get_security_options().key_types = _RSA if name == "ssh-rsa" else (name,)
        self._await("key exchange", lambda done: self.transport.start_client(event=done))
        shown = self.transport.get_remote_server_key()
        if shown != self.pinned:
            raise NodeError(
                f"host key is {shown.fingerprint}, pinned is {self.pinned.fingerprint}: "
                "another machine answers; make the inventory anew"
            )

    def _authenticate(self) -> None:
        self._await("authentication", lambda done: self.transport.auth_publickey(self.user, self.key, event=done))
        if not self.transport.is_authenticated():
            raise NodeError(f"{self.user} was refused with key {self.node.key_file}; authorise that key there")

    def _await(self, what: str, begin: Callable[[threading.Event], object]) -> None:
        done = threading.Event()
        begin(done)
        left_s = self._left_s()
        if not done.wait(left_s):
            raise TimeoutError(f"{what} took more than {left_s:.0f} s")
        if not self.transport.is_active():
            raise self.transport.get_exception() or EOFError()

    def _left_s(self) -> float:
        return max(0.001, min(CONNECT_S, self.deadline - time.monotonic()))  # 0 would mean at once, or never

    def interrupt(self) -> None:
        """From another thread: break off what goes on."""
        if self.sock:
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End it at once. Without the interrupt, paramiko's thread would sleep on."""
        if self.sock:
            self.interrupt()
            if self.transport:
                self.transport.close()
            self.sock.close()
            self.sock = None


class Link:
    """The connection to one node, for any number of commands at once."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._connection = _Connection(node)
        self._lock = threading.Lock()
        self._dialling = False

    def channel(self, stopped: threading.Event, deadline: float) -> paramiko.Channel:
        """A channel for one command, before `deadline` (monotonic). Nothing has run there when this raises."""
        reason, tried = "", 0
        with self._lock:
            self._connection.deadline = deadline
            last = min(time.monotonic() + PATIENCE_S, deadline)
            for attempt in range(ATTEMPTS):
                if attempt and time.monotonic() > last:
                    break
                if stopped.wait(random.uniform(0.5, 1.5) * PAUSE_S * 2 ** (attempt - 1) if attempt else 0):
                    raise Interrupted(f"stopped while connecting to {self._node.name}")
                try:
                    return self._open()
                except NodeError:
                    self._connection.close()  # refused, yet it stands: the next command must not find it open
                    raise
                except (OSError, EOFError, paramiko.SSHException) as exc:
                    reason = str(exc) or "it closed the connection"
                    self._connection.close()
                tried += 1
        raise ConnectionLost(f"no SSH in {tried} attempts: {reason}; is the node up, and its address right?")

    def _open(self) -> paramiko.Channel:
        if not self._connection.is_connected:
            with _connecting:
                self._dialling = True
                try:
                    self._connection.open()
                finally:
                    self._dialling = False
        channel: paramiko.Channel = self._connection.transport.open_session(timeout=CONNECT_S)
        return channel

    def hang_up(self) -> None:
        """Break off a connect that is under way; a connection that others may use stays."""
        if self._dialling:
            self._connection.interrupt()

    def close(self) -> None:
        self._connection.close()


def link(node: Node) -> Link:
    """The link to `node`, kept for the life of this process or until it is closed."""
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


@cache
def _config() -> fabric.Config:
    return fabric.Config(lazy=True, overrides={"load_ssh_configs": False})


@cache
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
