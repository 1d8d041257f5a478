"""Documents say what is there: links lead somewhere, commands exist, every decision is listed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cli.main import COMMANDS

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files(document: Path) -> None:
    links = LINK.findall(document.read_text())
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = set(LINK.findall((folder / "index.md").read_text()))
    assert listed == {page.name for page in folder.glob("*.md")} - {"index.md"}


def test_readme_names_only_targets_that_make_has() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:`|^    )make ([a-z]+)\b", README, re.MULTILINE)) <= targets


def test_readme_names_only_commands_that_megatok_has() -> None:
    lines = re.findall(r"^    (?:\S*/)?megatok ([a-z]+)", README, re.MULTILINE)
    quoted = re.findall(r"`megatok ([a-z]+)", README)
    assert {*lines, *quoted} <= set(COMMANDS)


def test_readme_names_only_recipes_that_exist() -> None:
    named = set(re.findall(r"recipes/[a-z-]+/[a-z0-9-]+\.yaml", README)) - {"recipes/campaigns/mine.yaml"}
    assert [name for name in named if not (ROOT / name).is_file()] == []
