"""A run's report: the page, the records and the picture, written together or not at all."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from report.atomic import write_files
from report.page import page
from report.rows import csv_text, jsonl
from spec.errors import MegatokError, RecipeError
from spec.record import RunDocument


def write(document: RunDocument, into: Path) -> tuple[Path, ...]:
    """The paths written. MegatokError where the disk refuses; what was there before then still is."""
    try:
        return write_files(_contents(document), into)
    except OSError as error:
        raise MegatokError(f"cannot write the report into {into}: {error.strerror}; free some space there") from error


def _contents(document: RunDocument) -> dict[str, bytes]:
    return {
        "report.html": page(document).encode(),
        "records.jsonl": jsonl(document).encode(),
        "records.csv": csv_text(document).encode(),
        "throughput.png": import_module("report.png").throughput(document),
    }


def load(path: Path) -> RunDocument:
    """A run's `document.json`."""
    try:
        return RunDocument.model_validate_json(path.read_bytes())
    except OSError as error:
        raise RecipeError(f"no run document at {path} ({error.strerror}); `megatok ls` names the runs") from error
    except ValueError as error:  # a refusal of Pydantic's: how many, where the first is, and why
        first = " ".join(line.strip() for line in str(error).splitlines()[:3])
        raise RecipeError(f"{path} is not a run document: {first}; it may be of another version") from error
