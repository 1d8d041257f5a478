"""This machine's wall clock, the one place where the project reads it. A cloud's times are compared with `Cloud.now`.

`MEGATOK_CLOCK_OFFSET_S` moves it: proofs show with it that a wrong clock leaves nothing running.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

OFFSET = "MEGATOK_CLOCK_OFFSET_S"


def now() -> datetime:
    return datetime.now(UTC) + timedelta(seconds=float(os.environ.get(OFFSET) or 0))
