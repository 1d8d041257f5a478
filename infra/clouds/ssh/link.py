"""One script on one host: pinned host key, the recipe's key file, no agent, nothing of the user's own SSH settings."""

from __future__ import annotations

import base64
import logging
import time
from pathlib import Path

import paramiko
from paramiko.config import SSH_PORT
from paramiko.pkey import UnknownKeyType

from spec.errors import CloudError, Denied, RecipeError, Unanswered
from spec.recipe import SshHost

CONNECT_S = 10.0
"""For each of: TCP, the server's banner and key exchange, authentication."""

# Each failure is raised with its reason; paramiko would log it once more, with its stack.
logging.getLogger("paramiko").setLevel(logging.CRITICAL)


class Unreached(Unanswered):
    """No connection came about, so nothing was done."""


def run(host: SshHost, script: str, *, limit_s: float = 60.0) -> str:
    """What `script` prints, run by bash on the host; CloudError where it fails, Unanswered where nobody answers."""
    where = f"{host.user}@{host.address}:{host.port}"
    with paramiko.SSHClient() as client:
        _connect(client, host, where)
        try:
            return _talk(client, script, where, limit_s)
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise Unanswered(f"the link to {where} broke: {_said(error)}") from error


def _talk(client: paramiko.SSHClient, script: str, where: str, limit_s: float) -> str:
    transport = client.get_transport()
    assert transport is not None
    channel = transport.open_session(timeout=CONNECT_S)
    channel.settimeout(limit_s)
    channel.set_combine_stderr(True)
    channel.exec_command("bash -s")
    channel.sendall(script.encode())
    channel.shutdown_write()
    give_up_at = time.monotonic() + limit_s
    out = b""
    while data := channel.recv(1 << 16):
        out += data
        if time.monotonic() > give_up_at:
            raise Unanswered(f"a script on {where} did not end within {limit_s:.0f} s")
    status = channel.recv_exit_status()
    if status == -1:
        raise Unanswered(f"the link to {where} broke before a script ended there")
    text = out.decode(errors="replace").strip()
    if status:
        raise CloudError(f"a script on {where} failed with exit code {status}: {text[-500:]}")
    return text


def _connect(client: paramiko.SSHClient, host: SshHost, where: str) -> None:
    pinned = public_key(host)
    name = host.address if host.port == SSH_PORT else f"[{host.address}]:{host.port}"
    client.get_host_keys().add(name, pinned.get_name(), pinned)
    client.set_missing_host_key_policy(paramiko.RejectPolicy())
    try:
        client.connect(
            host.address,
            host.port,
            host.user,
            pkey=private_key(host),
            allow_agent=False,
            look_for_keys=False,
            timeout=CONNECT_S,
            banner_timeout=CONNECT_S,
            auth_timeout=CONNECT_S,
        )
    except paramiko.BadHostKeyException as error:
        raise Denied(
            f"{where} shows the host key {error.key.fingerprint}, the recipe pins {error.expected_key.fingerprint}: "
            "another machine answers, or the recipe's host_key is out of date"
        ) from error
    except paramiko.AuthenticationException as error:
        raise Denied(f"{where} refuses the key {host.key_file}; authorise it there") from error
    except (OSError, EOFError, paramiko.SSHException) as error:
        raise Unreached(f"{where} does not answer: {_said(error)}") from error


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__


def public_key(host: SshHost) -> paramiko.PKey:
    try:
        kind, blob = host.host_key.split()[:2]
        return paramiko.PKey.from_type_string(kind, base64.b64decode(blob))
    except (ValueError, paramiko.SSHException, UnknownKeyType):
        raise RecipeError(
            f"host_key {host.host_key!r} of {host.address} is none; write it like `ssh-ed25519 AAAA...`"
        ) from None


def private_key(host: SshHost) -> paramiko.PKey:
    path = Path(host.key_file).expanduser()
    try:
        return paramiko.PKey.from_path(path)
    except (OSError, ValueError, paramiko.SSHException, UnknownKeyType) as error:
        raise RecipeError(
            f"key_file {path} cannot be used: {_said(error)}; name a private key without a passphrase"
        ) from error
