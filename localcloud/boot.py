"""Lay a node's folder out and start its supervisor.

The SSH server is OpenSSH's `sshd`, run as the current user; `localcloud.embedded` where there is none, where root's
account is locked (sshd then lets nobody in), or where LOCALCLOUD_SSHD=embedded asks for it.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import pwd
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from localcloud import supervisor
from localcloud.meter import opened
from localcloud.node import Node
from localcloud.ports import Block
from localcloud.thing import write

USER = pwd.getpwuid(os.getuid())
SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
SFTP = next(
    (
        path
        for path in ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/lib/ssh/sftp-server")
        if Path(path).exists()
    ),
    None,
)
PASSED_ON = re.compile(
    r"PATH|LANG|LC_ALL|TZ|MEGATOK_CACHE|\w+_proxy|\w+_PROXY|\w*CA_BUNDLE|SSL_CERT_(FILE|DIR)|(PIP|UV)_\w+|NODE_EXTRA_CA_CERTS"
)
"""A node is this machine: it reaches networks and package indexes the way its user does. Nothing else of the user's
environment gets in."""

CONFIG = """\
ListenAddress 127.0.0.1:{port}
HostKey "{folder}/host_key"
PidFile "{folder}/sshd.pid"
AuthorizedKeysFile "{folder}/authorized_keys"
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UsePAM no
StrictModes no
MaxStartups 1000
MaxSessions 100
PermitUserRC no
PrintMotd no
PrintLastLog no
Subsystem sftp {sftp}
ForceCommand {login}
"""
# sshd starts every command in the account's home and takes no other, so the shell goes to the node's. A forced command
# replaces the sftp subsystem too, hence the case for it.
LOGIN = (
    'cd "$HOME" && command=$SSH_ORIGINAL_COMMAND && unset SSH_ORIGINAL_COMMAND && '
    'case $command in "") exec "$SHELL" -l;; {sftp}) exec {sftp};; *) exec "$SHELL" -c "$command";; esac'
)


POWEROFF = """\
#!/bin/sh
# Powers this node off: its supervisor looks for the file.
: >{folder}/poweroff
"""


def layout(node: Node, folder: Path) -> None:
    """All files that the node needs before it can start. `node.host_key` is what clients are told."""
    (folder / "home").mkdir(mode=0o700)
    temporary(node.id).mkdir(mode=0o700)
    key = Ed25519PrivateKey.generate()
    told = Ed25519PrivateKey.generate() if "host_key_changed" in node.quirks else key
    node.host_key = (
        told.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    write(folder / "host_key", private.decode())
    write(folder / "authorized_keys", node.public_key.strip() + "\n")
    write(folder / "sshd_config", config(node, folder))
    write(folder / "user_data", node.user_data)
    (folder / "bin").mkdir(mode=0o700)
    write(folder / "bin" / "poweroff", POWEROFF.format(folder=shlex.quote(str(folder))))
    (folder / "bin" / "poweroff").chmod(0o700)
    if "spot_notice" in node.quirks:
        write(folder / "home" / "SPOT-NOTICE", f"this node ends {node.quirks['spot_notice']} s after it came up\n")


def temporary(id: str) -> Path:
    """The node's own TMPDIR, which ends with it. Not below its folder: programs put sockets there, and a socket's path
    may have 107 characters."""
    return Path(tempfile.gettempdir()) / id


def config(node: Node, folder: Path) -> str:
    lines = CONFIG.format(port=node.ssh_port, folder=folder, sftp=SFTP, login=LOGIN.format(sftp=SFTP))
    if version() >= (9, 8):
        lines += "PerSourcePenalties no\n"  # a penalty for one client on loopback would shut all clients out
    return (
        lines
        + "SetEnv "
        + " ".join(f"{key}={quoted(value)}" for key, value in environment(node, folder).items())
        + "\n"
    )


def quoted(value: str) -> str:
    """A value as sshd's config reader takes it."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def environment(node: Node, folder: Path) -> dict[str, str]:
    """What a session on the node finds."""
    passed = {key: value for key, value in os.environ.items() if PASSED_ON.fullmatch(key) and "\n" not in value}
    path = passed.get("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
    return {
        **passed,
        "PATH": f"{folder / 'bin'}:{path}",  # before this machine's own poweroff
        "LOCALCLOUD_METADATA": str(folder / "metadata"),
        "HOME": str(folder / "home"),
        "TMPDIR": str(temporary(node.id)),
        "USER": USER.pw_name,
        "LOGNAME": USER.pw_name,
        "SHELL": USER.pw_shell or "/bin/sh",
        supervisor.MARKER: node.id,
    }


@functools.cache
def version() -> tuple[int, int]:
    """OpenSSH's version; (0, 0) where there is none."""
    if SSHD is None:
        return (0, 0)
    told = subprocess.run([SSHD, "-V"], capture_output=True, text=True, check=False, timeout=10).stderr
    found = re.search(r"OpenSSH_(\d+)\.(\d+)", told)
    return (int(found[1]), int(found[2])) if found else (0, 0)


@functools.cache
def embedded() -> bool:
    """Whether nodes get the embedded server."""
    return os.environ.get("LOCALCLOUD_SSHD") == "embedded" or SSHD is None or SFTP is None or root_locked()


def root_locked() -> bool:
    """sshd without PAM refuses an account whose password field starts with `!`; only root's sshd can see that field."""
    if os.geteuid() != 0:
        return False
    with contextlib.suppress(OSError):
        return any(line.startswith(f"{USER.pw_name}:!") for line in Path("/etc/shadow").read_text().splitlines())
    return False


def start(node: Node, folder: Path, meter: Path, block: Block) -> subprocess.Popen[bytes]:
    """Start the supervisor; it holds the node's lock and its claim on ports until it ends."""
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(
            mode=0o755, exist_ok=True
        )  # sshd's privilege separation wants it, and only init makes it
    server = [sys.executable, "-m", "localcloud.embedded"] if embedded() else [str(SSHD), "-D", "-e", "-f"]
    quirks = node.quirks
    dies_of = "spot" if "spot_notice" in quirks else "died"
    plan = {
        "id": node.id,
        "meter": str(meter),
        "start": opened(node),
        "server": [*server, str(folder / "sshd_config")],
        "env": environment(node, folder) | {"PYTHONPATH": str(Path(__file__).parent.parent)},
        "ssh_port": node.ssh_port,
        "silent": "ssh_silent" in quirks,
        "expires": "native_dead" not in quirks,
        "dies_after_s": quirks.get("spot_notice", quirks.get("die")),
        "dies_of": dies_of,
    }
    write(folder / "supervisor.json", json.dumps(plan))
    with (folder / "lock").open("w") as lock, (folder / "supervisor.log").open("wb") as log:
        fcntl.flock(lock, fcntl.LOCK_EX)
        fds = (lock.fileno(), block.claim.fileno())
        argv = [sys.executable, "-I", "-S", supervisor.__file__, str(folder), *map(str, fds)]
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=fds,
            start_new_session=True,
            cwd="/",
            env={},
        )
    block.claim.close()
    return child
