"""The table, the CSV and the lines of JSON."""

import csv
import io
from pathlib import Path

import pytest

from report.page import page
from report.rows import csv_text, jsonl
from report.table import WIDTH, table
from spec.record import Check, Record, RunDocument

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", ["local", "gpu", "refused"])
def test_table_matches_its_golden(name: str, request: pytest.FixtureRequest) -> None:
    assert table(request.getfixturevalue(name)) == (GOLDEN / f"{name}.txt").read_text()


@pytest.mark.parametrize("name", ["local", "gpu"])
def test_csv_matches_its_golden(name: str, request: pytest.FixtureRequest) -> None:
    assert csv_text(request.getfixturevalue(name)) == (GOLDEN / f"{name}.csv").read_text()


def spoilt(document: RunDocument, detail: str) -> RunDocument:
    """All cells invalid with one reason."""
    check = Check(name="errors", outcome="fail", detail=detail)
    cells = tuple(record.model_copy(update={"valid": False, "checks": (check,)}) for record in document.cells)
    return document.model_copy(update={"cells": cells, "message": detail})


@pytest.mark.parametrize("detail", ["x" * 5000, "word " * 1000, "two\nlines"], ids=["long", "many", "lines"])
def test_table_fits_its_width(local: RunDocument, detail: str) -> None:
    lines = table(spoilt(local, detail)).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert all(str(record.cell) in "\n".join(lines) for record in local.cells)


def test_table_shows_no_figure_and_no_price_of_an_invalid_cell(local: RunDocument) -> None:
    invalid = next(record for record in local.cells if not record.valid)
    (row,) = (line for line in table(local).splitlines() if line.startswith(str(invalid.cell)))
    assert "INVALID" in row
    assert "$" not in row


def test_text_of_a_server_cannot_steer_a_terminal(local: RunDocument) -> None:
    found = table(spoilt(local, "\x1b[2J\x1b]0;title\x07 502\r\n"))
    assert all(sign.isprintable() or sign == "\n" for sign in found)


def test_text_of_a_server_is_no_formula_in_a_spreadsheet(local: RunDocument) -> None:
    cells = tuple(record.model_copy(update={"engine": "=HYPERLINK(1)"}) for record in local.cells)
    rows = csv.DictReader(io.StringIO(csv_text(local.model_copy(update={"cells": cells}))))
    assert {row["engine"] for row in rows} == {"'=HYPERLINK(1)"}


def test_csv_marks_invalid_cells_and_gives_them_no_price(local: RunDocument) -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text(local))))
    assert [row["valid"] for row in rows] == ["yes" if record.valid else "no" for record in local.cells]
    assert all(bool(row["usd_per_million_output_tokens"]) == (row["valid"] == "yes") for row in rows)


@pytest.mark.parametrize("name", ["local", "gpu", "refused"])
def test_documents_and_records_survive_json(name: str, request: pytest.FixtureRequest) -> None:
    document: RunDocument = request.getfixturevalue(name)
    assert RunDocument.model_validate_json(document.model_dump_json()) == document
    assert tuple(map(Record.model_validate_json, jsonl(document).splitlines())) == document.cells


def test_cells_that_nobody_measured_are_named(local: RunDocument) -> None:
    asked = tuple(str(record.cell) for record in local.cells)
    cut = local.model_copy(update={"asked": asked, "cells": local.cells[:4]})
    wanted = f"Not measured, 2 of 6 cells: {asked[4]}, {asked[5]}."
    assert wanted in " ".join(table(cut).split())
    assert wanted in page(cut)
    assert " of 6<small>2 not measured</small>" in page(cut)
