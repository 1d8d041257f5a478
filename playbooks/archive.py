"""Unpack what a node has packed: files and folders, and only below one folder.

`tarfile`'s own filter would do; Debian 12's Python 3.11.2 does not have it.
"""

from __future__ import annotations

import io
import shutil
import tarfile
import zlib
from pathlib import Path

from spec.errors import NodeError


def unpack(packed: bytes, into: Path) -> None:
    """Links, devices and names that lead out of `into` are left out: a node is not trusted to write here.

    NodeError where the archive is cut short or none, as a node with a full disk leaves it, or cannot be written here.
    """
    try:
        into.mkdir(parents=True, exist_ok=True)
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            for member in archive:
                target = (into / member.name).resolve()
                if target.is_relative_to(into.resolve()):
                    _unpack(archive, member, target)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        reason = str(error).splitlines()[0].rstrip(":")
        raise NodeError(
            f"its files came as {len(packed)} bytes that are no archive ({reason}); is its disk full?"
        ) from None
    except OSError as error:
        raise NodeError(f"its files cannot be written to {into}: {error.strerror or error}; free some space") from None


def _unpack(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
    source = archive.extractfile(member) if member.isfile() else None
    if source:
        target.parent.mkdir(parents=True, exist_ok=True)
        with source, target.open("wb") as file:
            shutil.copyfileobj(source, file)
