"""An OpenAI-compatible server that answers well, or badly in one chosen way. `fake_openai.py PORT HOW` on a node."""

from __future__ import annotations

import http.server
import json
import os
import sys
import time
from typing import Any

KEY = os.environ.get("MEGATOK_API_KEY", "")


def chunks(how: str, count: int) -> list[dict[str, Any]]:
    words = ["" if how == "empty" else f"word{index} " for index in range(count)]
    given = count - 1 if how == "short" else count
    pieces = [{"choices": [{"delta": {"content": word}, "finish_reason": None}]} for word in words]
    end = {"choices": [{"delta": {}, "finish_reason": "length"}]}
    usage = {"choices": [], "usage": {"completion_tokens": given}}
    return [end, *pieces, usage] if how == "disordered" else [*pieces, end, usage]


class Answer(http.server.BaseHTTPRequestHandler):
    how = "well"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.how == "broken" or (KEY and self.how != "open" and self.headers["Authorization"] != f"Bearer {KEY}"):
            self.send_error(500 if self.how == "broken" else 401)
            return
        self.send_response(200)
        self.end_headers()
        held = []
        for chunk in chunks(self.how, asked["max_tokens"]):
            time.sleep(0.2 if self.how == "slow" else 0.005)
            held.append(f"data: {json.dumps(chunk)}\n\n".encode())
            if self.how != "buffered":
                self.wfile.write(b"".join(held))
                held.clear()
        self.wfile.write(b"".join(held) + (b"" if self.how == "cut" else b"data: [DONE]\n\n"))

    def log_message(self, format: str, *_: object) -> None:
        pass


if __name__ == "__main__":
    Answer.how = sys.argv[2]
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
