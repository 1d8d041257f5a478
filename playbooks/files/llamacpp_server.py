"""One llama.cpp HTTP server as a process; run by the `llamacpp` environment's interpreter."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading

import xllamacpp as x

SPECULATION = {
    "ngram-mod": x.common_speculative_type.COMMON_SPECULATIVE_TYPE_NGRAM_MOD,
    "ngram-simple": x.common_speculative_type.COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE,
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--context-tokens", type=int, default=2048, help="per slot")
    parser.add_argument("--alias", required=True)
    parser.add_argument("--prefix-cache", action="store_true")
    parser.add_argument("--speculation", choices=sorted(SPECULATION))
    return parser.parse_args()


def parameters(asked: argparse.Namespace) -> x.CommonParams:
    p = x.CommonParams()
    p.model.path = asked.model
    p.model_alias = {asked.alias}
    p.hostnames, p.port = [asked.host], asked.port
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = asked.threads
    p.n_parallel = asked.slots
    p.n_ctx = asked.context_tokens * asked.slots  # llama.cpp counts the total and splits it over the slots
    p.endpoint_metrics = p.endpoint_slots = p.endpoint_props = True
    p.ui = False
    p.cache_prompt = asked.prefix_cache
    if not asked.prefix_cache:
        p.cache_ram_mib = 0
    if asked.speculation:
        p.speculative.types = [SPECULATION[asked.speculation]]
    key = os.environ.get("MEGATOK_API_KEY")
    if key:
        p.api_keys = [key]
    return p


def main() -> None:
    asked = arguments()
    if not os.path.isfile(asked.model):
        sys.exit(f"model file {asked.model} does not exist")
    stop = threading.Event()
    for kind in (signal.SIGTERM, signal.SIGINT):
        signal.signal(kind, lambda *_: stop.set())
    server = x.Server(parameters(asked))
    sys.stderr.write(f"listening on {server.listening_address}\n")
    sys.stderr.flush()
    stop.wait()


if __name__ == "__main__":
    main()
