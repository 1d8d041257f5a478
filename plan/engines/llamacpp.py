"""llama.cpp's own HTTP server (xllamacpp), here on processors: TP is threads of one server, a stand-in for GPUs."""

from __future__ import annotations

from plan.launch import API_KEY, Launch, Replica
from spec.errors import RecipeError
from spec.recipe import Campaign, Model

SPECULATION = ("none", "ngram-mod", "ngram-simple")
TEMPLATE_TOKENS = 30
"""What the chat template adds to a prompt (measured: 158 counted by the server for 128 asked)."""

FATAL = (
    r"model file .* does not exist",
    r"(error|failed).* load(ing)? (the )?model",
    r"(couldn't|failed to|cannot) bind",
    r"[Aa]ddress already in use",
    r"Illegal instruction",
)


def check(campaign: Campaign, model: Model) -> None:
    engine, workload = campaign.engine, campaign.workload
    if campaign.cluster.stand_in != "cpu":
        raise RecipeError("engine.name: llamacpp runs on processors only; set stand_in: cpu, or take another engine")
    if engine.speculation not in SPECULATION:
        raise RecipeError(f"engine.speculation: {engine.speculation!r} is unknown; take {', '.join(SPECULATION)}")
    for key in campaign.cells():
        if key.layout.pp > 1 or key.layout.ep > 1:
            raise RecipeError(f"sweep: layout {key.layout}: llamacpp has neither PP nor EP; write DPnxTPm")
    need = workload.isl_tokens + TEMPLATE_TOKENS + workload.osl_tokens
    if need > engine.context_tokens:
        parts = f"{workload.isl_tokens} in + {TEMPLATE_TOKENS} for the chat template + {workload.osl_tokens} out"
        raise RecipeError(f"engine.context_tokens: {engine.context_tokens} is below {need} ({parts}); raise it")
    if engine.context_tokens > model.context_tokens:
        limit = f"{model.title} ends at {model.context_tokens}"
        raise RecipeError(f"engine.context_tokens: {engine.context_tokens} is too long, {limit}; lower it")


def launch(name: str, replica: Replica, campaign: Campaign, *, key: bool) -> Launch:
    threads = len(replica.gpus)
    return Launch(
        name=name,
        node=replica.node,
        tool="llamacpp",
        argv=_argv(replica, campaign),
        # Idle OpenMP threads spin by default, and so take the client's time on shared cores: 33 -> 50 tok/s (measured).
        env=(("OMP_WAIT_POLICY", "passive"),) if threads > 1 else (),
        files=(("llamacpp_server.py", "{file:llamacpp_server.py}"),),
        port=replica.port,
        health="/health",
        fatal=FATAL,
        secrets=(API_KEY,) if key else (),
        model=campaign.model,
    )


def _argv(replica: Replica, campaign: Campaign) -> tuple[str, ...]:
    engine = campaign.engine
    prefix_cache = ("--prefix-cache",) if engine.prefix_cache else ()
    speculation = () if engine.speculation == "none" else ("--speculation", engine.speculation)
    return (
        "{env}/bin/python", "{dir}/llamacpp_server.py", "--model", "{model}/model.gguf",
        "--host", replica.host, "--port", str(replica.port), "--threads", str(len(replica.gpus)),
        "--slots", str(engine.slots), "--context-tokens", str(engine.context_tokens),
        "--alias", campaign.model, *prefix_cache, *speculation,
    )  # fmt: skip
