"""Which engine this machine has, and how one is got. Only the standard library: this runs before any set-up."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from infra.engine import build, release
from spec.errors import Unfit
from spec.home import cache

OLDEST = (3, 250, 0)
BELOW = (4, 0, 0)
"""Supported: OLDEST <= version < BELOW."""


@dataclass(frozen=True)
class Engine:
    path: Path
    why: str
    """Where it came from, and why from there."""


def find() -> Engine | None:
    """The engine on PATH if it is a supported one, else the one in the cache, else None."""
    ambient = shutil.which("pulumi")
    if ambient and _supported(ambient):
        return Engine(Path(ambient).absolute(), "on PATH")
    note = f"; {ambient} is not a version from {_text(OLDEST)} to below {_text(BELOW)}" if ambient else ""
    for folder in (_released(), _compiled()):
        if (folder / "pulumi").is_file():
            return Engine(folder / "pulumi", f"in the cache{note}")
    return None


def obtain(say: Callable[[str], None]) -> Engine:
    """The engine, got if there is none: the official release, else compiled. Two at once get it once."""
    found = find()
    if found:
        return found
    with _locked():
        return find() or _get(say)


def _get(say: Callable[[str], None]) -> Engine:
    try:
        with _new(_released()) as folder:
            release.unpack(folder)
        return Engine(_released() / "pulumi", f"official release {release.VERSION}, checksum verified")
    except release.Refused as refused:
        say(f"engine: no official release: {refused}")
        reason = refused
    with _new(_compiled()) as folder:
        build.build(folder, say)
    return Engine(_compiled() / "pulumi", f"compiled from the pinned Go module, as {reason}")


@contextmanager
def _new(final: Path) -> Iterator[Path]:
    """A folder that gets its name only when it is whole."""
    part = final.with_name(f"{final.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        yield part
        part.rename(final)
    finally:
        shutil.rmtree(part, ignore_errors=True)


@contextmanager
def _locked() -> Iterator[None]:
    with (_folder() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _folder() -> Path:
    folder = cache() / "engine"
    folder.mkdir(exist_ok=True)
    return folder


def _released() -> Path:
    return _folder() / f"v{release.VERSION}"


def _compiled() -> Path:
    return _folder() / f"v{build.version()}-{build.digest()}"


def _supported(pulumi: str) -> bool:
    env = os.environ | {"PULUMI_SKIP_UPDATE_CHECK": "true"}
    try:
        said = subprocess.run(
            [pulumi, "version"], env=env, capture_output=True, text=True, check=False, timeout=30
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return False
    found = re.match(r"v?(\d+)\.(\d+)\.(\d+)", said.strip())
    return found is not None and OLDEST <= tuple(int(part) for part in found.groups()) < BELOW


def _text(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)


def engine_path() -> Path:
    """The engine that is here; Unfit, with the way out, where there is none."""
    found = find()
    if not found:
        raise Unfit(
            f"no `pulumi` from {_text(OLDEST)} to below {_text(BELOW)} on PATH or in the cache; run tools/engine"
        )
    return found.path
