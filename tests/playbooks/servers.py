"""What tests start on nodes in place of engines: small, and of the standard library."""

from __future__ import annotations

import socket

from plan.launch import Launch
from spec.facts import Facts
from spec.inventory import Inventory, Node

HEALTHY = """
import http.server, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_): pass
print("serving", flush=True)
http.server.HTTPServer((sys.argv[1], int(sys.argv[2])), Answer).serve_forever()
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def healthy(name: str, port: int, node: int = 0) -> Launch:
    """Serves `/health`."""
    argv = ("python3", "{dir}/server.py", "127.0.0.1", str(port))
    return Launch(
        name=name, node=node, tool="", argv=argv, files=(("server.py", HEALTHY),), port=port, health="/health"
    )


def bash(name: str, script: str, **more: object) -> Launch:
    return Launch(name=name, node=0, tool="", argv=("bash", "-c", script), **more)  # type: ignore[arg-type]


def facts(**more: object) -> Facts:
    """Those of a plain node without GPU, and what a test changes."""
    plain = {
        "distribution": "debian 12",
        "kernel": "6.1",
        "machine": "x86_64",
        "cpus": 2,
        "memory_mib": 8192,
        "memory_free_mib": 4096,
        "python": "3.11.2",
        "venv": True,
        "systemd": False,
        "sudo": False,
        "user": "user",
        "home": "/home/user",
        "cache": "/home/user/.cache/megatok",
        "cache_free_mib": 50000,
        "gpus": (),
        "programs": (),
        "interfaces": ("eth0", "lo"),
        "ports_taken": (),
        "clock_skew_s": 0.0,
    }
    return Facts.model_validate(plain | more)


def inventory(*nodes: Node) -> Inventory:
    return Inventory(run="run", stand_in="cpu", nodes=nodes)
