"""The page in a real browser: a phone and a desk, light and dark."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from report.page import page
from spec.record import RunDocument

TOOL = Path(__file__).resolve().parents[2] / "tools" / "screenshots"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not any(map(shutil.which, BROWSERS)), reason="no Chromium on PATH to look with"),
]


def brightness(colour: str) -> int:
    return sum(int(part) for part in re.findall(r"\d+", colour)[:3])


@pytest.mark.parametrize("name", ["local", "gpu", "refused"])
def test_page_fits_phones_and_desks_in_light_and_dark(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    document: RunDocument = request.getfixturevalue(name)
    (tmp_path / "report.html").write_text(page(document))
    command = [sys.executable, str(TOOL), str(tmp_path / "report.html"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["outside"] == []
    assert [(shot["asked_width"], shot["scheme"]) for shot in found["shots"]] == [
        (390, "light"),
        (390, "dark"),
        (1280, "light"),
        (1280, "dark"),
    ]
    for shot in found["shots"]:
        assert (shot["width"], shot["overflow_px"], shot["past_edge"]) == (shot["asked_width"], 0, [])
        assert shot["cut_off"] == 0
        assert shot["dark"] is (shot["scheme"] == "dark")
        assert (brightness(shot["ink"]) > brightness(shot["ground"])) is shot["dark"]
        assert Path(shot["file"]).read_bytes().startswith(b"\x89PNG")
