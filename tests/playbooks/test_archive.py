"""A node's archive: its files arrive, and nothing is written elsewhere."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from playbooks.archive import unpack
from spec.errors import NodeError


def _packed(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    into = io.BytesIO()
    with tarfile.open(fileobj=into, mode="w:gz") as archive:
        for member, data in members:
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return into.getvalue()


def _link(name: str, target: str) -> tarfile.TarInfo:
    link = tarfile.TarInfo(name)
    link.type, link.linkname = tarfile.SYMTYPE, target
    return link


def test_files_arrive_in_their_folders(tmp_path: Path) -> None:
    unpack(_packed((tarfile.TarInfo("./server/log"), b"hello")), tmp_path / "logs")
    assert (tmp_path / "logs" / "server" / "log").read_bytes() == b"hello"


@pytest.mark.parametrize("keep", [0, 10, 40])
def test_an_archive_that_was_cut_short_is_told(tmp_path: Path, keep: int) -> None:
    whole = _packed((tarfile.TarInfo("log"), b"hello" * 1000))
    with pytest.raises(NodeError, match="no archive"):
        unpack(whole[:keep], tmp_path)


def test_nothing_is_written_elsewhere(tmp_path: Path) -> None:
    outside, into = tmp_path / "outside", tmp_path / "logs"
    outside.mkdir()
    members = (
        (tarfile.TarInfo("../outside/climbed"), b"x"),
        (tarfile.TarInfo(str(outside / "absolute")), b"x"),
        (_link("link", str(outside)), b""),
        (tarfile.TarInfo("link/through"), b"x"),
    )
    unpack(_packed(*members), into)
    assert list(outside.iterdir()) == []
    assert not (into / "link").is_symlink()
