"""vLLM's router: round robin, the client's headers passed on."""

from __future__ import annotations

from plan.launch import Launch, Placement

FATAL = (r"[Aa]ddress already in use", r"panicked at", r"^Traceback")

TRIES = 4


def launch(name: str, placement: Placement) -> Launch | None:
    return Launch(
        name=name,
        node=placement.gateway_node,
        tool="vllm-router",
        argv=_argv(placement),
        port=placement.gateway_port,
        health="/health",
        fatal=FATAL,
    )


def _argv(placement: Placement) -> tuple[str, ...]:
    return (
        "{env}/bin/vllm-router", "--host", placement.gateway_host, "--port", str(placement.gateway_port),
        # Its default, cache_aware, sends two extra requests for each one, to endpoints that only vLLM has.
        "--policy", "round_robin",
        # It always reuses connections, which llama.cpp closes after a stream though it announces to keep them: without
        # retries 3 of 100 requests fail (measured). Four tries at once, on different workers; its log has each.
        "--retry-max-retries", str(TRIES), "--retry-initial-backoff-ms", "1", "--retry-max-backoff-ms", "1",
        # A worker that failed keeps its share, so that the failure shows.
        "--disable-circuit-breaker",
        # Its default metrics port is the same for every router on an address.
        "--prometheus-host", placement.gateway_host, "--prometheus-port", str(placement.gateway_own_port),
        # It looks for its workers every 30 s by default: one that is a second late would cost half a minute.
        "--worker-startup-check-interval", "1", "--worker-startup-timeout-secs", "60",
        "--worker-urls", *(replica.url for replica in placement.replicas),
    )  # fmt: skip
