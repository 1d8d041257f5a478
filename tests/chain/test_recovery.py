"""What a user loses or breaks, what is seen then, and what is typed: rows of docs/recovery.md that need a cloud."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from cli.main import main
from infra import stack
from infra.clouds.local.program import call
from infra.teardown import teardown
from money.account import account
from money.chain import digest
from money.ledger import Ledger
from spec.errors import MegatokError, TeardownUnproven
from spec.home import ROOT, ledger_address
from tests.chain.rig import Aftermath, megatok, order, recipe

pytestmark = pytest.mark.timeout(400)

READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'


def bills() -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = call("GET", "/v1/bill")["lines"]
    return lines


def told(capsys: pytest.CaptureFixture[str], *words: str, code: int) -> str:
    """All that a command says, once it has ended as it should."""
    ended = main(words)
    said = capsys.readouterr()
    assert ended == code, said
    return said.out + said.err


def test_ledger_is_deleted(aftermath: Aftermath, capsys: pytest.CaptureFixture[str]) -> None:
    """No new create until what stands is on record again or gone: the machine, its disk and its address."""
    order(node_type="cpu-1-disk")
    shutil.rmtree(aftermath.home / "ledger")
    assert "unknown: the ledger does not know its run" in told(capsys, "audit", code=7)
    with pytest.raises(TeardownUnproven, match="megatok audit --fix puts it on record"):
        order(run="other")
    assert len(bills()) == 3
    assert told(capsys, "audit", "--fix", code=0).count("-> adopted") == 3
    order(run="other")
    assert told(capsys, "audit", code=0).count("by right") == 4
    assert "all proven gone" in told(capsys, "down", "run", code=0)
    assert teardown("other", ledger_address()).proven
    spent = sum(account(Ledger(ledger_address()).events(), run).settled_usd for run in ("run", "other"))
    assert spent == sum(Decimal(line["usd"]) for line in bills())
    assert not any(aftermath.bills().values())


def test_state_is_deleted(aftermath: Aftermath, tmp_path: Path, run_id: str) -> None:
    """The same nodes are found by the ledger, and adopted."""
    up = ("up", recipe(tmp_path), "--id", run_id)
    assert megatok(*up).rc == 0
    shutil.rmtree(aftermath.home / "state")
    again = megatok(*up)
    assert again.rc == 0, again.err
    assert megatok("down", run_id).rc == 0
    aftermath.nothing(run_id, nodes=1)


@pytest.mark.parametrize("hours", [-2, 2])
def test_clock_is_wrong(
    aftermath: Aftermath, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], hours: int
) -> None:
    """Ends and bills are by the cloud's clock."""
    monkeypatch.setenv("MEGATOK_CLOCK_OFFSET_S", str(hours * 3600))
    order()
    (node,) = call("GET", "/v1/nodes", query={"tag": "megatok-run"})
    left = datetime.fromisoformat(node["expires_at"]) - datetime.now(UTC)
    assert timedelta(seconds=500) < left <= timedelta(seconds=600)
    assert "by right" in told(capsys, "audit", "--fix", code=0)
    receipt = teardown("run", ledger_address())
    assert receipt.proven
    assert receipt.usd == sum(Decimal(line["usd"]) for line in bills())


@pytest.mark.parametrize("what", ["damaged", "newer"])
def test_ledger_cannot_be_read(aftermath: Aftermath, capsys: pytest.CaptureFixture[str], what: str) -> None:
    """Nothing is created on a budget that cannot be read; what stands goes by its tags, and is proven afterwards."""
    order()
    path = aftermath.home / "ledger" / "ledger.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'{"version":2', b'{"version":99') if what == "newer" else b"{" + whole)
    with pytest.raises(MegatokError, match="ledger"):
        order(run="other")
    assert len(bills()) == 1
    seen = told(capsys, "audit", code=7)
    assert "LEDGER NOT READ: line 1 of the ledger" in seen and "not known: the ledger cannot be read" in seen
    assert "mend the ledger" in told(capsys, "audit", "--fix", code=7)
    assert "which nothing proves meanwhile" in told(capsys, "down", "run", code=7)
    assert list(aftermath.bills().values()) == [False]
    path.write_bytes(whole)
    assert "all proven gone" in told(capsys, "down", "run", code=0)


def test_ledger_of_the_first_version_goes_on(aftermath: Aftermath, capsys: pytest.CaptureFixture[str]) -> None:
    """As an older program wrote it, without owners."""
    order()
    path = aftermath.home / "ledger" / "ledger.jsonl"
    path.write_bytes(b"".join(first_version(path.read_bytes().splitlines())))
    assert "by right" in told(capsys, "audit", code=0)
    order(run="other")
    for run in ("run", "other"):
        assert teardown(run, ledger_address()).proven
        assert account(Ledger(ledger_address()).events(), run).reserved_usd == 0


def first_version(lines: list[bytes]) -> Iterator[bytes]:
    """Their chain of hashes made anew."""
    previous = ""
    for line in lines:
        event = json.loads(line) | {"version": 1, "previous": previous}
        for key in ("owner", "day_usd", "month_usd", "scopes"):
            event.pop(key)
        kept = json.dumps(event).encode()
        previous = digest(kept)
        yield kept + b"\n"


def test_home_cannot_be_written(aftermath: Aftermath, tmp_path: Path) -> None:
    """Looking works; nothing is rented."""
    order()
    audit, up = read_only(aftermath.home, "audit"), read_only(aftermath.home, "up", str(recipe(tmp_path)))
    assert "run " in read_only(aftermath.home, "status").stdout
    assert (audit.returncode, "by right" in audit.stdout) == (0, True), audit.stderr
    assert up.returncode == 1
    assert "Read-only file system" in up.stderr and "unexpected" not in up.stderr
    assert len(bills()) == 1


def read_only(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", "from cli.main import main; raise SystemExit(main())", *words]
    argv = ["unshare", "-m", "sh", "-c", READ_ONLY, str(home), *program]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    if "unshare failed" in done.stderr or "must be superuser" in done.stderr:
        pytest.skip("only root may mount a folder read-only")
    return done


def test_run_that_an_audit_has_ended_is_forgotten(
    aftermath: Aftermath, tmp_path: Path, run_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else its stack would say that nodes stand, and a later `up` would go by what they once were granted."""
    assert megatok("up", recipe(tmp_path), "--id", run_id).rc == 0
    assert "deleted, proven gone" in told(capsys, "audit", "--fix", run_id, code=0)
    assert run_id not in stack.stacks()
    assert not (ROOT / f"Pulumi.{run_id}.yaml").exists()
    assert "nothing stands" in told(capsys, "status", code=0)
    aftermath.nothing(run_id, nodes=1)


def test_what_is_adopted_above_its_budget_is_told_until_it_is_gone(
    aftermath: Aftermath, capsys: pytest.CaptureFixture[str]
) -> None:
    order()
    shutil.rmtree(aftermath.home / "ledger")
    Ledger(ledger_address()).open("run", Decimal("0.001"))
    assert "-> adopted, over budget" in told(capsys, "audit", "--fix", code=3)
    assert "OVER BUDGET: budget of run 'run': " in (seen := told(capsys, "audit", code=3))
    assert "limit 0.001; nothing more is created under it; end what can go with: megatok down run" in seen
    assert "all proven gone" in told(capsys, "down", "run", code=0)
    assert "OVER BUDGET" not in told(capsys, "audit", code=0)


def test_run_that_was_adopted_lives_no_longer(
    aftermath: Aftermath, tmp_path: Path, run_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert megatok("up", recipe(tmp_path), "--id", run_id).rc == 0
    shutil.rmtree(aftermath.home / "ledger")
    assert "-> adopted" in told(capsys, "audit", "--fix", code=0)
    refused = megatok("extend", run_id, "--hours", "0.1")
    assert (refused.rc, f"megatok down {run_id}; then begin anew" in refused.complaint()) == (3, True), refused.err
    assert "all proven gone" in told(capsys, "down", run_id, code=0)
    aftermath.nothing(run_id, nodes=1)
