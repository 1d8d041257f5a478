"""Several files written together: all of them whole, or none."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path


def write_files(contents: Mapping[str, bytes], into: Path) -> tuple[Path, ...]:
    """Write beside, flush to disk, rename. After an OSError, e.g. a full disk, the folder is as it was before."""
    into.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix=".new-", dir=into) as fresh:
            for name, data in contents.items():
                _flushed(Path(fresh) / name, data)
            return tuple((Path(fresh) / name).replace(into / name) for name in contents)
    except OSError:
        with contextlib.suppress(OSError):
            into.rmdir()  # only an empty folder, i.e. one that this call made
        raise


def _flushed(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
