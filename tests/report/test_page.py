"""The HTML page: what it shows, and what it must not do."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from report.page import TEMPLATES, page
from spec.receipt import Receipt
from spec.record import Check, Forecast, Phase, Record, RunDocument

HOSTILE = "\"><script>alert(1)</script><img src=x onerror=alert(1)>'&{{ 7 * 7 }}"
FETCHES = {"src", "href", "action", "data", "poster", "srcset", "background", "xlink:href", "formaction", "ping"}


class Elements(HTMLParser):
    """Every start tag with its attributes, and the text beside."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def hostile_record(record: Record) -> Record:
    return record.model_copy(
        update={
            "engine": HOSTILE,
            "model": HOSTILE,
            "valid": False,
            "checks": (Check(name=HOSTILE, outcome="fail", detail=HOSTILE),),
            "commands": (HOSTILE,),
            "versions": {HOSTILE: HOSTILE},
            "evidence": (HOSTILE,),
            "forecast": Forecast(output_tok_per_s=1.0, low=0.5, high=2.0, source=HOSTILE),
        }
    )


def hostile_receipt(receipt: Receipt) -> Receipt:
    names = {"id": HOSTILE, "name": HOSTILE, "kind": HOSTILE, "cloud": HOSTILE, "region": HOSTILE}
    lines = tuple(
        line.model_copy(update={"note": HOSTILE, "resource": line.resource.model_copy(update=names)})
        for line in receipt.lines
    )
    return receipt.model_copy(update={"lines": lines, "unproven": (HOSTILE,), "ledger": HOSTILE, "proven": False})


@pytest.fixture(scope="module")
def hostile(gpu: RunDocument) -> RunDocument:
    """Every free text of a document is an attack."""
    assert gpu.receipt is not None
    phase = Phase(name=HOSTILE, started_at=gpu.phases[0].started_at, seconds=1.0, own_s=1.0)
    texts = dict.fromkeys(("run", "title", "recipe", "message", "folder", "plan"), HOSTILE)
    parts = {
        "phases": (phase,),
        "cells": tuple(map(hostile_record, gpu.cells)),
        "receipt": hostile_receipt(gpu.receipt),
    }
    return gpu.model_copy(update=texts | parts)


def test_hostile_text_stays_text(gpu: RunDocument, hostile: RunDocument) -> None:
    attacked, plain = Elements(page(hostile)), Elements(page(gpu))
    assert {tag for tag, _ in attacked.tags} <= {tag for tag, _ in plain.tags}
    assert not [name for _, attributes in attacked.tags for name in attributes if name.startswith("on")]
    assert HOSTILE in attacked.text


@pytest.mark.parametrize("name", ["local", "gpu", "refused", "hostile"])
def test_page_fetches_nothing_and_runs_nothing(name: str, request: pytest.FixtureRequest) -> None:
    html = page(request.getfixturevalue(name))
    found = Elements(html)
    assert not {"script", "iframe", "object", "embed", "base", "form"} & {tag for tag, _ in found.tags}
    addresses = {attributes[key] for _, attributes in found.tags for key in FETCHES & set(attributes)}
    assert addresses <= {"data:,"}
    assert not re.search(r"url\(|@import", html.split("<style>")[1].split("</style>")[0])
    assert "default-src 'none'" in html


def test_title_says_what_a_reader_must_not_overlook(local: RunDocument, gpu: RunDocument) -> None:
    assert re.search(r"<title>.*CPU stand-in · simulated dollars</title>", page(local))
    assert re.search(r"<title>DP8 or TP8 for chat on B300\?</title>", page(gpu))


def test_invalid_cells_are_struck_out_and_not_priced(local: RunDocument) -> None:
    html = page(local)
    (row,) = re.findall(r'<tbody class="one invalid">.*?</tbody>', html, re.DOTALL)
    assert row.count("<s>") == 9
    assert "not priced" in row
    assert "server-1 died" in row
    assert html.count("<s>") == row.count("<s>")


def test_a_cell_without_figures_has_its_row(local: RunDocument) -> None:
    bare = local.cells[0].model_copy(update={"figures": None, "valid": False})
    text = page(local.model_copy(update={"cells": (bare,)}))
    assert str(bare.cell) in text


def test_one_repeat_is_not_ranked(local: RunDocument, gpu: RunDocument) -> None:
    assert "Rank within" not in page(local)
    assert "One repeat of each cell" in page(local)
    assert "Rank within" in page(gpu)


def test_page_holds_the_plan_the_phases_and_the_proof(local: RunDocument) -> None:
    text = Elements(page(local)).text
    assert local.receipt is not None
    assert local.plan in text
    assert all(phase.name in text for phase in local.phases)
    assert all(line.resource.id in text for line in local.receipt.lines)
    assert "2026-11-30 21:43:12Z" in text


def test_an_unproven_receipt_shows_first(gpu: RunDocument) -> None:
    html = page(gpu)
    assert html.index("Teardown is unproven") < html.index("<h2>Cells")


PAIRS = [
    ("ink", "card"),
    ("ink", "good-ground"),
    ("ink", "bad-ground"),
    ("soft", "card"),
    ("soft", "ground"),
    ("note", "note-ground"),
    ("good", "good-ground"),
    ("bad", "bad-ground"),
    ("bad", "card"),
]


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("ink", "ground"), PAIRS)
def test_text_stands_out_from_its_ground(ink: str, ground: str, scheme: int) -> None:
    """WCAG AA: 4.5 to 1."""
    css = Path(TEMPLATES / "page.css").read_text()
    values = [re.findall(rf"--{name}: (#\w{{6}})", css)[scheme] for name in (ink, ground)]
    dark, light = sorted(map(luminance, values))
    assert (light + 0.05) / (dark + 0.05) >= 4.5
