"""The fan-out, on real sshds: what steps did, limits, cancel, lost links, pinned keys, files."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playbooks import remote, script
from playbooks.run import Host, Step, on_all
from spec.errors import ConnectionLost, Interrupted, NodeError, RecipeError
from spec.inventory import Node
from tests.playbooks.conftest import Fleet, make_key

T = TypeVar("T")
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00\r"), max_size=40)


def on(node: Node, task: Callable[[Host], T], limit_s: float = 30) -> T:
    return on_all([node], task, limit_s=limit_s)[node.name]


def gone(path: Path) -> bool:
    """Whether the process whose number is in `path` ends soon."""
    pid = int(path.read_text())
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.1)
    return False


def appears(path: Path) -> None:
    while not path.exists() or not path.read_text():
        time.sleep(0.01)


@pytest.fixture
def place(fleet: Fleet, host_node: Node) -> Path:
    return fleet.folder / host_node.name


def test_each_step_keeps_its_code_output_and_time(host_node: Node) -> None:
    steps = [
        Step("a", "echo one; echo two >&2"),
        Step("b", "printf three; sleep 0.2; cd /"),
        Step("c", "pwd; exit 3"),
        Step("d", "echo never"),
    ]
    a, b, c = on(host_node, lambda host: host.steps(steps))
    assert (a.name, a.rc, a.out, a.err) == ("a", 0, "one\n", "two\n")
    assert (b.rc, b.out, b.err) == (0, "three", "")
    assert 0.2 <= b.seconds < 2
    assert (c.name, c.rc) == ("c", 3)


def test_a_step_starts_at_home_with_no_input(host_node: Node, place: Path) -> None:
    assert on(host_node, lambda host: host.run("pwd; cat")).out == f"{place}\n"


def locally(shell: str, steps: list[Step], env: dict[str, str], leads: bool = True) -> tuple[script.Done, ...]:
    """As sshd would run `steps`, with `shell` as the user's own. Input stays open: its end would end the script."""
    mark = script.new_mark()
    argv = [shell, "-c", script.command(steps)]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=leads) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdin.write(script.render(steps, env, mark))
        process.stdin.flush()
        return script.read(steps, mark, process.stdout.read(), process.stderr.read(), process.wait(), 0.0)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=4), TEXT)
def test_output_is_kept_to_the_letter(texts: list[tuple[str, str]], value: str) -> None:
    steps = [
        Step(str(i), f'printf %s {q(out)}; printf %s {q(err)} >&2; printf %s "$V"')
        for i, (out, err) in enumerate(texts)
    ]
    done = locally("bash", steps, {"V": value})
    assert [(each.rc, each.out, each.err) for each in done] == [(0, out + value, err) for out, err in texts]


@pytest.mark.parametrize(("shell", "leads"), [("bash", True), ("bash", False), ("sh", True), ("sh", False)])
def test_any_shell_may_be_the_users_own(shell: str, leads: bool) -> None:
    group = "read -r stat </proc/$$/stat; set -- ${stat##*) }; echo $3"
    one, two = locally(shell, [Step("a", f"[[ a == a ]] && {group}"), Step("b", "exit 3")], {}, leads)
    assert (one.rc, two.rc) == (0, 3)
    assert int(one.out) != os.getpgrp(), "a stop there would stop the SSH server too"


def test_it_ends_with_time_where_nobody_cuts_the_line() -> None:
    (done,) = locally("bash", [Step("a", "echo so far; sleep 300", limit_s=0)], {})
    assert done.rc == -signal.SIGTERM
    assert done.out == "so far\n"


def q(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def test_a_script_that_bash_cannot_read_fails_alone(host_node: Node) -> None:
    good, bad = on(host_node, lambda host: host.steps([Step("good", "echo hi"), Step("bad", "echo 'open")]))
    assert (good.out, bad.rc == 0) == ("hi\n", False)
    assert "unexpected EOF" in bad.err


def test_much_output_comes_quickly(host_node: Node) -> None:
    began = time.monotonic()
    done = on(
        host_node,
        lambda host: host.run("head -c 20000000 /dev/zero | tr '\\0' x; head -c 9000000 /dev/zero | tr '\\0' y >&2"),
    )
    assert (len(done.out), len(done.err)) == (20_000_000, 9_000_000)
    assert time.monotonic() - began < 10


def test_environment_is_in_no_argument(host_node: Node) -> None:
    script = "cat /proc/[0-9]*/cmdline 2>/dev/null | grep -c 'hunter[2]'; echo $KEY"
    done = on(host_node, lambda host: host.run(script, env={"KEY": "hunter2 'x'"}))
    assert done.out.splitlines()[-2:] == ["0", "hunter2 'x'"]


def test_a_failed_step_says_why(host_node: Node) -> None:
    with pytest.raises(NodeError, match="1 of 1 nodes failed: run-0: script: exit code 4: no such luck"):
        on(host_node, lambda host: host.run("echo no such luck >&2; exit 4"))


def test_what_a_step_leaves_behind_does_not_hold_it(host_node: Node) -> None:
    began = time.monotonic()
    assert (
        on(host_node, lambda host: host.run("sleep 20 & echo $!; kill $(( $! + 0 )) & sleep 0.1; sleep 3 & echo on")).rc
        == 0
    )
    assert time.monotonic() - began < 2.5


def test_a_limit_ends_the_whole_group(host_node: Node, place: Path) -> None:
    def task(host: Host) -> tuple[script.Done, ...]:
        first = Step("quick", "echo quick", limit_s=9)
        return host.steps([first, Step("slow", "sleep 300 & echo $! >pid; echo so far; wait", limit_s=0.5)])

    began = time.monotonic()
    quick, slow = on(host_node, task)
    assert time.monotonic() - began < 4
    assert (quick.rc, slow.rc, slow.out) == (0, 124, "so far\n")
    assert gone(place / "pid")


def test_a_limit_ends_what_ignores_term(host_node: Node, place: Path) -> None:
    ignores = "trap '' TERM; sleep 301 & echo $! >pid; sleep 302"
    with pytest.raises(NodeError, match=r"script did not end within 0.5 s and was stopped"):
        on(host_node, lambda host: host.run(ignores, limit_s=0.5))
    assert gone(place / "pid")


def test_a_host_has_a_deadline(host_node: Node, place: Path) -> None:
    with pytest.raises(NodeError, match=r"run-0: not done within 1 s"):
        on(host_node, lambda host: host.run("echo $$ >pid; sleep 300"), limit_s=1)
    assert gone(place / "pid")


def test_cancel_interrupts_quickly_and_ends_it_there(host_node: Node, place: Path) -> None:
    cancel = threading.Event()

    def task(host: Host) -> None:
        host.run("sleep 300 & echo $! >pid; wait", limit_s=600)

    def press() -> None:
        appears(place / "pid")
        pressed.append(time.monotonic())
        cancel.set()

    pressed: list[float] = []
    threading.Thread(target=press).start()
    with pytest.raises(Interrupted, match="run-0"):
        on_all([host_node], task, limit_s=600, cancel=cancel)
    assert time.monotonic() - pressed[0] < 1
    assert gone(place / "pid")


def test_a_killed_caller_leaves_nothing_running(host_node: Node, place: Path) -> None:
    program = textwrap.dedent(
        """
        import sys
        from playbooks.run import on_all
        from spec.inventory import Node
        node = Node.model_validate_json(sys.argv[1])
        on_all([node], lambda host: host.run("sleep 300 & echo $! >pid; wait", limit_s=600), limit_s=600)
        """
    )
    caller = subprocess.Popen([sys.executable, "-c", program, host_node.model_dump_json()])
    appears(place / "pid")
    caller.kill()
    caller.wait()
    assert gone(place / "pid")


def test_a_lost_link_is_no_exit_code(host_node: Node, place: Path) -> None:
    def cut() -> None:
        appears(place / "sshd_pid")
        os.kill(int((place / "sshd_pid").read_text()), signal.SIGKILL)

    threading.Thread(target=cut).start()
    script = "echo $$ >pid; echo $PPID >sshd_pid; sleep 300"
    with pytest.raises(ConnectionLost, match="the link broke"):
        on(host_node, lambda host: host.run(script))
    assert gone(place / "pid")


def test_links_are_kept_and_made_anew(host_node: Node, place: Path) -> None:
    for _ in range(3):
        on(host_node, lambda host: host.run("true"))
    assert accepted(place) == 1
    remote.link(host_node)._connection.interrupt()
    on(host_node, lambda host: host.run("true"))
    assert accepted(place) == 2


def accepted(place: Path) -> int:
    return (place / "sshd.log").read_text().count("Accepted publickey")


def test_another_host_key_is_refused(fleet: Fleet, host_node: Node) -> None:
    other = make_key(fleet.folder / "other")
    strange = host_node.model_copy(update={"host_key": other})
    for _ in range(2):  # the second must not find the first one's connection
        with pytest.raises(NodeError, match="another machine answers") as caught:
            on(strange, lambda host: host.run("true"))
        assert not isinstance(caught.value, ConnectionLost)


def test_another_kind_of_host_key_is_refused(fleet: Fleet, host_node: Node) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", str(fleet.folder / "ec")], check=True)
    other = (fleet.folder / "ec.pub").read_text()
    with pytest.raises(NodeError, match="no acceptable host key"):
        on(host_node.model_copy(update={"host_key": other}), lambda host: host.run("true"))


def test_an_rsa_host_key_may_be_the_pinned_one(fleet: Fleet) -> None:
    path = fleet.folder / "rsa"
    subprocess.run(["ssh-keygen", "-q", "-t", "rsa", "-N", "", "-f", str(path)], check=True)
    node = fleet.up("run-0", f"HostKey {path}").model_copy(update={"host_key": path.with_suffix(".pub").read_text()})
    assert on(node, lambda host: host.run("echo hi")).out == "hi\n"


def test_another_user_key_is_refused(fleet: Fleet, host_node: Node) -> None:
    make_key(fleet.folder / "stranger")
    stranger = host_node.model_copy(update={"key_file": str(fleet.folder / "stranger")})
    with pytest.raises(NodeError, match="was refused with key"):
        on(stranger, lambda host: host.run("true"))


@pytest.mark.parametrize("text", [None, "not a key"])
def test_a_bad_key_file_is_bad_input(host_node: Node, tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "bad"
    if text:
        path.write_text(text)
    with pytest.raises(RecipeError, match=f"key file {path} cannot be used"):
        on(host_node.model_copy(update={"key_file": str(path)}), lambda host: host.run("true"))


def test_one_error_names_every_node_that_failed(fleet: Fleet, host_node: Node) -> None:
    fine = fleet.up("run-1")
    bad = fleet.up("run-2")
    strange = host_node.model_copy(update={"host_key": bad.host_key})

    def task(host: Host) -> None:
        host.run("exit 9" if host.node is bad else "true")

    with pytest.raises(
        NodeError, match=r"^2 of 3 nodes failed: run-0: host key is .*; run-2: script: exit code 9"
    ) as caught:
        on_all([strange, fine, bad], task, limit_s=30)
    assert set(caught.value.failures) == {"run-0", "run-2"}


def test_where_only_links_failed_the_error_may_be_retried(fleet: Fleet, host_node: Node) -> None:
    fleet.down("run-0")
    with pytest.raises(ConnectionLost, match=r"^2 of 2 nodes failed: run-0, twin: no SSH in 5 attempts: "):
        on_all([host_node, host_node.model_copy(update={"name": "twin"})], lambda host: host.run("true"), limit_s=30)


def test_a_silent_server_is_given_up_at_the_deadline(host_node: Node) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        with pytest.raises(ConnectionLost, match="key exchange took more than 1 s"):
            on(host_node.model_copy(update={"ssh_port": silent.getsockname()[1]}), lambda host: host.connect(), 1)
    assert time.monotonic() - began < 3


def test_a_mistake_of_ours_is_no_failure_of_a_node(host_node: Node) -> None:
    with pytest.raises(ZeroDivisionError):
        on(host_node, lambda host: 1 / 0)


def test_a_server_that_drops_connects_is_asked_again(fleet: Fleet) -> None:
    busy = fleet.up("busy", "MaxStartups 3:50:10")
    nodes = [busy.model_copy(update={"name": f"n-{i}"}) for i in range(24)]
    assert set(on_all(nodes, lambda host: host.run("echo hi").out, limit_s=60).values()) == {"hi\n"}


def test_results_by_node(host_node: Node) -> None:
    nodes = [host_node.model_copy(update={"name": name}) for name in "abc"]
    assert on_all(nodes, lambda host: host.node.name * 2, limit_s=9, live=2) == {"a": "aa", "b": "bb", "c": "cc"}
    assert on_all([], lambda host: 1, limit_s=9) == {}


@pytest.mark.parametrize("size", [0, 5, 5_000_000])
def test_files_come_and_go_whole(host_node: Node, place: Path, size: int) -> None:
    data = os.urandom(size)
    on(host_node, lambda host: host.put(data, "some where/it's.bin", 0o640))
    path = place / "some where" / "it's.bin"
    assert path.read_bytes() == data
    assert path.stat().st_mode & 0o777 == 0o640
    assert on(host_node, lambda host: host.get("some where/it's.bin")) == data
    assert [each.name for each in path.parent.iterdir()] == ["it's.bin"]


def test_a_missing_file_is_named(host_node: Node) -> None:
    with pytest.raises(NodeError, match="cat: nowhere: No such file"):
        on(host_node, lambda host: host.get("nowhere"))
