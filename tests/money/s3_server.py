"""A bucket on this machine: moto's server, one request at a time, so that its check for what stands is atomic."""

from __future__ import annotations

import sys
import threading

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

if __name__ == "__main__":
    server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    sys.stdin.read()  # ends with whoever started it
