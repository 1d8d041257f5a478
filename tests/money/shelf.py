"""The few calls of S3 that a ledger makes, on a dict, for tests that need thousands of them."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal

from botocore.exceptions import ClientError, ReadTimeoutError

from money.bucket import Bucket

Fault = Literal["lost before", "lost after", "busy before", "busy after"]
"""Of a put: the connection broke or the store was busy, before or after the object stood."""
FAULTS: tuple[Fault, ...] = ("lost before", "lost after", "busy before", "busy after")


@dataclass
class Shelf:
    """One bucket; each handle is a client of its own."""

    objects: dict[str, bytes] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    """Of the next puts, in order."""
    races: list[Callable[[], None]] = field(default_factory=list)
    """What others do right before the next puts."""
    calls: list[str] = field(default_factory=list)

    def bucket(self) -> Bucket:
        return Bucket("shelf", "ledger", self, pauses_s=(0, 0, 0, 0))

    def lines(self) -> list[bytes]:
        return [data for _, data in sorted(self.objects.items())]

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, IfNoneMatch: str = "") -> dict[str, str]:
        self.calls.append("put")
        if self.races:
            self.races.pop()()
        fault = self.faults.pop(0) if self.faults else ""
        if fault.endswith("before"):
            raise _failure(fault)
        if IfNoneMatch == "*" and Key in self.objects:
            raise refusal(412, "PreconditionFailed")
        self.objects[Key] = Body
        if fault:
            raise _failure(fault)
        return {"ETag": _tag(Body)}

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:
        self.calls.append("get")
        if Key not in self.objects:
            raise refusal(404, "NoSuchKey")
        return {"Body": io.BytesIO(self.objects[Key]), "ETag": _tag(self.objects[Key])}

    def list_objects_v2(self, *, Bucket: str, Prefix: str, StartAfter: str) -> dict[str, Any]:
        self.calls.append("list")
        keys = sorted(key for key in self.objects if key.startswith(Prefix) and key > StartAfter)
        contents = [{"Key": key, "ETag": _tag(self.objects[key])} for key in keys[:10]]
        return {"Contents": contents, "IsTruncated": len(keys) > 10}


def _tag(data: bytes) -> str:
    return sha256(data).hexdigest()


def _failure(fault: str) -> Exception:
    lost: Exception = ReadTimeoutError(endpoint_url="shelf")
    return lost if fault.startswith("lost") else refusal(503, "SlowDown")


def refusal(status: int, code: str) -> ClientError:
    answer: Any = {"Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "Call")
