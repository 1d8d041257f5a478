"""The environment in which Pulumi runs: one source for Python, for `tools/env`, and so for plain `pulumi up`."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from pathlib import Path

from infra.engine.build import HOST as LANGUAGE_HOST
from infra.engine.find import engine_path
from spec.home import ROOT, home

HOST = ROOT / "infra" / "engine" / "host"
PARALLEL = 256
"""Operations at once. The engine's own default is 4 for each core, far too few for creates that only wait."""


def environment() -> dict[str, str]:
    """What to add to the environment. A backend or a passphrase that the user has set stays."""
    engine = engine_path()
    return _defaults() | {
        "MEGATOK_HOME": str(home()),
        "MEGATOK_PYTHON": python(),
        "MEGATOK_ROOT": str(ROOT),
        "PULUMI_PYTHON_CMD": python(),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PATH": _path(engine),
    }


def python() -> str:
    """The Python that has our packages: what MEGATOK_PYTHON says, else the checkout's own, else the one that runs."""
    venv = ROOT / ".venv" / "bin" / "python"
    return os.environ.get("MEGATOK_PYTHON") or str(venv if venv.exists() else sys.executable)


def passphrase_file() -> Path:
    """Made at first use. A state that it has encrypted is readable with nothing else."""
    final = home() / "passphrase"
    if not final.exists():
        keep_first(final, secrets.token_urlsafe(32).encode())
    return final


def keep_first(final: Path, data: bytes) -> None:
    """Make a file that only its owner reads, whole at once; where somebody was faster, theirs stays."""
    mine = final.with_name(f"{final.name}.{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
        with contextlib.suppress(FileExistsError):
            os.link(mine, final)
    finally:
        mine.unlink(missing_ok=True)


def backend() -> str:
    """Where the state lies; in our own folder unless the user has chosen another."""
    return os.environ.get("PULUMI_BACKEND_URL") or (home() / "state").as_uri()


def _defaults() -> dict[str, str]:
    if "PULUMI_BACKEND_URL" not in os.environ:
        (home() / "state").mkdir(exist_ok=True)  # Pulumi takes only a folder that exists
    wanted = {"PULUMI_HOME": str(home() / "pulumi"), "PULUMI_PARALLEL": str(PARALLEL)}
    chosen = {key: os.environ.get(key, value) for key, value in wanted.items()} | {"PULUMI_BACKEND_URL": backend()}
    if os.environ.keys() & {"PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE"}:
        return chosen
    return chosen | {"PULUMI_CONFIG_PASSPHRASE_FILE": str(passphrase_file())}


def _path(engine: Path) -> str:
    """The engine's folder first; then our language host, only where there is none beside the engine."""
    beside = {engine.parent, engine.resolve().parent}
    own = [] if any((folder / LANGUAGE_HOST).exists() for folder in beside) else [str(HOST)]
    known = os.environ.get("PATH", "").split(os.pathsep)
    front = [folder for folder in (str(engine.parent), *own) if folder not in known]
    return os.pathsep.join([*front, *known])
