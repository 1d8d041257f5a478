"""A create that a stop need not wait for."""

from __future__ import annotations

import contextlib
import threading

from infra.cloud import CreateRequest, Machine
from infra.provider.job import Job, Owner
from spec.errors import CloudError

LOOK_S = 0.2


def created(job: Job, owner: Owner, request: CreateRequest) -> tuple[Machine, ...]:
    """The cloud's answer. At a stop, what is still being made is deleted, and so the call comes to its end."""
    over = threading.Event()
    threading.Thread(target=_end_at_stop, args=(job, owner, request.token, over), daemon=True).start()
    try:
        return job.cloud.create(request)
    finally:
        over.set()


def _end_at_stop(job: Job, owner: Owner, token: str, over: threading.Event) -> None:
    """Again and again: what a create makes may show late. What this does not reach, the teardown does."""
    while not over.wait(LOOK_S):
        if owner.stop.is_set():
            with contextlib.suppress(CloudError):
                for machine in job.ours(job.cloud.find(token)):
                    job.cloud.delete(machine.resource)
