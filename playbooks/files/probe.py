"""Look at a node, with the standard library alone: `probe.py FIRST COUNT FOLDER VERSIONS` writes one JSON object.

FIRST and COUNT are the node's own range of ports; FOLDER (below the home) is where processes that we started run,
so that their ports do not count as taken. VERSIONS: of Python, that tools can use, with commas.
"""

from __future__ import annotations

import json
import os
import platform
import pwd
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

PATH = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"
PROGRAMS = ("nginx", "haproxy", "curl", "nvidia-smi")
GATEWAYS = ("nginx", "haproxy")
"""Programs that tell their version by `-v`, on either stream."""
MODULES = ("venv", "ensurepip")
"""Debian ships them apart."""
LISTEN = "0A"
"""The kernel's word for a listening TCP socket in /proc/net/tcp."""


def output(*argv: str) -> str:
    """What a command writes; empty where it is not there, fails, or hangs."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def fields(path: str, separator: str) -> dict[str, str]:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return {}
    return {key: value.strip().strip('"') for key, _, value in (line.partition(separator) for line in lines)}


def memory_mib(kind: str) -> int:
    return int(fields("/proc/meminfo", ":").get(kind, "0 kB").split()[0]) // 1024


def gpus() -> list[dict[str, object]]:
    asked = "--query-gpu=name,memory.total,driver_version"
    found = []
    for line in output("nvidia-smi", asked, "--format=csv,noheader,nounits").splitlines():
        name, memory, driver = (part.strip() for part in line.split(","))
        found.append({"name": name, "memory_mib": int(memory), "driver": driver})
    return found


def python(versions: list[str]) -> tuple[str, bool]:
    """Version of the Python that tools would get, and whether it can make environments with pip in them."""
    asks = "import importlib.util as u, platform; print(platform.python_version(), *filter(u.find_spec, %r))"
    mine = platform.python_version()
    names = [sys.executable, *(f"python{version}" for version in versions)]
    for name in names:
        version, *modules = output(name, "-c", asks % (MODULES,)).split() or [""]
        if version.startswith(tuple(versions)):
            return version, len(modules) == len(MODULES)
    return mine, False


def version_of(program: str) -> str:
    """`nginx 1.22.1`; empty where it is not there."""
    try:
        done = subprocess.run((program, "-v"), capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return ""
    found = re.search(r"[0-9]+(?:\.[0-9]+)+\S*", done.stdout + done.stderr)
    return f"{program} {found[0]}" if found else ""


def systemd() -> bool:
    """Whether units of ours outlive this login. A simulated node has none of its own: those are the machine's."""
    if not Path("/run/systemd/system").is_dir() or not shutil.which("systemd-run") or "MEGATOK_NODE" in os.environ:
        return False
    if os.geteuid() == 0:
        return True
    user = pwd.getpwuid(os.geteuid()).pw_name
    return (
        Path(f"/run/user/{os.geteuid()}/systemd/private").exists() and Path(f"/var/lib/systemd/linger/{user}").exists()
    )


def sudo() -> bool:
    if os.geteuid() == 0:
        return True
    try:
        return subprocess.run(("sudo", "-n", "true"), capture_output=True, check=False, timeout=10).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def interfaces() -> list[str]:
    """The one that carries the default route first."""
    default = [line.split()[0] for line in lines("/proc/net/route") if line.split()[1:2] == ["00000000"]]
    names = [name for _, name in socket.if_nameindex()]
    return sorted(names, key=lambda name: (name not in default, name))


def lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def listening() -> dict[int, str]:
    """Ports on which something listens, with the socket's inode."""
    found = {}
    for line in [*lines("/proc/net/tcp")[1:], *lines("/proc/net/tcp6")[1:]]:
        part = line.split()
        if part[3] == LISTEN:
            found[int(part[1].rpartition(":")[2], 16)] = part[9]
    return found


def sockets_of_ours(folder: Path) -> set[str]:
    """Inodes of the sockets of processes that run in `folder`, as far as this user may look."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if folder not in (process / "cwd").resolve().parents:
                continue
            for handle in (process / "fd").iterdir():
                found.add(os.readlink(handle).removeprefix("socket:[").removesuffix("]"))
        except OSError:
            continue
    return found


def ports_taken(first: int, count: int, folder: Path) -> list[int]:
    taken = {port: inode for port, inode in listening().items() if first <= port < first + count}
    ours = sockets_of_ours(folder) if taken else set()
    return sorted(port for port, inode in taken.items() if inode not in ours)


def cache() -> Path:
    return Path(os.environ.get("MEGATOK_CACHE") or Path.home() / ".cache" / "megatok").absolute()


def free_mib(folder: Path) -> int:
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free >> 20


def look(first: int, count: int, folder: str, versions: list[str]) -> dict[str, object]:
    os.environ["PATH"] = PATH
    release = fields("/etc/os-release", "=")
    version, venv = python(versions)
    return {
        "distribution": f"{release.get('ID', 'unknown')} {release.get('VERSION_ID', '')}".strip(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_mib": memory_mib("MemTotal"),
        "memory_free_mib": memory_mib("MemAvailable"),
        "python": version,
        "venv": venv,
        "systemd": systemd(),
        "sudo": sudo(),
        "user": pwd.getpwuid(os.geteuid()).pw_name,
        "home": str(Path.home()),
        "cache": str(cache()),
        "cache_free_mib": free_mib(cache()),
        "gpus": gpus(),
        "programs": [name for name in PROGRAMS if shutil.which(name)],
        "versions": {name: told for name in GATEWAYS if (told := version_of(name))},
        "interfaces": interfaces(),
        "ports_taken": ports_taken(first, count, (Path.home() / folder).resolve()),
    }


def main(first: str, count: str, folder: str, versions: str) -> None:
    began = time.time()
    found = look(int(first), int(count), folder, versions.split(","))
    # In the middle of its own time, so that a slow driver query does not pass for a slow clock.
    found["clock_s"] = (began + time.time()) / 2
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
