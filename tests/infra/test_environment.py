"""The environment in which Pulumi runs, and the files that it needs: made once, for their owner only."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from infra import keys
from infra.engine import environment, settings
from spec.errors import Unfit
from spec.home import ROOT


@pytest.fixture(autouse=True)
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An engine on PATH that came without a language host."""
    path = tmp_path / "bin" / "pulumi"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\necho v3.260.0\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")
    for name in ("PULUMI_BACKEND_URL", "PULUMI_HOME", "PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE"):
        monkeypatch.delenv(name, raising=False)
    return path


def test_all_that_must_not_be_lost_lies_in_our_home(home: Path) -> None:
    told = environment()
    assert told["PULUMI_BACKEND_URL"] == f"file://{home}/state"
    assert told["PULUMI_CONFIG_PASSPHRASE_FILE"] == f"{home}/passphrase"
    assert told["MEGATOK_HOME"] == str(home)
    assert (home / "state").is_dir()


def test_what_the_user_has_chosen_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", "s3://bucket")
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "mine")
    told = environment()
    assert told["PULUMI_BACKEND_URL"] == "s3://bucket"
    assert "PULUMI_CONFIG_PASSPHRASE_FILE" not in told


def test_our_language_host_stands_in_only_where_there_is_none(engine: Path) -> None:
    ours = str(ROOT / "infra" / "engine" / "host")
    assert ours in environment()["PATH"].split(":")
    (engine.parent / "pulumi-language-python").touch()
    assert ours not in environment()["PATH"].split(":")


def test_a_symlinked_engine_has_its_language_host_beside_the_real_one(
    tmp_path: Path, engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "links" / "pulumi"
    link.parent.mkdir()
    link.symlink_to(engine)
    (engine.parent / "pulumi-language-python").touch()
    monkeypatch.setenv("PATH", f"{link.parent}:/usr/bin:/bin")
    assert str(ROOT / "infra" / "engine" / "host") not in environment()["PATH"].split(":")


def test_the_passphrase_is_made_once_and_for_its_owner() -> None:
    with ThreadPoolExecutor(8) as pool:
        words = set(pool.map(lambda _: settings.passphrase_file().read_bytes(), range(8)))
    assert len(words) == 1
    assert len(words.pop()) >= 32
    assert stat.S_IMODE(settings.passphrase_file().stat().st_mode) == 0o600
    assert len(list(settings.passphrase_file().parent.glob("passphrase*"))) == 1


def test_the_key_is_made_once_and_for_its_owner() -> None:
    with ThreadPoolExecutor(8) as pool:
        public = set(pool.map(lambda _: keys.public_key(keys.key_file()), range(8)))
    assert len(public) == 1
    assert public.pop().startswith("ssh-ed25519 AAAA")
    assert stat.S_IMODE(keys.key_file().stat().st_mode) == 0o600


def test_a_key_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("no key")
    with pytest.raises(Unfit, match=r"key cannot be read as a key"):
        keys.public_key(tmp_path / "key")
