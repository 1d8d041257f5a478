"""`python -m localcloud --home DIR`: one cloud for each home, until it is idle and empty."""

from __future__ import annotations

import argparse
import fcntl
import json
import logging
import os
import secrets
import sys
import time
from pathlib import Path
from typing import IO

from localcloud.calls import Service
from localcloud.faults import Faults
from localcloud.fleet import Fleet
from localcloud.server import Server
from localcloud.thing import write

LOCK_WAIT_S = 2.0  # who looks whether a cloud is alive holds the lock for a moment


def main() -> int:
    parser = argparse.ArgumentParser(prog="localcloud", description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="folder for nodes, meter and endpoint.json")
    parser.add_argument("--idle-s", type=float, default=30.0, help="end after so long without a node or a call")
    wanted = parser.parse_args()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO, stream=sys.stderr)
    if not Path("/proc/self/environ").exists():
        sys.stderr.write("localcloud needs Linux: it finds a node's processes in /proc; use the cloud `ssh` here\n")
        return 10
    home = wanted.home.resolve()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        if not locked(lock):
            sys.stderr.write(f"another localcloud serves {home}\n")
            return 3
        (home / "endpoint.json").unlink(missing_ok=True)  # of one that was killed
        serve(home, wanted.idle_s)
    return 0


def locked(lock: IO[str]) -> bool:
    """Whether this process now holds the home's lock."""
    give_up_at = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > give_up_at:
                return False
            time.sleep(0.05)


def serve(home: Path, idle_s: float) -> None:
    """Tell where the cloud listens, serve, and take that back."""
    token = secrets.token_urlsafe(24)
    faults = Faults(home / "faults.json")
    fleet = Fleet(home, faults)
    server = Server(Service(token, account(home), faults, fleet, home / "meter.jsonl"), idle_s)
    endpoint = home / "endpoint.json"
    url = f"http://127.0.0.1:{server.server_address[1]}"
    write(endpoint, json.dumps({"url": url, "token": token, "pid": os.getpid()}))
    try:
        server.serve()
    finally:
        endpoint.unlink(missing_ok=True)


def account(home: Path) -> str:
    """This cloud's name for good, whichever folder it lies in and however often it is started."""
    path = home / "account"
    if not path.exists():
        write(path, f"local-{secrets.token_hex(8)}")
    return path.read_text()


if __name__ == "__main__":
    sys.exit(main())
