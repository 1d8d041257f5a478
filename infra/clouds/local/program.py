"""The program `localcloud`: is it running, start it, call it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import InvalidOperation
from pathlib import Path
from typing import Any, TypeVar

import httpx

from spec.errors import (
    CloudError,
    Denied,
    MegatokError,
    NoCapacity,
    NotYetTerminated,
    QuotaExceeded,
    Throttled,
    Unanswered,
)

T = TypeVar("T")
ROOT = Path(__file__).parents[3]
START_LIMIT_S = 30.0
CALL_LIMIT_S = 15.0
IDLE_S = 30.0
PASSED_ON = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "LOCALCLOUD_SSHD")
PASSED_ON_PARTS = ("PROXY", "CA_BUNDLE", "SSL_CERT_", "PIP_", "UV_", "NODE_EXTRA_CA_CERTS")
"""Nodes reach networks and package indexes the way this machine does; nothing else of its user goes in."""

ERRORS: Mapping[str, type[MegatokError]] = {
    "no_capacity": NoCapacity,
    "quota_exceeded": QuotaExceeded,
    "throttled": Throttled,
    "denied": Denied,
    "in_use": NotYetTerminated,
    "bad_request": CloudError,
}


class Absent(Exception):
    """The cloud knows no such node."""


@dataclass(frozen=True)
class Endpoint:
    """Where a local cloud listens, in its own words (`endpoint.json`)."""

    url: str
    token: str
    pid: int


def home() -> Path:
    """The local cloud's folder: nodes, meter, endpoint, log."""
    return Path(os.environ.get("MEGATOK_HOME") or Path.home() / ".megatok") / "localcloud"


def running() -> Endpoint | None:
    """The living cloud's endpoint. The home's lock tells a living cloud from what a killed one left behind."""
    try:
        with (home() / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except FileNotFoundError:
        return None
    except BlockingIOError:
        return written()


def written() -> Endpoint | None:
    """What `endpoint.json` says; None where it is absent, or of a cloud that has ended."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        found = Endpoint(**json.loads((home() / "endpoint.json").read_text()))
        os.kill(found.pid, 0)
        return found
    return None


def empty() -> bool:
    """Whether there is nothing to ask: no cloud runs, and none has left a node."""
    nodes = home() / "nodes"
    return running() is None and not (nodes.is_dir() and any(nodes.iterdir()))


def started() -> Endpoint:
    """The endpoint of the running cloud, started where there is none; of two starters one starts, both get it."""
    if found := running():
        return found
    home().mkdir(mode=0o700, parents=True, exist_ok=True)
    with (home() / "start.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return running() or awaited(launched())


def launched() -> subprocess.Popen[bytes]:
    """Start the program in a session of its own: a Ctrl-C meant for the caller must not end nodes."""
    environment = {
        key: value
        for key, value in os.environ.items()
        if key in PASSED_ON or any(part in key.upper() for part in PASSED_ON_PARTS)
    }
    cache = os.environ.get("MEGATOK_CACHE") or str(Path.home() / ".cache" / "megatok")
    with (home() / "localcloud.log").open("ab") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "localcloud", "--home", str(home()), "--idle-s", str(IDLE_S)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=ROOT,
            env=environment | {"PYTHONPATH": str(ROOT), "MEGATOK_CACHE": cache},
            start_new_session=True,
        )
    threading.Thread(
        target=child.wait, daemon=True
    ).start()  # it outlives most callers, and must not become a zombie of one
    return child


def awaited(child: subprocess.Popen[bytes]) -> Endpoint:
    """Wait until the new cloud listens; it may also have given way to one that somebody else started."""
    give_up_at = time.monotonic() + START_LIMIT_S
    while time.monotonic() < give_up_at:
        found = running()
        if found and (found.pid == child.pid or child.poll() is not None):
            return found
        if child.poll() is not None:
            break
        time.sleep(0.02)
    log = home() / "localcloud.log"
    tail = " / ".join(log.read_text(errors="replace").splitlines()[-3:])
    raise Unanswered(f"the local cloud did not start (exit code {child.poll()}): {tail}; its log is {log}")


def call(
    method: str,
    path: str,
    *,
    query: Mapping[str, str] | None = None,
    body: Mapping[str, Any] | None = None,
    limit_s: float = CALL_LIMIT_S,
) -> Any:
    """One call's answer as JSON values. A refusal is raised as its class, an unknown node as Absent."""
    for last in (False, True):
        endpoint = started()
        try:
            answer = httpx.request(
                method,
                endpoint.url + path,
                params=query,
                json=body,
                headers={"Authorization": f"Bearer {endpoint.token}"},
                timeout=httpx.Timeout(limit_s, connect=CALL_LIMIT_S),
                trust_env=False,  # a proxy has no business on loopback
                verify=False,  # plain HTTP, and reading the certificates would cost more than the call
            )
        except httpx.ConnectError as error:  # it ended between the look and the call, which so was not made
            if last:
                raise Unanswered(f"the local cloud at {endpoint.url} refuses connections: {error}") from None
        except httpx.HTTPError as error:
            raise Unanswered(
                f"the local cloud did not answer {method} {path}: {type(error).__name__} {error}"
            ) from None
        else:
            return judged(answer, f"{method} {path}")
        time.sleep(0.1)
    raise AssertionError("unreachable")


def judged(answer: httpx.Response, what: str) -> Any:
    """The answer's JSON, or its refusal raised."""
    try:
        value = answer.json()
        if answer.is_success:
            return value
        code, message = value["error"], f"the local cloud refused {what}: {value['message']}"
    except (ValueError, TypeError, KeyError):
        raise Unanswered(f"the local cloud's answer to {what} cannot be read: {answer.content[:80]!r}") from None
    if code == "not_found":
        raise Absent(message)
    raise ERRORS.get(code, Unanswered)(message)


def parsed(values: Iterable[Any], one: Callable[[Any], T]) -> tuple[T, ...]:
    """Each of `values` through `one`; an answer of another shape is no answer."""
    try:
        return tuple(one(value) for value in values)
    except (KeyError, TypeError, ValueError, InvalidOperation, AttributeError) as error:
        raise Unanswered(f"the local cloud's answer has another shape: {type(error).__name__} {error}") from None
