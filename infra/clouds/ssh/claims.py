"""Which hosts our runs hold: `MEGATOK_HOME/ssh-claims`, one file a claim, written before a host is touched."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from spec.base import Spec
from spec.home import home
from spec.recipe import SshHost


class Claim(Spec):
    """One run's hold on one host, and all that is needed to let go of it. It is kept when it has ended."""

    version: int = 1
    id: str
    run: str
    token: str
    name: str
    node_type: str
    gpus: int
    host: SshHost
    created_at: datetime
    expires_at: datetime
    """From then on another run may take the host."""
    started_at: datetime | None = None
    """When the host bore the mark; None: it may, or may not."""
    ended_at: datetime | None = None


def name_of(token: str, host: SshHost) -> str:
    """A claim's id: the token is in it, so that a host held twice in a row gives two ids."""
    return f"{token}@{host.address}:{host.port}"


def keep(claim: Claim) -> None:
    """On disk, whole, before it returns."""
    path = _path(claim.id)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    half = path.with_name(path.name + ".new")
    with half.open("w") as file:
        file.write(claim.model_dump_json(indent=1))
        file.flush()
        os.fsync(file.fileno())
    half.rename(path)


def drop(claim: Claim) -> None:
    """Forget a claim that came to nothing."""
    _path(claim.id).unlink(missing_ok=True)


def read(id: str) -> Claim | None:
    try:
        return Claim.model_validate_json(_path(id).read_text())
    except FileNotFoundError:
        return None


def held() -> tuple[Claim, ...]:
    """Every claim that has not ended."""
    found = (Claim.model_validate_json(path.read_text()) for path in sorted(_folder().glob("*.json")))
    return tuple(claim for claim in found if claim.ended_at is None)


def _folder() -> Path:
    return home() / "ssh-claims"


def _path(id: str) -> Path:
    return _folder() / f"{quote(id, safe='@:')}.json"
