"""The task with pyinfra's API, one operation for each step: `pyinfra_operations.py TASK.json`.

Runs in pyinfra's own environment. An operation that failed has no exit code there, only the fact; all of this task's
steps succeed.
"""

# ruff: noqa: E402
from gevent import monkey

monkey.patch_all()

import json
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from pyinfra.api import Config, Inventory, State
from pyinfra.api.connect import connect_all, disconnect_all
from pyinfra.api.operation import add_op
from pyinfra.api.operations import run_ops
from pyinfra.api.state import BaseStateCallback
from pyinfra.operations import server

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.fanout.kept import Kept, tell

task = json.loads(Path(sys.argv[1]).read_text())
nodes = [json.loads(text) for text in task["nodes"]]
began: dict[tuple[str, str], float] = {}
seconds: dict[str, list[float]] = defaultdict(list)


class Times(BaseStateCallback):  # type: ignore[misc]
    @staticmethod
    def operation_host_start(state: Any, host: Any, op_hash: str) -> None:
        began[host.name, op_hash] = time.monotonic()

    @staticmethod
    def operation_host_success(state: Any, host: Any, op_hash: str, retry_count: int = 0) -> None:
        seconds[host.name].append(time.monotonic() - began[host.name, op_hash])


hosts = [
    (
        node["name"],
        {
            "ssh_hostname": node["host"],
            "ssh_port": node["ssh_port"],
            "ssh_user": node["user"],
            "ssh_key": node["key_file"],
            "ssh_known_hosts_file": task["known_hosts"],
            "ssh_strict_host_key_checking": "yes",
            "ssh_config_file": "/dev/null",
            "ssh_paramiko_connect_kwargs": {"banner_timeout": 60},
        },
    )
    for node in nodes
]
state = State(Inventory((hosts, {})), Config())
state.add_callback_handler(Times())
connect_all(state)
operations = [add_op(state, server.shell, name=script, commands=[script]) for script in task["steps"]]
run_ops(state)
disconnect_all(state)
kept: dict[str, list[Kept]] = {}
for host in state.inventory:
    metas = [operation[host] for operation in operations]
    kept[host.name] = [
        (0 if meta.did_succeed() else 1, meta.stdout, meta.stderr, took)
        for meta, took in zip(metas, seconds[host.name])
    ]
tell(kept)
