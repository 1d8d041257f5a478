"""Unpack what a node has packed: files and folders, and only below one folder.

`tarfile`'s own filter would do; Debian 12's Python 3.11.2 does not have it.
"""

from __future__ import annotations

import io
import shutil
import tarfile
from pathlib import Path


def unpack(packed: bytes, into: Path) -> None:
    """Links, devices and names that lead out of `into` are left out: a node is not trusted to write here."""
    into.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            target = (into / member.name).resolve()
            if target.is_relative_to(into.resolve()):
                _unpack(archive, member, target)


def _unpack(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
    source = archive.extractfile(member) if member.isfile() else None
    if source:
        target.parent.mkdir(parents=True, exist_ok=True)
        with source, target.open("wb") as file:
            shutil.copyfileobj(source, file)
