"""Whether this machine has what a run from here needs; each lack with its cure."""

from __future__ import annotations

import os
import shutil
import sys

from infra.engine.command import engine_path
from spec.errors import MegatokError
from spec.home import cache, home
from spec.record import Check

FREE_GB = 3
"""The environments of all foreign tools, the model and a run's logs take about 2 GB."""


def examine() -> tuple[Check, ...]:
    """Each thing that a run from here needs, and the programs that only some recipes need."""
    return (_python(), _engine(), _passphrase(), _space(), *map(_program, PROGRAMS))


PROGRAMS = {
    "ssh": "megatok ssh and tunnel: apt-get install openssh-client",
    "sshd": "the local cloud's nodes (else an embedded SSH server): apt-get install openssh-server",
    "nginx": "gateway nginx: apt-get install nginx-light",
    "haproxy": "gateway haproxy: apt-get install haproxy",
}


def _python() -> Check:
    good = sys.version_info >= (3, 11)
    return _check("python", good, f"{sys.version.split()[0]}" + ("" if good else ", needs 3.11 or later"))


def _engine() -> Check:
    try:
        return _check("pulumi", True, str(engine_path()))
    except MegatokError as error:
        return _check("pulumi", False, str(error))


def _passphrase() -> Check:
    path = home() / "passphrase"
    if not path.exists():
        return _check("passphrase", True, f"{path} is made at first use")
    mode = path.stat().st_mode & 0o777
    private = mode == 0o600 and os.access(path, os.R_OK)
    return _check("passphrase", private, f"{path}" if private else f"{path} has mode {mode:o}; type: chmod 600 {path}")


def _space() -> Check:
    free_gb = min(shutil.disk_usage(path).free for path in (home(), cache())) / 1e9
    return _check("disk", free_gb >= FREE_GB, f"{free_gb:.1f} GB free, {FREE_GB} GB needed")


def _program(name: str) -> Check:
    """A recipe may do without it: missing is said, but not unfit."""
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/local/sbin")
    if path:
        return _check(name, True, path)
    return Check(name=name, outcome="not applicable", detail=f"not installed; needed for {PROGRAMS[name]}")


def _check(name: str, good: bool, detail: str) -> Check:
    return Check(name=name, outcome="pass" if good else "fail", detail=detail)
