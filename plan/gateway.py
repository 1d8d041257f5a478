"""What a gateway must tell, and the gateways there are: one is a module in `plan/gateways/` and a line here."""

from __future__ import annotations

from typing import Protocol

from plan.gateways import haproxy, nginx, none, vllm_router
from plan.launch import Launch, Placement
from spec.errors import RecipeError


class Gateway(Protocol):
    """A module that knows one gateway."""

    def launch(self, name: str, placement: Placement) -> Launch | None:
        """The process in front of the replicas of `placement`; None where there is none."""


GATEWAYS: dict[str, Gateway] = {"none": none, "nginx": nginx, "haproxy": haproxy, "vllm-router": vllm_router}


def gateway(name: str) -> Gateway:
    if name not in GATEWAYS:
        raise RecipeError(f"sweep: unknown gateway {name!r}; there are {', '.join(GATEWAYS)}")
    return GATEWAYS[name]
