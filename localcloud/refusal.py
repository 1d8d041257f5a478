"""What the cloud says instead of yes: a code that clients may act on, and a sentence."""

from __future__ import annotations

STATUS = {
    "bad_request": 400,
    "denied": 401,
    "quota_exceeded": 403,
    "not_found": 404,
    "in_use": 409,
    "no_capacity": 409,
    "throttled": 429,
}


class Refusal(Exception):
    """An answer of the documented error form."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.status = STATUS[code]


class Lost(Exception):
    """The call was carried out, and its answer is not sent: the connection is dropped after `after_s`."""

    def __init__(self, after_s: float) -> None:
        super().__init__(after_s)
        self.after_s = after_s


class Garbled(Exception):
    """The call was carried out, and its answer is not JSON."""
