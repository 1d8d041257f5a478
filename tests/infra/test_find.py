"""Which engine is found, and how one is got: on PATH, in the cache, as a release from a server of the test's own."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from infra.engine import build, find, release
from spec.errors import Unfit

SCRIPT = b"#!/bin/sh\necho v3.255.0\n"


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with an empty cache, and a PATH on which a test may put a `pulumi`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("MEGATOK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Folders into which an engine was compiled, by a compiler that takes no minutes."""
    made: list[Path] = []

    def quickly(into: Path, _say: object) -> None:
        into.mkdir()
        program(into / "pulumi", "v3.274.1")
        made.append(into)

    monkeypatch.setattr(build, "build", quickly)
    return made


class Server(ThreadingHTTPServer):
    files: dict[str, bytes]
    asked: list[str]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Serves releases: what a test puts into `files`."""

    class Handler(BaseHTTPRequestHandler):
        server: Server

        def do_GET(self) -> None:
            self.server.asked.append(self.path)
            self._answer(self.server.files.get(self.path))

        def do_HEAD(self) -> None:
            self._answer(b"" if self.path in self.server.files else None)

        def _answer(self, body: bytes | None) -> None:
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_: object) -> None: ...

    serving = Server(("127.0.0.1", 0), Handler)
    serving.files, serving.asked = {}, []
    threading.Thread(target=serving.serve_forever, args=(0.02,), daemon=True).start()
    monkeypatch.setattr(release, "ADDRESS", f"http://127.0.0.1:{serving.server_address[1]}")
    yield serving
    serving.shutdown()
    serving.server_close()


def program(path: Path, version: str) -> Path:
    path.write_text(f"#!/bin/sh\necho {version}\n")
    path.chmod(0o755)
    return path


def archive() -> bytes:
    """What a release is: the programs in a folder `pulumi`."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as into:
        for name in ("pulumi", "pulumi-language-python"):
            entry = tarfile.TarInfo(f"pulumi/{name}")
            entry.size, entry.mode = len(SCRIPT), 0o755
            into.addfile(entry, io.BytesIO(SCRIPT))
    return packed.getvalue()


def offer(server: Server, monkeypatch: pytest.MonkeyPatch, sha256: str) -> str:
    """Put the pinned release on the server, pinned to this checksum."""
    name = f"/pulumi-v{release.VERSION}-{release.target()}.tar.gz"
    server.files[name] = archive()
    monkeypatch.setattr(release, "SHA256", {release.target(): sha256})
    return name


@pytest.mark.parametrize(
    ("version", "taken"), [("v3.250.0", True), ("3.999.1", True), ("v3.249.9", False), ("v4.0.0", False)]
)
def test_a_pulumi_on_path_counts_inside_the_range(bare: Path, version: str, taken: bool) -> None:
    program(bare / "pulumi", version)
    assert (find.find() is not None) is taken


def test_what_the_cache_has_is_taken_and_why_is_told(bare: Path, tmp_path: Path) -> None:
    program(bare / "pulumi", "v3.1.0")
    folder = tmp_path / "cache" / "engine" / f"v{release.VERSION}"
    folder.mkdir(parents=True)
    program(folder / "pulumi", "v3.255.0")
    found = find.find()
    assert found
    assert found.path == folder / "pulumi"
    assert found.why == f"in the cache; {bare / 'pulumi'} is not a version from 3.250.0 to below 4.0.0"


def test_without_an_engine_the_way_out_is_told() -> None:
    with pytest.raises(Unfit, match="run tools/engine"):
        find.engine_path()


def test_the_release_is_unpacked_when_its_checksum_fits(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(server, monkeypatch, hashlib.sha256(archive()).hexdigest())
    got = find.obtain(print)
    assert got.why == f"official release {release.VERSION}, checksum verified"
    assert (got.path.parent / "pulumi-language-python").read_bytes() == SCRIPT
    assert find.engine_path() == got.path


def test_another_checksum_is_refused_and_the_engine_compiled(
    server: Server, monkeypatch: pytest.MonkeyPatch, compiled: list[Path]
) -> None:
    offer(server, monkeypatch, "0" * 64)
    got = find.obtain(print)
    assert "not 000000" in got.why
    assert got.path.parent.name == f"v{build.version()}-{build.digest()}"
    assert len(compiled) == 1


def test_where_no_checksum_is_pinned_the_published_one_counts(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    name = offer(server, monkeypatch, "")
    monkeypatch.setattr(release, "SHA256", {})
    digest = hashlib.sha256(archive()).hexdigest()
    server.files[f"/pulumi-{release.VERSION}-checksums.txt"] = f"{digest}  {name[1:]}\n".encode()
    assert find.obtain(print).why.startswith("official release")


@pytest.mark.usefixtures("server")
def test_without_a_release_it_is_compiled_and_that_is_said(compiled: list[Path]) -> None:
    said: list[str] = []
    got = find.obtain(said.append)
    assert "HTTP Error 404" in said[0]
    assert got.why.startswith("compiled from the pinned Go module, as http://127.0.0.1:")
    assert got.path.parent != compiled[0]  # it was given its name when it was whole


def test_two_at_once_get_it_once(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    name = offer(server, monkeypatch, hashlib.sha256(archive()).hexdigest())
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda _: find.obtain(print), range(4)))
    assert len({engine.path for engine in got}) == 1
    assert server.asked == [name]


@pytest.mark.usefixtures("server")
def test_a_build_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(into: Path, _say: object) -> None:
        into.mkdir()
        raise Unfit("no compiler")

    monkeypatch.setattr(build, "build", broken)
    with pytest.raises(Unfit, match="no compiler"):
        find.obtain(print)
    assert [path.name for path in (tmp_path / "cache" / "engine").iterdir()] == ["lock"]


def test_the_pins_fit_each_other() -> None:
    """The compiled and the released engine are both supported, and go.sum knows the module that go.mod pins."""
    for version in (build.version(), release.VERSION):
        assert find.OLDEST <= tuple(int(part) for part in version.split(".")) < find.BELOW
    assert f"{build.PACKAGE} v{build.version()} h1:" in (build.SOURCE / "go.sum").read_text()
