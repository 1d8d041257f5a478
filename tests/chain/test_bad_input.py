"""What is refused before anything is rented: exit code, one clear message, and nothing left of it."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable
from pathlib import Path

import pytest

from campaign.folder import RunFolder
from cli.main import main
from infra.keys import key_file
from spec.record import RunDocument
from tests.chain.rig import SMALL, Aftermath, Done, megatok, recipe

Refused = Callable[..., Done]

SSH = """\
cluster:
  name: own
  cloud: ssh
  gpu: cpu
  stand_in: cpu
  node_type: host
  nodes: {nodes}
  gpus_per_node: 1
  hosts: [{hosts}]
"""
LOCAL = """\
cluster:
  name: one
  cloud: local
  gpu: cpu
  stand_in: cpu
  node_type: cpu-1
  nodes: 1
  gpus_per_node: 1
  max_usd_per_hour: 0.10
"""
GRID = SMALL[SMALL.index("sweep:") :]
HOST = "{{address: 127.0.0.1, port: 9, user: root, key_file: {key}, host_key: {host_key}}}"


@pytest.fixture
def refused(aftermath: Aftermath, capsys: pytest.CaptureFixture[str]) -> Refused:
    """Runs the command line here, which must refuse in one message and leave nothing."""

    def call(*words: str | Path) -> Done:
        code = main([*map(str, words)])
        said = capsys.readouterr()
        aftermath.never_rented()
        assert not list((aftermath.home / "runs").glob("*"))
        return Done(code, said.out, said.err)

    return call


@pytest.mark.parametrize(
    ("code", "said", "old", "new"),
    [
        (2, "3:1: budgt_usd: unknown key 'budgt_usd'; did you mean 'budget_usd'?", "budget", "budgt"),
        (2, "1:7: name: 'Very Small' must be lower-case", "name: small", "name: Very Small"),
        (2, "key 'model' stands twice", "model: smollm2", "model: smollm2\nmodel: smollm2"),
        (2, "4:13: lifetime_s: 'ten' must be a number", "lifetime_s: 600", "lifetime_s: ten"),
        (2, "units live in names: use lifetime_s", "lifetime_s: 600", "lifetime_h: 1"),
        (2, "max_usd_per_hour: -0.1", "hour: 0.10", "hour: -0.10"),
        (2, "sweep: [] is empty", GRID, "sweep: []\n"),
        (2, "concurrency: [] is empty", "concurrency: [1]", "concurrency: []"),
        (2, "DP1xTP1-none-c1-r1 stands twice; remove one", "concurrency: [1]", "concurrency: [1, 1]"),
        (2, "DP2xTP1", "[DP1xTP1]", "[DP2xTP1]"),
        (2, "DP1xTP2", "[DP1xTP1]", "[DP1xTP2]"),
        (2, "'two replicas'", "[DP1xTP1]", "[two replicas]"),
        (2, "'loco'", "cloud: local", "cloud: loco"),
        (2, "unknown engine 'lamacpp'; there are llamacpp", "name: llamacpp", "name: lamacpp"),
        (2, "unknown gateway 'ngin'; there are none, nginx", "gateway: [none]", "gateway: [ngin]"),
        (2, "no 'smollm' in recipes/models; did you mean 'smollm2'?", "model: smollm2", "model: smollm"),
        (2, "no 'gpu9000' in recipes/gpus", "gpu: cpu", "gpu: gpu9000"),
        (2, "no price for node type 'cpu-9'", "node_type: cpu-1", "node_type: cpu-9"),
        (2, "stand_in", "  stand_in: cpu\n", ""),
        (2, "context_tokens", "context_tokens: 256", "context_tokens: 16"),
        (2, "speculation", "slots: 2", "slots: 2, speculation: mtp4"),
        (3, "budget_usd is missing; add it, or give --budget USD", "budget_usd: 0.10\n", ""),
        (
            3,
            "above its budget of $0.0100, which buys each node 345 s, below the least of 600 s",
            "usd: 0.10",
            "usd: 0.01",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_recipe_is_refused(refused: Refused, tmp_path: Path, code: int, said: str, old: str, new: str) -> None:
    done = refused("run", recipe(tmp_path, (old, new)))
    assert (done.rc, done.out) == (code, "")
    assert said in done.complaint()


@pytest.mark.parametrize(
    ("code", "said", "words"),
    [
        (2, "name a recipe (recipes/campaigns/ holds some), or a run with --resume RUN", ("run",)),
        (2, "nowhere.yaml: cannot be read: No such file or directory", ("run", "nowhere.yaml")),
        (2, "is a folder; name a file in it", ("run", "/")),
        (2, "no run 'gone' on this machine", ("run", "--resume", "gone")),
        (2, "no run '../..' on this machine", ("run", "--resume", "../..")),
        (2, "leave 'local' out", ("run", "local", "--resume", "gone")),
        (2, "name a recipe", ("run",)),
        (2, "'Not OK' is no run id", ("run", "local", "--id", "Not OK")),
        (2, "no cell 'DP9' in this campaign; it has DP2xTP1-none-c1-r1", ("run", "local", "--only", "DP9")),
        (2, "'one' is not an amount of dollars", ("run", "local", "--budget", "one")),
        (2, "-1 is not above zero", ("run", "local", "--budget", "-1")),
        (2, "NaN is not above zero", ("run", "local", "--budget", "NaN")),
        (2, "No such option '--frobnicate'", ("run", "local", "--frobnicate")),
        (2, "No such command 'rnu'", ("rnu", "local")),
        (3, "is above its budget of $0.0100", ("run", "local", "--budget", "0.01")),
        (3, "is above its budget of $0.0100", ("plan", "local", "--budget", "0.01")),
        (3, "is above its budget of $0.0100", ("up", "local", "--budget", "0.01")),
        (
            3,
            "is above its budget of $0.0001",
            ("deploy", "local", "--model", "smollm2", "--budget", "0.0001", "--hours", "1"),
        ),
        (2, "unknown cloud 'moon'", ("deploy", "moon", "--model", "smollm2", "--budget", "1", "--hours", "1")),
        (2, "no 'gpt' in recipes/models", ("deploy", "local", "--model", "gpt", "--budget", "1", "--hours", "1")),
        (2, "'--budget'", ("deploy", "local", "--model", "smollm2", "--hours", "1")),
        (2, "no run 'gone'", ("down", "gone")),
        (2, "no run 'gone'", ("stop", "gone")),
        (2, "no run 'gone'", ("smoke", "gone")),
        (2, "no run 'gone'", ("logs", "gone")),
        (2, "no run 'gone'", ("report", "gone")),
        (2, "'gone' holds nothing", ("status", "gone")),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else None,
)
def test_command_is_refused(refused: Refused, code: int, said: str, words: tuple[str, ...]) -> None:
    done = refused(*words)
    assert done.rc == code
    assert said in done.complaint()


@pytest.mark.parametrize("words", [("run", "nowhere.yaml"), ("run", "--budget", "-1", "local"), ("run",)], ids="-".join)
def test_refused_run_is_one_document_too(refused: Refused, words: tuple[str, ...]) -> None:
    done = refused(*words, "--json")
    document = RunDocument.model_validate_json(done.out)
    assert (document.exit_code, done.rc) == (2, 2)
    assert document.message == done.complaint()


def own_hosts(folder: Path, key: str, *ports: int) -> Path:
    """A campaign on hosts that exist, one for each port of this machine."""
    blob = base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0 " + secrets.token_bytes(32)).decode()
    host = HOST.format(key=key, host_key=f"ssh-ed25519 {blob}")
    hosts = ", ".join(host.replace("port: 9", f"port: {port}") for port in ports)
    return recipe(folder, (LOCAL, SSH.format(nodes=len(ports), hosts=hosts)))


def test_ports_of_two_nodes_on_one_address_clash(refused: Refused, tmp_path: Path) -> None:
    done = refused("run", own_hosts(tmp_path, str(key_file()), 1022, 1122))
    assert done.rc == 2
    assert "each its own" in done.complaint()


@pytest.mark.parametrize("key", ["missing", "no-key"])
def test_key_that_cannot_be_read(refused: Refused, tmp_path: Path, key: str) -> None:
    (tmp_path / "no-key").write_text("no key at all")
    done = refused("run", own_hosts(tmp_path, str(tmp_path / key), 22))
    assert done.rc == 2
    assert f"key_file {tmp_path / key} cannot be used" in done.complaint()
    assert "name a private key without a passphrase" in done.complaint()


def test_no_engine_says_what_to_do_at_once(refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("MEGATOK_CACHE", str(tmp_path / "cache"))
    done = refused("run", recipe(tmp_path))
    assert done.rc == 10
    assert "run tools/engine" in done.complaint()
    doctor = refused("doctor")
    assert doctor.rc == 10
    assert "run tools/engine" in doctor.out


def test_id_of_a_run_that_exists(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    RunFolder("taken").write("recipe.yaml", "mine")
    assert main(["run", str(recipe(tmp_path)), "--id", "taken"]) == 2
    assert "run taken exists already; go on with --resume taken, or take another id" in capsys.readouterr().err
    assert (home / "runs" / "taken" / "recipe.yaml").read_text() == "mine"


def test_the_process_itself_ends_with_the_code(aftermath: Aftermath, tmp_path: Path) -> None:
    done = megatok("run", recipe(tmp_path, ("budget_usd: 0.10\n", "")))
    assert done.rc == 3
    assert "budget_usd is missing" in done.complaint()
    aftermath.never_rented()
