"""Files that run on nodes, as bash to give to a `Host`: no copy of ours stays behind."""

from __future__ import annotations

import secrets
import shlex
from pathlib import Path

FILES = Path(__file__).resolve().parent / "files"


def text(name: str) -> str:
    """A file of `playbooks/files/`."""
    return (FILES / name).read_text()


def here(content: str) -> str:
    """A here-document of `content`, to stand at the end of a command line."""
    mark = f"end-{secrets.token_hex(8)}"
    return f"<<'{mark}'\n{content.rstrip()}\n{mark}"


def python(name: str, *arguments: str) -> str:
    """Run a file with the node's `python3` and nothing but its standard library."""
    return f"python3 - {shlex.join(arguments)} {here(text(name))}"
