"""Many hosts that wait at once, in one `fab` process: `fab -r tools/fanout wait --task-file TASK.json --seconds 15`."""

import json
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fabric import Connection, task

from playbooks.run import Host, on_all
from spec.inventory import Node


@task  # type: ignore[untyped-decorator]
def wait(context: Connection, task_file: str, seconds: str) -> None:
    """Connect to all, then let each run `sleep` at once; print how long both took, and what memory."""
    nodes = [Node.model_validate_json(text) for text in json.loads(Path(task_file).read_text())["nodes"]]
    connected: list[float] = []
    all_connected = threading.Barrier(len(nodes), action=lambda: connected.append(time.monotonic()))

    def work(host: Host) -> float:
        host.connect()
        all_connected.wait()
        return host.run(f"sleep {seconds}", limit_s=60).seconds

    began = time.monotonic()
    slept = on_all(nodes, work, limit_s=300, live=len(nodes))
    ended = time.monotonic()
    assert len(slept) == len(nodes)
    assert min(slept.values()) >= float(seconds)
    print(json.dumps({"connect_s": connected[0] - began, "wait_s": ended - connected[0]}))
