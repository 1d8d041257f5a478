"""Put on nodes what a plan needs: environments of foreign tools, and the model. A second pass changes nothing."""

from __future__ import annotations

import json
import shlex
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from playbooks import gateway
from playbooks.environments import WEIGHTS, env_folder, is_locked, lock, model_folder
from playbooks.files.toolenv import INSTALLER
from playbooks.run import Host, on_all
from playbooks.scripts import here, python, text
from spec.errors import GateFailed
from spec.facts import Facts
from spec.inventory import Node
from spec.recipe import Model

LIMIT_S = 900.0
"""A cold cache behind a slow line: the largest tool is 150 MB to download."""
MODEL_S = 300.0
"""Ten times what the packaged model takes on a slow processor."""


@dataclass(frozen=True)
class Lack:
    """Something wanted that a node has not, or not as wanted."""

    kind: str
    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.reason}"


def prepare(
    nodes: Sequence[Node],
    facts: Mapping[str, Facts],
    tools: Sequence[str],
    model: Model,
    *,
    check: bool = False,
    cancel: threading.Event | None = None,
) -> dict[str, tuple[str, ...]]:
    """Make what is missing, and say by node what changed; with `check` only what would.

    `tools` are names of locks in tools/envs; any other name is a program of the system, which must be there.
    """
    wanted = [tool for tool in dict.fromkeys(tools) if is_locked(tool)]
    _require_programs(nodes, facts, [tool for tool in tools if not is_locked(tool)])

    def one(host: Host) -> tuple[str, ...]:
        seen = facts[host.node.name]
        lacks = _look(host, seen, wanted, model, check)
        return tuple(map(str, lacks)) if check else _supply(host, seen, lacks, model)

    return on_all(nodes, one, limit_s=LIMIT_S, cancel=cancel)


def _require_programs(nodes: Sequence[Node], facts: Mapping[str, Facts], programs: Sequence[str]) -> None:
    absent = [gateway.absent(node.name, facts[node.name], program) for node in nodes for program in programs]
    if any(absent):
        raise GateFailed("; ".join(filter(None, absent)))


def _look(host: Host, facts: Facts, tools: Sequence[str], model: Model, check: bool) -> list[Lack]:
    wanted = {
        "envs": [env_folder(facts, tool) for tool in tools],
        "model": model_folder(facts, model.name),
        "source": _source(model),
        "check": check,
    }
    found = json.loads(host.run(python("look.py", json.dumps(wanted)), limit_s=MODEL_S).out)
    return [Lack(*entry) for entry in found]


def _source(model: Model) -> dict[str, str]:
    """What a model is made from: as the manifest in its folder says."""
    return {"package": model.package, "file": model.file, "quantisation": model.quantisation}


def _supply(host: Host, facts: Facts, lacks: Sequence[Lack], model: Model) -> tuple[str, ...]:
    tools = [lack.name.rpartition("-")[0] for lack in lacks if lack.kind == "environment"]
    lacks_model = any(lack.kind == "model" for lack in lacks)
    made = []
    if tools or lacks_model:
        made += _make(host, facts, _tools_script([*tools, WEIGHTS] if lacks_model else tools), LIMIT_S)
    if lacks_model:
        made += _make(host, facts, _model_script(facts, model), MODEL_S)
    return tuple(made)


def _make(host: Host, facts: Facts, script: str, limit_s: float) -> list[str]:
    """What the script says it made; nodes that share a cache wait for each other, and one of them makes it."""
    lines = host.run(script, limit_s=limit_s, env={"MEGATOK_CACHE": facts.cache}).out.splitlines()
    return [name for word, name, _ in (line.split(" ", 2) for line in lines) if word == "made"]


def _tools_script(tools: Sequence[str]) -> str:
    tools = list(dict.fromkeys(tools))
    copies = [f'cat >"$locks/{tool}.txt" {here(lock(tool).read_text())}' for tool in (INSTALLER, *tools)]
    return "\n".join(
        [
            "locks=$(mktemp -d) && trap 'rm -rf \"$locks\"' EXIT || exit",
            *copies,
            f'python3 - "$locks" {shlex.join(tools)} {here(text("toolenv.py"))}',
        ]
    )


def _model_script(facts: Facts, model: Model) -> str:
    interpreter = shlex.quote(f"{env_folder(facts, WEIGHTS)}/bin/python")
    options = [part for key, value in _source(model).items() for part in (f"--{key}", value)]
    options += ["--into", model_folder(facts, model.name)]
    return f"{interpreter} - {shlex.join(options)} {here(text('model.py'))}"
