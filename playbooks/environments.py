"""Where on a node the things are that launches name in braces: environments of foreign tools, the cache, the model."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from plan.launch import Launch
from playbooks.files import toolenv
from playbooks.scripts import text
from spec.errors import RecipeError
from spec.facts import Facts

LOCKS = Path(__file__).resolve().parent.parent / "tools" / "envs"
WEIGHTS = "weights"
"""The environment that holds the packaged weights and prepares models from them."""


def is_locked(tool: str) -> bool:
    """Whether `tool` gets an environment of its own; else it is a program of the system."""
    return (LOCKS / f"{tool}.txt").is_file()


def lock(tool: str) -> Path:
    """The lock of `tool`."""
    if not is_locked(tool):
        known = ", ".join(sorted(path.stem for path in LOCKS.glob("*.txt")))
        raise RecipeError(f"tool {tool!r} has no lock in tools/envs; known: {known}")
    return LOCKS / f"{tool}.txt"


def env_folder(facts: Facts, tool: str) -> str:
    """The folder of the tool's environment on a node."""
    return f"{facts.cache}/envs/{toolenv.title(lock(tool))}"


def model_folder(facts: Facts, model: str) -> str:
    return f"{facts.cache}/models/{model}"


def fills(facts: Facts, launch: Launch) -> dict[str, str]:
    """What `{env}`, `{cache}` and `{model}` stand for in `launch` on this node."""
    env = env_folder(facts, launch.tool) if launch.tool else ""
    return {"env": env, "cache": facts.cache, "model": model_folder(facts, launch.model)}


def with_files(launch: Launch) -> Launch:
    """`launch` with the files of ours that it names as `{file:NAME}`: a plan reads none."""
    files = tuple(
        (name, re.sub(r"\{file:([\w.-]+)\}", lambda found: text(found[1]), content)) for name, content in launch.files
    )
    return replace(launch, files=files)
