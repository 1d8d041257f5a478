"""The official release of the engine: an archive with the language hosts beside `pulumi`. Only the standard library."""

from __future__ import annotations

import hashlib
import platform
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

VERSION = "3.255.0"
ADDRESS = "https://get.pulumi.com/releases/sdk"
SHA256 = {
    "linux-x64": "cf559568e2c32f7fae56ea3de8ae5fa48973ba8c5aa9dd2b3dc0c8898fe50dba",
    "linux-arm64": "699fbc6ea848d997e9b3645487f108d27b1b55ec807c7576406131e6e080f0e3",
}
"""Pinned here, as several projects independently pin them. Other platforms are checked against the list that is
published beside the archive, over TLS: that shows a broken download, not a changed server: docs/decisions/engine.md."""
CONNECT_S = 5.0
READ_S = 60.0
_ARCH = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}


class Refused(Exception):
    """The archive cannot be had here, or is not what was pinned; the message says why."""


def target() -> str:
    """This machine in the words of the release, like `linux-x64`."""
    machine = platform.machine().lower()
    if sys.platform not in {"linux", "darwin"} or machine not in _ARCH:
        raise Refused(f"no release for {sys.platform} on {machine}")
    return f"{sys.platform}-{_ARCH[machine]}"


def unpack(into: Path) -> None:
    """Get the pinned archive, check it, and leave its programs in `into`."""
    name = f"pulumi-v{VERSION}-{target()}.tar.gz"
    _fetch(f"{ADDRESS}/{name}", method="HEAD", timeout_s=CONNECT_S)
    wanted = SHA256.get(target()) or _published(name)
    archive = _fetch(f"{ADDRESS}/{name}", method="GET", timeout_s=READ_S)
    found = hashlib.sha256(archive).hexdigest()
    if found != wanted:
        raise Refused(f"{name} has SHA-256 {found}, not {wanted}")
    extract(archive, into)


def extract(archive: bytes, into: Path) -> None:
    """The archive holds one folder, `pulumi/`; its files end up in `into` itself."""
    with tempfile.TemporaryDirectory(dir=into.parent) as folder:
        packed = Path(folder) / "archive"
        packed.write_bytes(archive)
        with tarfile.open(packed) as opened:
            if hasattr(tarfile, "data_filter"):
                opened.extraction_filter = tarfile.data_filter
            opened.extractall(folder)
        (Path(folder) / "pulumi").rename(into)


def _published(name: str) -> str:
    text = _fetch(f"{ADDRESS}/pulumi-{VERSION}-checksums.txt", method="GET", timeout_s=CONNECT_S).decode()
    sums = {file.lstrip("*"): digest for digest, file in (line.split() for line in text.splitlines() if line.strip())}
    if name not in sums:
        raise Refused(f"the published checksums do not name {name}")
    return sums[name]


def _fetch(url: str, *, method: str, timeout_s: float) -> bytes:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=timeout_s) as answer:
            data: bytes = answer.read()
            return data
    except OSError as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        raise Refused(f"{url} does not answer: {error}") from None
