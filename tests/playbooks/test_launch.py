"""Long processes: started once, looked at, and ended with all that they started. On a real sshd, plain back end.

No systemd runs here: of that back end, only what it calls is tested, through programs of the same names on PATH.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from plan.launch import Launch
from playbooks import launch
from playbooks.run import Host, on_all
from spec.errors import NodeError
from spec.inventory import Node
from tests.playbooks.conftest import Fleet

RUN = "r1"
T = TypeVar("T")


def on(node: Node, task: Callable[[Host], T]) -> T:
    return on_all([node], task, limit_s=60)[node.name]


def sleeper(name: str = "server", script: str = "sleep 300", **more: object) -> Launch:
    return Launch(name=name, node=0, tool="", argv=("bash", "-c", script), **more)  # type: ignore[arg-type]


def begin(node: Node, what: Launch, secrets: dict[str, str] | None = None, **more: bool) -> bool:
    return on(node, lambda host: launch.start(host, RUN, what, {"model": "/m", "cache": "/c"}, secrets or {}, **more))


def look(node: Node, name: str = "server") -> launch.Status:
    return on(node, lambda host: launch.status(host, RUN, [name]))[name]


def end(node: Node, name: str = "server", grace_s: float = 5) -> None:
    on(node, lambda host: launch.stop(host, RUN, [name], grace_s=grace_s))


def ended(node: Node, name: str = "server") -> launch.Status:
    for _ in range(100):
        if not (now := look(node, name)).alive:
            return now
        time.sleep(0.05)
    raise AssertionError(f"{name} still runs")


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def place(fleet: Fleet, host_node: Node) -> Path:
    return fleet.folder / host_node.name / launch.folder(RUN, "server")


def test_a_second_start_changes_nothing(host_node: Node) -> None:
    assert begin(host_node, sleeper())
    first = look(host_node)
    assert not begin(host_node, sleeper())
    assert look(host_node) == first
    assert first.alive
    end(host_node)


def test_one_that_runs_otherwise_is_refused_or_replaced(host_node: Node) -> None:
    begin(host_node, sleeper())
    first = look(host_node)
    with pytest.raises(NodeError, match="runs already, with other settings"):
        begin(host_node, sleeper(script="sleep 301"))
    assert begin(host_node, sleeper(script="sleep 301"), replace=True)
    assert look(host_node).pid != first.pid
    end(host_node)


def test_it_starts_again_after_its_end_and_keeps_the_log(host_node: Node, place: Path) -> None:
    begin(host_node, sleeper(script="echo once; exit 3"))
    assert ended(host_node).rc == 3
    assert begin(host_node, sleeper(script="echo once; exit 3"))
    ended(host_node)
    assert (place / "log.1").read_text() == "once\n"


def test_temporary_files_end_with_it(host_node: Node, place: Path) -> None:
    begin(host_node, sleeper(script='mktemp >name; touch "$TMPDIR/other"; ls $(cat name)'))
    assert ended(host_node).rc == 0
    assert not Path((place / "name").read_text().strip()).parent.exists()


def test_what_was_never_started_is_dead(host_node: Node) -> None:
    assert look(host_node) == launch.Status(alive=False, rc=None, pid=0)
    end(host_node)


def test_placeholders_files_and_environment(host_node: Node, place: Path) -> None:
    what = sleeper(
        script="cat {dir}/conf/a.conf; echo $WHERE; echo $MEGATOK_API_KEY; echo {model}",
        env=(("WHERE", "{cache}/it's here"),),
        files=(("conf/a.conf", "dir {dir}; keep {this} and $that\n"),),
        secrets=("MEGATOK_API_KEY",),
    )
    begin(host_node, what, {"MEGATOK_API_KEY": "s3cr$t", "OTHER": "no"})
    assert ended(host_node).rc == 0
    text = on(host_node, lambda host: launch.tail(host, RUN, "server"))
    assert text == f"dir {place}; keep {{this}} and $that\n/c/it's here\ns3cr$t\n/m\n"


def test_secrets_are_in_no_argument_and_for_no_other_eyes(host_node: Node, place: Path) -> None:
    begin(host_node, sleeper(secrets=("KEY",)), {"KEY": "hunter2"})
    pid = look(host_node).pid
    arguments = b"".join(
        path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.parent.name != str(os.getpid())
    )
    assert b"hunter2" not in arguments
    assert b"hunter2" in b"".join(Path(f"/proc/{child}/environ").read_bytes() for child in children(pid))
    assert (place / "env").stat().st_mode & 0o777 == 0o600
    assert place.stat().st_mode & 0o777 == 0o700
    end(host_node)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_its_own_check_comes_first(host_node: Node) -> None:
    what = sleeper(check=("bash", "-c", "echo bad line 7 in {dir} >&2; exit 1"))
    with pytest.raises(NodeError, match=r"check of server's config: exit code 1: bad line 7 in /"):
        begin(host_node, what)
    assert not look(host_node).alive


def test_stop_ends_what_ignores_term_and_what_left_its_group(host_node: Node, place: Path) -> None:
    script = "set -m; trap '' TERM; sleep 301 & echo $! >deep; trap - TERM; sleep 300 & echo $! >other; wait"
    begin(host_node, sleeper(script=script))
    while not (place / "other").exists():
        time.sleep(0.01)
    pids = [int((place / name).read_text()) for name in ("deep", "other")]
    assert all(map(is_alive, pids))
    end(host_node, grace_s=1)
    assert not any(map(is_alive, pids))
    assert not look(host_node).alive


def test_a_stop_lets_it_end_well(host_node: Node) -> None:
    begin(host_node, sleeper(script="trap 'echo bye; exit 0' TERM; while :; do sleep 0.05; done"))
    end(host_node)
    assert on(host_node, lambda host: launch.tail(host, RUN, "server")).endswith("bye\n")
    assert look(host_node).rc == 0


def test_a_child_whose_leader_was_killed_still_counts(host_node: Node) -> None:
    begin(host_node, sleeper())
    pid = look(host_node).pid
    (child,) = children(pid)
    os.kill(pid, signal.SIGKILL)
    assert look(host_node).alive
    end(host_node)
    assert not is_alive(child)
    assert look(host_node) == launch.Status(alive=False, rc=137, pid=pid)


def test_a_stranger_with_the_same_number_is_left_alone(host_node: Node, place: Path) -> None:
    begin(host_node, sleeper(script="true"))
    ended(host_node)
    _, _, boot = (place / "pid").read_text().split()
    stranger = subprocess.Popen(["sleep", "300"], start_new_session=True)
    try:
        (place / "pid").write_text(f"{stranger.pid} 1 {boot}\n")
        assert not look(host_node).alive
        end(host_node)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_many_in_one_look(host_node: Node) -> None:
    names = ["a", "b", "c"]
    for name in names[:2]:
        begin(host_node, sleeper(name))
    found = on(host_node, lambda host: launch.status(host, RUN, names))
    assert [found[name].alive for name in names] == [True, True, False]
    on(host_node, lambda host: launch.stop(host, RUN, names))
    assert not any(each.alive for each in on(host_node, lambda host: launch.status(host, RUN, names)).values())


def test_systemd_gets_a_unit_and_is_asked_to_stop_it(fleet: Fleet, host_node: Node, place: Path) -> None:
    calls = fleet.folder / "calls"
    stubs = fleet.folder / host_node.name / "bin"
    stubs.mkdir()
    for name, does in (("systemd-run", 'while [ "$1" != bash ]; do shift; done; setsid "$@" &'), ("systemctl", "")):
        (stubs / name).write_text(f'#!/bin/sh\necho {name} "$@" >>{calls}\n{does}\n')
        (stubs / name).chmod(0o755)
    begin(host_node, sleeper(), systemd=True)
    assert look(host_node).alive
    end(host_node)
    assert not look(host_node).alive
    whose = "" if os.geteuid() == 0 else "--user "
    assert calls.read_text().splitlines() == [
        f"systemd-run {whose}--quiet --collect --unit=megatok-r1-server bash {place}/start",
        f"systemctl {whose}stop --no-block megatok-r1-server",
        f"systemctl {whose}kill -s KILL megatok-r1-server",
    ]


def test_ended_is_told_whatever_is_left_behind(host_node: Node) -> None:
    def ended() -> tuple[str, ...]:
        return on(host_node, lambda host: launch.ended(host, RUN, ["server", "never"]))

    assert ended() == ("server", "never")
    begin(host_node, sleeper(script="sleep 30 & sleep 1"))
    assert ended() == ("never",)
    for _ in range(100):
        if "server" in ended():
            break
        time.sleep(0.1)
    assert ended() == ("server", "never")
    assert look(host_node).alive
    end(host_node)
