"""An SSH server in Python for one node, where OpenSSH's cannot run: `python -m localcloud.embedded .../sshd_config`.

It takes the place of `sshd -f .../sshd_config` under the node's supervisor, and finds its files beside that one.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import asyncssh

from localcloud.thing import write

Process = asyncssh.SSHServerProcess[bytes]
CHUNK = 1 << 16


class Server(asyncssh.SSHServer):
    """Lets clients through to the node's ports, as sshd does."""

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        return True


def session(environment: dict[str, str]) -> Callable[[Process], object]:
    """What runs for each command or shell that a client asks for."""

    async def run(process: Process) -> None:
        shell = environment["SHELL"]
        argv = [shell, "-c", process.command] if process.command else [shell, "-l"]
        asked = {key: value for key, value in process.env.items() if key.startswith("LC_") or key == "LANG"}
        env = environment | asked
        if process.term_type:
            status = await on_terminal(process, argv, env | {"TERM": process.term_type})
        else:
            status = await on_pipes(process, argv, env)
        if status < 0:
            process.exit_with_signal(signal_name(-status))
        else:
            process.exit(status)

    return run


def signal_name(number: int) -> str:
    """A signal's name as SSH writes it."""
    return {1: "HUP", 2: "INT", 3: "QUIT", 6: "ABRT", 9: "KILL", 13: "PIPE", 15: "TERM"}.get(number, "TERM")


async def on_pipes(process: Process, argv: list[str], env: dict[str, str]) -> int:
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(
        *argv, stdin=pipe, stdout=pipe, stderr=pipe, cwd=env["HOME"], env=env, start_new_session=True
    )
    assert child.stdin
    assert child.stdout
    assert child.stderr
    typed = asyncio.create_task(feed(process, child.stdin))
    await asyncio.gather(pump(child.stdout, process.stdout), pump(child.stderr, process.stderr))
    status = await child.wait()
    typed.cancel()
    return status


async def feed(process: Process, into: asyncio.StreamWriter) -> None:
    """The client's input to the child, which may not want it."""
    with contextlib.suppress(ConnectionError):
        while data := await process.stdin.read(CHUNK):
            into.write(data)
            await into.drain()
    into.close()


async def pump(source: asyncio.StreamReader, into: asyncssh.SSHWriter[bytes]) -> None:
    """All that the child says to the client; read to its end also where the client has gone, lest it hang."""
    gone = False
    while data := await chunk(source):
        if not gone:
            try:
                into.write(data)
                await into.drain()
            except (ConnectionError, BrokenPipeError):
                gone = True


async def chunk(source: asyncio.StreamReader) -> bytes:
    """What there is to read; a terminal whose other end closed answers with an error, which is its end of file."""
    try:
        return await source.read(CHUNK)
    except OSError:
        return b""


async def on_terminal(process: Process, argv: list[str], env: dict[str, str]) -> int:
    """Give the child a terminal of its own, and the client the other end of it."""
    ours, theirs = pty.openpty()
    columns, rows, _, _ = process.term_size
    termios.tcsetwinsize(theirs, (rows, columns))
    child = await asyncio.create_subprocess_exec(
        *argv,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=env["HOME"],
        env=env,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    shown = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(shown), os.fdopen(ours, "rb", buffering=0)
    )
    typed = asyncio.create_task(type_in(process, ours))
    await pump(shown, process.stdout)
    status = await child.wait()
    typed.cancel()
    transport.close()
    return status


async def type_in(process: Process, terminal: int) -> None:
    """The client's keys, and the new size of its window, to the terminal."""
    while True:
        try:
            data = await process.stdin.read(CHUNK)
        except asyncssh.TerminalSizeChanged as change:
            termios.tcsetwinsize(terminal, (change.height, change.width))
            continue
        if not data:
            return
        os.write(terminal, data)


async def serve(folder: Path) -> None:
    plan = json.loads((folder / "supervisor.json").read_text())
    environment = {key: value for key, value in plan["env"].items() if key != "PYTHONPATH"}
    os.chdir(environment["HOME"])  # where SFTP's relative paths begin
    server = await asyncssh.listen(
        "127.0.0.1",
        plan["ssh_port"],
        server_factory=Server,
        server_host_keys=[str(folder / "host_key")],
        authorized_client_keys=str(folder / "authorized_keys"),
        process_factory=session(environment),
        sftp_factory=True,
        allow_scp=False,
        encoding=None,
        line_editor=False,
        backlog=512,
        login_timeout=120,
        agent_forwarding=False,
    )
    write(folder / "sshd.pid", str(os.getpid()))
    await server.wait_closed()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]).parent))
