"""Files: all of them whole, or none."""

import contextlib
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from report.write import load, write
from spec.errors import MegatokError, RecipeError
from spec.record import RunDocument

NAMES = {"report.html", "records.jsonl", "records.csv", "throughput.png"}


@contextlib.contextmanager
def largest_file(size: int) -> Iterator[None]:
    """The kernel refuses to let any file grow past `size`, as a full disk would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("name", ["local", "gpu", "refused"])
def test_writes_all_files_and_nothing_else(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    paths = write(request.getfixturevalue(name), tmp_path / "report")
    assert {path.name for path in paths} == NAMES
    assert set(paths) == set((tmp_path / "report").iterdir())
    assert (tmp_path / "report" / "throughput.png").read_bytes().startswith(b"\x89PNG")


def test_a_title_is_no_formula_in_the_picture(local: RunDocument, tmp_path: Path) -> None:
    write(local.model_copy(update={"title": r"worth $5 or $\frac?"}), tmp_path)


def test_a_full_disk_leaves_nothing_half_made(local: RunDocument, tmp_path: Path) -> None:
    with largest_file(20_000), pytest.raises(MegatokError, match="cannot write the report into .*report: .*free some"):
        write(local, tmp_path / "report")
    assert not list(tmp_path.iterdir())


def test_a_full_disk_keeps_the_report_that_was_there(local: RunDocument, gpu: RunDocument, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in write(local, tmp_path)}
    with largest_file(20_000), pytest.raises(MegatokError):
        write(gpu, tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_folder_that_is_a_file_is_told(local: RunDocument, tmp_path: Path) -> None:
    (tmp_path / "report").write_text("")
    with pytest.raises(MegatokError, match="cannot write the report"):
        write(local, tmp_path / "report")


def test_a_document_is_read_back(gpu: RunDocument, tmp_path: Path) -> None:
    path = tmp_path / "document.json"
    path.write_text(gpu.model_dump_json(indent=1))
    assert load(path) == gpu


def test_no_document_is_told(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="no run document at .*nowhere"):
        load(tmp_path / "nowhere")


def test_another_file_is_no_document(tmp_path: Path) -> None:
    (tmp_path / "document.json").write_text('{"version": 2}')
    with pytest.raises(RecipeError, match="is not a run document"):
        load(tmp_path / "document.json")
