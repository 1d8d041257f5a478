"""The Automation API's command, with a hold on the process that it starts."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from typing import IO

from pulumi.automation import CommandResult, PulumiCommand
from pulumi.automation._cmd import OnOutput
from pulumi.automation.errors import create_command_error
from semver import VersionInfo

from infra.engine.find import OLDEST, engine_path

__all__ = ["Command", "engine_path"]

GRACE_S = 30.0
"""The engine gets this long to end what is in flight, before it is told to leave at once."""
TICK_S = 0.1


class Command(PulumiCommand):
    """Runs the engine in a session of its own: Ctrl-C at a terminal reaches us alone, and we pass it on once."""

    def __init__(self, cancel: threading.Event | None = None) -> None:
        self.command = str(engine_path())
        # The Automation API chooses by this what it may ask of the engine; the real one is at least as new.
        self.version = VersionInfo(*OLDEST)
        self.cancel = cancel or threading.Event()

    def run(
        self,
        args: list[str],
        cwd: str,
        additional_env: Mapping[str, str],
        on_output: OnOutput | None = None,
        on_error: OnOutput | None = None,
    ) -> CommandResult:
        env = {**os.environ, **additional_env, "PULUMI_AUTOMATION_API": "true"}
        with subprocess.Popen(
            [self.command, "--non-interactive", *args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=env,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        ) as process:
            assert process.stdout
            assert process.stderr
            readers = Reader(process.stdout, on_output), Reader(process.stderr, on_error)
            try:
                self._wait(process)
            except KeyboardInterrupt:
                self.cancel.set()
                self._wait(process)
                raise
            out, err = (reader.text() for reader in readers)
        result = CommandResult(stdout=out, stderr=err, code=process.returncode)
        if result.code:
            raise create_command_error(result)
        return result

    def _wait(self, process: subprocess.Popen[str]) -> None:
        """Until it ends. Asked to cancel, one SIGINT: the engine cancels its plug-ins; a second one after GRACE_S."""
        while process.poll() is None:
            if self.cancel.is_set():
                _interrupt(process)
                try:
                    process.wait(GRACE_S)
                except subprocess.TimeoutExpired:
                    _interrupt(process)
                process.wait()
            else:
                self._tick(process)

    def _tick(self, process: subprocess.Popen[str]) -> None:
        try:
            process.wait(TICK_S)
        except subprocess.TimeoutExpired:
            return


def _interrupt(process: subprocess.Popen[str]) -> None:
    """The engine alone: it tells its children itself."""
    if process.poll() is None:
        os.kill(process.pid, signal.SIGINT)


class Reader(threading.Thread):
    """Hands each line on as it comes, and keeps them all."""

    def __init__(self, stream: IO[str], tell: Callable[[str], object] | None) -> None:
        super().__init__(daemon=True)
        self._stream = stream
        self._tell = tell
        self._lines: list[str] = []
        self.start()

    def run(self) -> None:
        for line in self._stream:
            self._lines.append(line.rstrip())
            if self._tell:
                self._tell(line.rstrip())

    def text(self) -> str:
        self.join()
        return "\n".join(self._lines)
