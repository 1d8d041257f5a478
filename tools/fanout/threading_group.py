"""The task with plain Fabric, one `ThreadingGroup.run` for each step: `threading_group.py TASK.json`.

A group only tells when all its hosts are done, so a step's time is the same for all.
"""

import json
import sys
import time
from pathlib import Path

from fabric import Connection, ThreadingGroup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.fanout.kept import Kept, tell

task = json.loads(Path(sys.argv[1]).read_text())
nodes = [json.loads(text) for text in task["nodes"]]
connections = {
    node["name"]: Connection(
        node["host"],
        user=node["user"],
        port=node["ssh_port"],
        # Its default of 15 s for a banner is not enough where all 128 connect at once on two cores.
        connect_kwargs={
            "key_filename": node["key_file"],
            "allow_agent": False,
            "look_for_keys": False,
            "banner_timeout": 60,
        },
    )
    for node in nodes
}
kept: dict[str, list[Kept]] = {name: [] for name in connections}
with ThreadingGroup.from_connections(connections.values()) as group:
    for script in task["steps"]:
        began = time.monotonic()
        results = group.run(script, hide=True, warn=True)
        seconds = time.monotonic() - began
        for name, connection in connections.items():
            result = results[connection]
            kept[name].append((result.exited, result.stdout, result.stderr, seconds))
tell(kept)
