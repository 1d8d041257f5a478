"""nginx as a plain balancer: least connections, no retries, nothing buffered, the client's headers passed on."""

from __future__ import annotations

from plan.launch import SYSTEM_PATH, Launch, Placement

FATAL = (r"\[emerg\]", r"bind\(\) to .* failed")

CONFIG = """\
daemon off;
worker_processes 1;                  # 16-18 us of processor time a token (measured): one is enough for 50,000 tok/s
worker_rlimit_nofile 16384;
pid nginx.pid;
error_log stderr warn;
events {{ worker_connections 8192; }}
http {{
  access_log off;
  client_body_temp_path tmp-body;    # own paths: the built-in ones belong to root
  proxy_temp_path tmp-proxy;
  fastcgi_temp_path tmp-fastcgi;
  uwsgi_temp_path tmp-uwsgi;
  scgi_temp_path tmp-scgi;
  client_max_body_size 64m;
  upstream replicas {{
    least_conn;
    # No `keepalive`: llama.cpp closes each connection after a stream, though it announces to keep it; with reuse 47 of
    # 64 requests failed. max_fails=0: a replica that failed keeps its share, so that the failure shows.
{servers}
  }}
  server {{
    listen {host}:{port};
    location / {{
      proxy_pass http://replicas;
      proxy_http_version 1.1;
      proxy_set_header Host $host;
      proxy_set_header Connection "";
      proxy_buffering off;           # a token leaves when it comes
      proxy_request_buffering off;   # a long prompt goes through no file: workers of a root's nginx may not write here
      proxy_next_upstream off;
      proxy_connect_timeout 5s;
      proxy_read_timeout 3600s;
      proxy_send_timeout 3600s;
    }}
  }}
}}
"""


def config(placement: Placement) -> str:
    servers = "\n".join(f"    server {replica.host}:{replica.port} max_fails=0;" for replica in placement.replicas)
    return CONFIG.format(servers=servers, host=placement.gateway_host, port=placement.gateway_port)


def launch(name: str, placement: Placement) -> Launch | None:
    command = ("nginx", "-p", "{dir}", "-c", "{dir}/nginx.conf", "-e", "stderr")
    return Launch(
        name=name,
        node=placement.gateway_node,
        tool="",
        argv=command,
        env=(SYSTEM_PATH,),
        files=(("nginx.conf", config(placement)),),
        check=(*command, "-t"),
        port=placement.gateway_port,
        health="/health",
        ready_s=30.0,
        fatal=FATAL,
    )
