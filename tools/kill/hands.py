"""A user's hands in one MEGATOK_HOME: commands, their exit codes, and what they must never say."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from tools.kill.chain import Chain
from tools.kill.warm import Command, Warm

COMMAND_S = 240.0
"""Longest that a command may take, else it hangs."""


class Hands:
    def __init__(self, chain: Chain, warm: Warm) -> None:
        self.chain = chain
        self.codes: list[tuple[str, int]] = []
        """Exit code of each command, in order."""
        self.faults: list[str] = []
        self.acted_at = 0.0
        """When the last command began."""
        self._warm = warm

    @property
    def recipe(self) -> Path:
        return self.chain.home / "recipe.yaml"

    def start(self, *words: str) -> Command:
        """Its name is the first word; each works on this home's one run."""
        begin = str(self.recipe), "--id"
        run = {"up": begin, "run": begin, "audit": ("--fix",)}.get(words[0], ())
        whole = (*words, *run, self.chain.run)
        self.acted_at = time.time()
        return self._warm.start(whole, self.chain.env, self._log(words[0]))

    def finished(self, name: str, command: Command) -> int:
        """Its exit code; one that hangs, or ends with a traceback, is a fault."""
        try:
            code = command.wait(COMMAND_S)
        except subprocess.TimeoutExpired:
            command.kill()
            code = command.wait(COMMAND_S)
            self.faults.append(f"{name} hangs")
        said = self._log(name).read_text(errors="replace")
        if "Traceback" in said or "unexpected" in said:
            self.faults.append(f"{name} ends with a traceback")
        self.codes.append((name, code))
        return code

    def done(self, *words: str) -> int:
        return self.finished(words[0], self.start(*words))

    def until_proven(self, name: str, tries: int) -> int:
        """`down` or `audit`, and again as long as it says that not all is proven and that this goes on."""
        for _ in range(tries):
            if (code := self.done(name)) != 7:
                break
        return code

    def _log(self, name: str) -> Path:
        return self.chain.home / f"{len(self.codes)}-{name}.log"
