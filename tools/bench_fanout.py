"""`make bench-fanout`: what a task of 5 steps on 128 SSH hosts costs, and how 1,000 hosts wait in one process.

The hosts are real sshds on loopback, started and ended here. Contenders run in turns, each in a fresh process: this
project, plain Fabric, pyinfra (in an environment of its own). All must keep exit code, output and time of each step; a
digest shows that they kept the same. Byte code is compiled beforehand, by a round that does not count. Progress goes to
stderr, one line of JSON to stdout; its `timed` says what the figures are.
"""

from __future__ import annotations

import argparse
import json
import os
import pwd
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from spec.inventory import Node, Ports  # noqa: E402

STEPS = ("uname -sr", "id -un", "seq 1 200", "echo out; echo err >&2", "test -d /tmp && echo yes")
WAIT_S = 15
LIMIT_S = 300
"""For one contender in one round: on a busy machine, threads that poll can hold each other up for minutes."""
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


TIMED = {
    "ours|fabric|pyinfra": "one fresh process from start to end, imports and connects included; medians of the rounds",
    "cpu_s": "user + system of that process and its children; the hosts' own is not in it",
    "cpu_ratio, wall_ratio": "ours / pyinfra's; with _fabric: ours / Fabric ThreadingGroup's",
    "hosts_1000_s": f"from the last connect to the end of the fan-out, each host running `sleep {WAIT_S}`; "
    "links are closed within it",
    "hosts_1000_connect_s": "from the start of the fan-out to the last connect",
    "hosts_1000_mb, _cpu_s": "of the whole fab process",
}


@dataclass(frozen=True)
class Cost:
    cpu_s: float
    wall_s: float
    mb: float
    said: dict[str, object]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def measured(argv: Sequence[str]) -> Cost:
    """Run a contender to its end. Raises where it failed, with what it said."""
    with tempfile.TemporaryFile() as out:
        began = time.monotonic()
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, env=ENVIRONMENT)
        watch = threading.Timer(LIMIT_S, process.kill)
        watch.start()
        try:
            _, status, used = os.wait4(process.pid, 0)
            wall_s = time.monotonic() - began
            process.returncode = os.waitstatus_to_exitcode(status)
        finally:
            watch.cancel()
            process.kill()  # does nothing to one that has ended
        out.seek(0)
        lines = out.read().decode().splitlines()
    if process.returncode:
        raise SystemExit(f"{argv[1]} ended with {process.returncode}")
    return Cost(used.ru_utime + used.ru_stime, wall_s, used.ru_maxrss / 1024, json.loads(lines[-1]))


def make_key(path: Path) -> str:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return " ".join(path.with_suffix(".pub").read_text().split()[:2])


def start_sshd(sshd: str, folder: Path, key: Path) -> tuple[subprocess.Popen[bytes], Node]:
    """A host of its own key and port. Its name is its folder's."""
    folder.mkdir()
    host_key = make_key(folder / "host_key")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    lines = (
        f"ListenAddress 127.0.0.1:{port}",
        f"HostKey {folder}/host_key",
        f"AuthorizedKeysFile {key}.pub",
        f"SetEnv HOME={folder}",  # else each command would pay for this user's own .bashrc
        *("PidFile none", "UsePAM no", "StrictModes no", "MaxStartups 1000", "MaxSessions 100"),
    )
    (folder / "config").write_text("\n".join(lines) + "\n")
    # -r: it does not start itself anew for each connect, which would take longer than all that is compared here.
    argv = [sshd, "-D", "-e", "-r", "-f", str(folder / "config")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=log)
    return process, node(folder.name, port, key, host_key)


def node(name: str, port: int, key: Path, host_key: str) -> Node:
    return Node(
        name=name,
        id=name,
        index=0,
        cloud="ssh",
        region="here",
        node_type="host",
        gpus=0,
        host="127.0.0.1",
        ssh_port=port,
        user=pwd.getpwuid(os.getuid()).pw_name,
        key_file=str(key),
        host_key=host_key,
        ports=Ports(first=40000, count=1),
        created_at=datetime.now(UTC),
        expires_at=None,
        usd_per_hour=Decimal(0),
    )


@contextmanager
def fleet(count: int) -> Iterator[tuple[Path, list[Node]]]:
    """`count` hosts, and a folder for what they need; both are gone afterwards."""
    sshd = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if not sshd:
        raise SystemExit("no sshd; install openssh-server")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # asked for by an sshd that root starts
    processes = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_key(folder / "key")
        try:
            nodes = []
            for number in range(count):
                process, made = start_sshd(sshd, folder / f"h-{number}", folder / "key")
                processes.append(process)
                nodes.append(made)
            for each in nodes:
                await_port(each.ssh_port)
            yield folder, nodes
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait()


def await_port(port: int) -> None:
    for _ in range(1000):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.01)
    raise SystemExit(f"the sshd of port {port} does not listen")


def write_task(path: Path, nodes: Sequence[Node]) -> Path:
    known = path.with_suffix(".known_hosts")
    known.write_text("".join(f"[{each.host}]:{each.ssh_port} {each.host_key}\n" for each in nodes))
    task = {"nodes": [each.model_dump_json() for each in nodes], "steps": STEPS, "known_hosts": str(known)}
    path.write_text(json.dumps(task))
    return path


def contenders(task: Path) -> dict[str, list[str]]:
    made = subprocess.run([ROOT / "tools/toolenv", "pyinfra"], check=True, capture_output=True, text=True).stdout
    pyinfra = f"{made.split()[-1]}/bin/python"
    here = ROOT / "tools/fanout"
    return {
        "ours": [sys.executable, str(here / "ours.py"), str(task)],
        "fabric": [sys.executable, str(here / "threading_group.py"), str(task)],
        "pyinfra": [pyinfra, str(here / "pyinfra_operations.py"), str(task)],
    }


def compare(task: Path, rounds: int) -> dict[str, float | int]:
    costs: dict[str, list[Cost]] = {}
    argvs = contenders(task)
    for turn in range(rounds + 1):
        for name, argv in argvs.items():
            cost = measured(argv)
            say(f"round {turn}: {name:8} {cost.cpu_s:5.2f} s CPU {cost.wall_s:5.2f} s {cost.mb:4.0f} MB")
            if turn:
                costs.setdefault(name, []).append(cost)
    kept = {str(cost.said["sha256"]) for all_of_one in costs.values() for cost in all_of_one}
    if len(kept) > 1:
        raise SystemExit("the contenders did not keep the same exit codes and output")
    figures: dict[str, float | int] = {}
    for name, all_of_one in costs.items():
        figures[f"{name}_cpu_s"] = statistics.median(cost.cpu_s for cost in all_of_one)
        figures[f"{name}_wall_s"] = statistics.median(cost.wall_s for cost in all_of_one)
        figures[f"{name}_mb"] = statistics.median(cost.mb for cost in all_of_one)
    for other, suffix in (("pyinfra", ""), ("fabric", "_fabric")):
        for what in ("cpu", "wall"):
            figures[f"{what}_ratio{suffix}"] = figures[f"ours_{what}_s"] / figures[f"{other}_{what}_s"]
    return figures


def crowd(task: Path) -> dict[str, float]:
    fab = [sys.executable, "-m", "fabric", "-r", str(ROOT / "tools/fanout"), "wait"]
    cost = measured([*fab, "--task-file", str(task), "--seconds", str(WAIT_S)])
    said = {name: float(str(value)) for name, value in cost.said.items()}
    return {
        "hosts_1000_s": said["wait_s"],
        "hosts_1000_connect_s": said["connect_s"],
        "hosts_1000_mb": cost.mb,
        "hosts_1000_cpu_s": cost.cpu_s,
    }


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the hosts are ended then too
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--crowd", type=int, default=1000)
    options = parser.parse_args()
    with fleet(options.hosts) as (folder, nodes):
        say(f"{len(nodes)} hosts are up")
        figures = compare(write_task(folder / "task.json", nodes), options.rounds)
        many = [nodes[i % len(nodes)].model_copy(update={"name": f"n-{i}"}) for i in range(options.crowd)]
        figures |= crowd(write_task(folder / "crowd.json", many))
    rounded = {name: round(value, 3) for name, value in figures.items()}
    run = {"hosts": options.hosts, "steps": len(STEPS), "rounds": options.rounds, "crowd": options.crowd}
    print(json.dumps({**run, **rounded, "timed": TIMED}))


if __name__ == "__main__":
    main()
