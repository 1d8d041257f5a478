"""Serve a model from flags alone. Prints endpoint, key and expiry, and leaves it up until then."""

from __future__ import annotations

from decimal import Decimal

import click

from campaign import phases
from campaign.begin import Wish, begin, from_wish
from campaign.deploy import deploy
from cli.output import JSON, USD, answer, progress


@click.command("deploy", help=__doc__)
@click.argument("cloud")
@click.option("--model", required=True)
@click.option("--engine", default="llamacpp", show_default=True)
@click.option("--gpu", help="As in recipes/gpus/; any that the cloud's cluster recipes have where not given.")
@click.option("--dp", type=click.IntRange(1), default=1, show_default=True, help="Replicas.")
@click.option("--tp", type=click.IntRange(1), default=1, show_default=True, help="GPUs of one replica.")
@click.option("--speculation", default="none", show_default=True)
@click.option("--prefix-cache", is_flag=True)
@click.option("--gateway", default="none", show_default=True)
@click.option("--budget", type=USD, required=True, metavar="USD")
@click.option(
    "--hours", type=click.FloatRange(0, min_open=True), required=True, help="Lifetime; the cloud ends it then."
)
@click.option("--id", "run_id", metavar="ID", help="Name of the new run; otherwise one is made.")
@JSON
def COMMAND(
    cloud: str, model: str, engine: str, gpu: str | None, dp: int, tp: int, speculation: str, prefix_cache: bool,
    gateway: str, budget: Decimal, hours: float, run_id: str | None, as_json: bool,
) -> int:  # fmt: skip
    wish = Wish(cloud, model, engine, gpu, dp, tp, speculation, prefix_cache, gateway, budget, hours)
    run = begin(phases.planned(from_wish(wish)), name=run_id, tell=progress)
    served = deploy(run)
    data = {"run": run.name, "endpoints": [f"{url}/v1" for url in served.endpoints], "api_key": served.api_key,
            "expires_at": served.expires_at, "model": model, "worst_usd": str(served.worst_usd)}  # fmt: skip
    text = "\n".join(
        [
            *(f"endpoint  {url}/v1" for url in served.endpoints),
            f"key       {served.api_key}",
            f"model     {model}",
            f"expires   {served.expires_at}",
            f"run       {run.name}   (end it sooner: megatok down {run.name})",
        ]
    )
    return answer("deploy", as_json, text, data)
