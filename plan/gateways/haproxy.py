"""HAProxy as a plain balancer: least connections, no retries, the client's headers passed on."""

from __future__ import annotations

from plan.launch import SYSTEM_PATH, Launch, Placement

FATAL = (r"\[ALERT\]", r"cannot bind socket")

CONFIG = """\
global
  nbthread 1                         # 14 us of processor time a token (measured): one is enough for 50,000 tok/s
  log stderr format raw local0 warning

defaults
  mode http
  log global
  timeout connect 5s
  timeout client 3600s
  timeout server 3600s
  timeout http-request 30s
  retries 0
  # llama.cpp closes each connection after a stream, though it announces to keep it: never send on a used one.
  http-reuse never
  option http-server-close

frontend gateway
  bind {host}:{port}
  default_backend replicas

backend replicas
  balance leastconn
  # No `check`: a replica that failed keeps its share, so that the failure shows.
{servers}
"""


def config(placement: Placement) -> str:
    servers = "\n".join(f"  server replica-{r.index} {r.host}:{r.port}" for r in placement.replicas)
    return CONFIG.format(servers=servers, host=placement.gateway_host, port=placement.gateway_port)


def launch(name: str, placement: Placement) -> Launch | None:
    return Launch(
        name=name,
        node=placement.gateway_node,
        tool="",
        argv=("haproxy", "-db", "-f", "{dir}/haproxy.cfg"),
        env=(SYSTEM_PATH,),
        files=(("haproxy.cfg", config(placement)),),
        check=("haproxy", "-c", "-f", "{dir}/haproxy.cfg"),
        port=placement.gateway_port,
        health="/health",
        ready_s=30.0,
        fatal=FATAL,
    )
