"""One run's home and processes, as the meter and /proc show them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tools.kill.rounds import FILES, Moment

ROOT = Path(__file__).resolve().parents[2]
PROC = Path("/proc")


class Chain:
    """One round's home, and the processes that belong to it."""

    def __init__(self, home: Path, run: str) -> None:
        self.home = home
        self.run = run
        named = {key: value for key, value in os.environ.items() if not key.startswith("MEGATOK_HOME")}
        self.env = named | {"MEGATOK_HOME": str(home)}

    def start(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        """A command of ours; what it says goes to NAME.log."""
        begin = "import sys; from cli.main import main; sys.exit(main())"
        with (self.home / f"{name}.log").open("wb") as log:
            argv = [sys.executable, "-c", begin, *words]
            return subprocess.Popen(argv, cwd=ROOT, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def happened(self, moment: Moment) -> bool:
        with contextlib.suppress(OSError):
            texts = [path.read_text(errors="replace") for path in self.home.glob(FILES[moment.file])]
            return any(re.search(moment.pattern, text) for text in texts)
        return False

    def events(self, kind: str) -> int:
        """How many of that kind are in the ledger."""
        with contextlib.suppress(OSError):
            return (self.home / FILES["ledger"]).read_bytes().count(f'"kind":"{kind}"'.encode())
        return 0

    def phase(self) -> str:
        """The last one that the runner has begun."""
        told = (self.home / "runs" / self.run / "progress.log").read_text(errors="replace")
        begun = re.findall(r"\] (provision|prepare|gate|serve|smoke|measure|stop|collect|destroy|report)\b", told)
        return str(begun[-1])

    def bills(self) -> dict[str, tuple[float, float | None]]:
        """When each node began and ended, by the meter."""
        times: dict[str, tuple[float, float | None]] = {}
        with contextlib.suppress(FileNotFoundError):
            for line in (self.home / FILES["meter"]).read_text().splitlines():
                event = json.loads(line)
                if event["event"] == "start":
                    times[event["id"]] = event["at"], None
                elif event["event"] == "stop" and times[event["id"]][1] is None:
                    times[event["id"]] = times[event["id"]][0], event["at"]
        return times

    def running(self) -> int:
        return sum(end is None for _, end in self.bills().values())

    def nodes(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in self.home.glob("localcloud/nodes/*/node.json")]

    def cloud(self) -> int | None:
        """Process of the local cloud."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            pid: int = json.loads((self.home / "localcloud" / "endpoint.json").read_text())["pid"]
            return pid if "localcloud" in command_line(pid) else None
        return None

    def processes(self) -> list[int]:
        """Whatever names this home in its command line or environment, or works in it; but for the local cloud."""
        ours = os.getpid(), self.cloud()
        return [pid for pid in map(int, filter(str.isdigit, os.listdir(PROC))) if pid not in ours and self._owns(pid)]

    def _owns(self, pid: int) -> bool:
        mark = str(self.home).encode()
        folder = PROC / str(pid)
        with contextlib.suppress(OSError):
            if mark in (folder / "cmdline").read_bytes() or mark in (folder / "environ").read_bytes():
                return not (folder / "stat").read_text().rpartition(")")[2].startswith(" Z")
            links = [folder / "cwd", *(folder / "fd").iterdir()]
            return any(os.readlink(link).startswith(str(self.home)) for link in links)
        return False

    def stack_files(self) -> list[Path]:
        """What Pulumi would still know of the run: its state, lock, and config."""
        state = [path for path in self.home.glob("state/.pulumi/*/**/*") if self.run in path.name]
        return [*state, *ROOT.glob(f"Pulumi.{self.run}.yaml")]

    def disks(self) -> list[Path]:
        """What would still hold files of a node."""
        nodes = [(self.home / "localcloud" / "nodes" / node["id"], node["id"]) for node in self.nodes()]
        places = [place for folder, id in nodes for place in (folder / "home", Path(tempfile.gettempdir()) / id)]
        return [place for place in places if place.exists()]

    def ports(self) -> list[int]:
        """Open ports in the ranges of this home's nodes, less those that another local cloud has taken since."""
        claims = (PROC / "net" / "unix").read_text()
        mine = [node["ssh_port"] for node in self.nodes() if f"@localcloud-ports-{node['ssh_port']}\n" not in claims]
        return sorted(listening() & {port for first in mine if first for port in range(first, first + 25)})

    def end(self) -> None:
        """End the local cloud; also what should not be there any more."""
        if cloud := self.cloud():
            os.kill(cloud, signal.SIGTERM)
            wait_until(lambda: self.cloud() is None, 10)
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in self.processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            wait_until(lambda: not self.processes(), 5)


def listening() -> set[int]:
    tables = [(PROC / "net" / name).read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A"}


def command_line(pid: int) -> str:
    with contextlib.suppress(OSError):
        return (PROC / str(pid) / "cmdline").read_text(errors="replace").replace("\0", " ")
    return ""


def below(pid: int) -> Iterator[int]:
    """Processes under `pid`."""
    with contextlib.suppress(OSError):
        for thread in (PROC / str(pid) / "task").iterdir():
            for child in map(int, (thread / "children").read_text().split()):
                yield child
                yield from below(child)


def process_of(kind: str, runner: int) -> int | None:
    """The runner itself, or the engine or plug-in under it."""
    if kind == "runner":
        return runner
    wanted = {"engine": r"^\S*pulumi --non-interactive", "plug-in": r" -m infra\.provider\b"}[kind]
    return next((pid for pid in below(runner) if re.search(wanted, command_line(pid))), None)


def wait_until(true: Callable[[], bool], limit_s: float, pause_s: float = 0.05) -> bool:
    give_up_at = time.monotonic() + limit_s
    while not (found := true()) and time.monotonic() < give_up_at:
        time.sleep(pause_s)
    return found
