"""The language host's process."""

import signal

signal.signal(signal.SIGINT, signal.SIG_DFL)  # an engine that refuses its config interrupts us while we still import

from infra.engine.host.server import main  # noqa: E402

main()
