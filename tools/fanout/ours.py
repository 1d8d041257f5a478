"""The task through this project's fan-out: `ours.py TASK.json`."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from playbooks.run import Host, Step, on_all
from spec.inventory import Node
from tools.fanout.kept import Kept, tell

task = json.loads(Path(sys.argv[1]).read_text())
nodes = [Node.model_validate_json(text) for text in task["nodes"]]
steps = [Step(str(number), script) for number, script in enumerate(task["steps"])]


def work(host: Host) -> list[Kept]:
    return [(done.rc, done.out, done.err, done.seconds) for done in host.steps(steps)]


tell(on_all(nodes, work, limit_s=120))
