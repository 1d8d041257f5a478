"""Ask each server for one streamed answer: `smoke_client.py WANTED` writes a JSON list of what came.

WANTED is a JSON object: `targets` (a list of `name`, `host`, `port`), `model`, `tokens` (to ask for), `deadline_s`. The
API key, if there is one, is in MEGATOK_API_KEY; then each target is also asked without it. Standard library alone.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import time
from typing import Any

KEY = os.environ.get("MEGATOK_API_KEY", "")
PROMPT = "Count from one to fifty in words."
ASK_S = 25.0
"""For one answer."""


def request(target: dict[str, Any], wanted: dict[str, Any], key: str, limit_s: float) -> http.client.HTTPResponse:
    body = {
        "model": wanted["model"],
        "messages": [{"role": "user", "content": PROMPT}],
        "max_tokens": wanted["tokens"],
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    line = http.client.HTTPConnection(target["host"], target["port"], timeout=limit_s)
    line.request("POST", "/v1/chat/completions", json.dumps(body), headers)
    return line.getresponse()


def events(reply: http.client.HTTPResponse, limit_s: float) -> list[tuple[float, str]]:
    """The stream's `data:` lines with their times."""
    found, deadline = [], time.monotonic() + limit_s
    for raw in reply:
        line = raw.decode().strip()
        if line.startswith("data:"):
            found.append((time.monotonic(), line[5:].strip()))
        if time.monotonic() > deadline:
            raise TimeoutError(f"no end of the stream within {limit_s:.0f} s")
    return found


def in_order(stream: list[tuple[float, str]], ends: list[int], texts: list[tuple[float, str]]) -> bool:
    """Text, then the reason of its end, then one [DONE], then nothing."""
    last_text = max((index for index, (_, text) in enumerate(texts) if text), default=-1)
    dones = [index for index, (_, data) in enumerate(stream) if data == "[DONE]"]
    return len(ends) == 1 and ends[0] >= last_text and dones == [len(stream) - 1]


def ask(target: dict[str, Any], wanted: dict[str, Any], limit_s: float) -> dict[str, Any]:
    began = time.monotonic()
    reply = request(target, wanted, KEY, limit_s)
    if reply.status != 200:
        return {"error": f"status {reply.status}: {reply.read(300).decode(errors='replace')}"}
    stream = events(reply, limit_s)
    chunks = [(at, json.loads(data)) for at, data in stream if data != "[DONE]"]
    usage: dict[str, Any] = next((chunk["usage"] for _, chunk in chunks if chunk.get("usage")), {})
    choices = [(at, choice) for at, chunk in chunks for choice in chunk["choices"]]
    texts = [(at, choice["delta"].get("content") or "") for at, choice in choices]
    times = [at for at, text in texts if text]
    ends = [index for index, (_, choice) in enumerate(choices) if choice.get("finish_reason")]
    return {
        "text": "".join(text for _, text in texts),
        "pieces": len(times),
        "spread_s": times[-1] - times[0] if times else 0.0,
        "tokens": usage.get("completion_tokens"),
        "in_order": in_order(stream, ends, texts),
        "seconds": time.monotonic() - began,
    }


def tried(target: dict[str, Any], wanted: dict[str, Any], deadline: float) -> dict[str, Any]:
    limit_s = min(ASK_S, deadline - time.monotonic())
    if limit_s <= 0:
        return {"late": True}
    try:
        found = ask(target, wanted, limit_s)
        if KEY:
            found["without_key"] = request(target, wanted, "", limit_s).status
    except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return found


def main(wanted: dict[str, Any]) -> None:
    deadline = time.monotonic() + wanted["deadline_s"]
    json.dump([tried(target, wanted, deadline) for target in wanted["targets"]], sys.stdout)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
