"""What of the wanted things a node's cache lacks: `look.py WANTED` writes a JSON list of [kind, name, reason].

WANTED is a JSON object: `envs` and `model` (folders), `source` (what the model must be made from), `check` (look only).
An unsound model loses its manifest, so that `model.py` makes it again; under the lock that `model.py` holds too.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

DONE = ".complete"
"""As `toolenv.py` marks an environment."""


def unsound(folder: Path, source: dict[str, str]) -> str:
    """Why a model's folder cannot be used; empty where it can."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text())
    except (OSError, ValueError):
        return "missing"
    if manifest["wanted"] != source:
        return "made from something else"
    return next(filter(None, (changed(folder / name, known) for name, known in manifest["files"].items())), "")


def changed(path: Path, known: dict[str, Any]) -> str:
    """How a file differs from what was made; read whole only where its time differs."""
    if not path.is_file():
        return f"{path.name} is missing"
    found = path.stat()
    if found.st_size != known["bytes"]:
        return f"{path.name} has {found.st_size} bytes, not {known['bytes']}"
    if found.st_mtime_ns == known["mtime_ns"] or hashlib.sha256(path.read_bytes()).hexdigest() == known["sha256"]:
        return ""
    return f"{path.name} has another SHA-256"


def usable(env: Path) -> bool:
    """Complete, and its interpreter is still there (an upgrade of the system may have taken it away)."""
    return (env / DONE).is_file() and (env / "bin" / "python").exists()


def model_reason(folder: Path, source: dict[str, str], check: bool) -> str:
    if not folder.is_dir():
        return "missing"
    with folder.with_name(f"{folder.name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        reason = unsound(folder, source)
        if reason and not check:
            (folder / "manifest.json").unlink(missing_ok=True)
    return reason


def main(wanted: dict[str, Any]) -> None:
    envs = [Path(env) for env in wanted["envs"]]
    lacking = [["environment", env.name, "missing"] for env in envs if not usable(env)]
    reason = model_reason(Path(wanted["model"]), wanted["source"], wanted["check"])
    if reason:
        lacking.append(["model", Path(wanted["model"]).name, reason])
    json.dump(lacking, sys.stdout)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
