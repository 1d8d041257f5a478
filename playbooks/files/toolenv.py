"""Make one foreign tool's environment in the cache: `toolenv.py LOCKS NAME...`.

Runs on a node or on the user's machine, with the standard library alone. LOCKS is the folder that holds NAME.txt
(pinned with hashes, complete: nothing else is resolved). The environment's name carries the lock's hash, so a
changed lock is a new environment, and clones and local nodes that share a cache share it. Prints `made NAME FOLDER`
or `kept NAME FOLDER`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

INSTALLER = "uv"
"""The lock of the installer itself, which pip installs."""
DONE = ".complete"
PYTHONS = ("3.11", "3.12", "3.13")
"""Versions that every locked tool supports."""


class Refused(Exception):
    """Why there is no environment, for a person to read."""


def cache() -> Path:
    return Path(os.environ.get("MEGATOK_CACHE") or Path.home() / ".cache" / "megatok")


def title(lock: Path) -> str:
    """Its name says what is in it."""
    return f"{lock.stem}-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds other makers of the same thing back until the body has ended."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def python() -> str:
    """An interpreter that the locked tools support: this one, else one on PATH."""
    mine = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if mine in PYTHONS:
        return sys.executable
    found = next(filter(None, (shutil.which(f"python{version}") for version in PYTHONS)), None)
    if not found:
        raise Refused(f"python3 is {mine}; install one of {', '.join(PYTHONS)}")
    return found


def command(*argv: str) -> None:
    done = subprocess.run(argv, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-15:])
        raise Refused(f"{Path(argv[0]).name} {' '.join(argv[1:4])} ended with {done.returncode}:\n{tail}")


def usable(env: Path) -> bool:
    """Complete, and its interpreter is still there (an upgrade of the system may have taken it away)."""
    return (env / DONE).is_file() and (env / "bin" / "python").exists()


def fill(env: Path, lock: Path) -> None:
    if lock.stem == INSTALLER:
        command(python(), "-m", "venv", str(env))
        command(str(env / "bin" / "pip"), "install", "-q", "--no-deps", "--require-hashes", "-r", str(lock))
        return
    uv = str(make(lock.with_name(f"{INSTALLER}.txt"))[0] / "bin" / "uv")
    os.environ.setdefault("UV_CACHE_DIR", str(cache() / "uv"))
    os.environ.setdefault("UV_SYSTEM_CERTS", "1")  # also trust what the machine's own store trusts
    command(uv, "venv", "-q", "--no-config", "--python", python(), str(env))
    target = ("--no-config", "--python", str(env / "bin" / "python"))
    # A package that must be compiled would need a compiler on every node, and minutes.
    command(
        uv, "pip", "install", "-q", *target, "--no-deps", "--only-binary", ":all:", "--require-hashes", "-r", str(lock)
    )


def make(lock: Path) -> tuple[Path, bool]:
    """The lock's environment, and whether it had to be made."""
    env = cache() / "envs" / title(lock)
    if usable(env):
        return env, False
    with locked(env.with_suffix(".lock")):
        if usable(env):
            return env, False
        shutil.rmtree(env, ignore_errors=True)
        fill(env, lock)
        (env / DONE).touch()
    return env, True


def main(locks: Path, names: list[str]) -> int:
    for name in names:
        lock = locks / f"{name}.txt"
        try:
            if not lock.is_file():
                raise Refused(
                    f"there is no lock {lock.name}; known: {', '.join(sorted(p.stem for p in locks.glob('*.txt')))}"
                )
            env, made = make(lock)
        except (Refused, OSError) as error:
            sys.stderr.write(f"environment {name}: {error}\n")
            return 1
        sys.stdout.write(f"{'made' if made else 'kept'} {name} {env}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
