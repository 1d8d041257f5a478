"""What a command says with `--json`. `docs/schemas/answer.json`; `megatok run` writes a run document instead."""

from __future__ import annotations

from typing import Literal

from pydantic import JsonValue

from spec.base import Natural, Spec


class Answer(Spec):
    version: Literal[1] = 1
    command: str
    exit_code: Natural
    message: str = ""
    data: dict[str, JsonValue] = {}
