"""A ledger in a bucket: one numbered object a line. Loaded by name, so that only who uses it pays for the library.

A number is taken by a put that succeeds only where nothing stands (`If-None-Match: *`), so of two writers one is
refused, and looks again. Any store that speaks S3 and honours that header will do; AWS_ENDPOINT_URL names another.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

from spec.errors import MegatokError

READERS = 16
"""Objects fetched at once: a long ledger is read in seconds, not minutes."""
PAUSES_S = (0.0, 0.2, 1.0, 3.0)
"""Before each try of a request: four tries ride out a hiccup, and a person waits no longer than seconds."""
TAKEN = {409, 412}
"""Something stands under the number, or is being put there right now."""
AGAIN = {408, 429}
"""With all of 5xx: no answer about what was asked."""


def bucket(name: str, prefix: str) -> Bucket:
    """With the credentials and the endpoint that the environment names."""
    config = Config(
        # Tries are counted here: a hidden second put could be refused because of the first.
        retries={"total_max_attempts": 1, "mode": "standard"},
        connect_timeout=5,
        read_timeout=15,
        max_pool_connections=READERS,
        request_checksum_calculation="when_required",  # other stores that speak S3 know no checksums
        response_checksum_validation="when_required",
    )
    try:
        return Bucket(name, prefix, boto3.client("s3", config=config))
    except BotoCoreError as error:
        raise MegatokError(f"the ledger s3://{name}/{prefix} cannot be reached: {error}; see megatok doctor") from error


class Bucket:
    """A `money.store.Store`. `client` is an S3 client of boto3 that tries once."""

    def __init__(self, name: str, prefix: str, client: Any, pauses_s: Sequence[float] = PAUSES_S) -> None:
        self.place = f"s3://{name}/{prefix}"
        self._bucket = name
        self._folder = f"{prefix}/" if prefix else ""
        self._client = client
        self._pauses_s = pauses_s
        self._count = 0
        self._tag = ""
        """ETag of the last object read."""
        self._tags: list[str] = []
        """Of the objects that `new_lines` told of and nobody took yet."""

    @contextlib.contextmanager
    def held(self, *, write: bool) -> Iterator[None]:
        """Nobody is kept out: who comes second is refused by `add`."""
        yield

    def new_lines(self) -> tuple[bool, list[bytes]]:
        """The last object read must still stand as it was: the hash in it vouches for all before."""
        folder = f"{self._folder}events/"
        listed = self._pages(folder, self._key(self._count - 2) if self._count > 1 else folder)
        void = self._count > 0 and listed[:1] != [(self._key(self._count - 1), self._tag)]
        if void:
            self.forget()
            listed = self._pages(folder, folder)
        elif self._count:
            listed = listed[1:]
        for number, (found, _) in enumerate(listed, self._count):
            if found != self._key(number):
                raise MegatokError(
                    f"the ledger {self.place} lacks its object {self._key(number)}, and {found} stands; "
                    f"{self.way_out(number)}, then megatok down each run that may still stand: it finds machines by tag"
                )
        self._tags = [tag for _, tag in listed]
        return void, self._fetch([name for name, _ in listed])

    def took(self, line: bytes) -> None:
        self._count += 1
        self._tag = self._tags.pop(0)

    def forget(self) -> None:
        self._count, self._tag, self._tags = 0, "", []

    def add(self, line: bytes) -> bool:
        """After a put of unknown outcome the number is read: what stands there says whose it is.

        Where nothing stands the same put is tried again: whatever is still on its way, one of them succeeds.
        """
        why = ""
        for pause_s in self._pauses_s:
            time.sleep(pause_s)
            try:
                return self._put(line)
            except (ClientError, BotoCoreError) as error:
                if _is_final(error):
                    raise MegatokError(
                        f"the ledger {self.place} cannot take a line: {error}; nothing was written and nothing may be "
                        "created; see that the bucket exists and that these credentials may list, get and put there"
                    ) from error
                why = str(error)
        raise MegatokError(
            f"the ledger {self.place} did not say whether it took a line: {why}; nothing may be created; try again "
            "once it answers, what was written is seen then"
        )

    def _put(self, line: bytes) -> bool:
        key = self._key(self._count)
        try:
            answer = self._client.put_object(Bucket=self._bucket, Key=key, Body=line, IfNoneMatch="*")
            tag = str(answer["ETag"])
        except (ClientError, BotoCoreError) as error:
            if _is_final(error) and _status(error) not in TAKEN:
                raise
            found = self._get(key)
            if found is None:
                raise
            if found[0] != line:
                return False
            tag = found[1]
        self._tags = [tag]
        self.took(line)
        return True

    def way_out(self, whole: int) -> str:
        return f"move all objects from {self._key(whole)} on away and keep them"

    def keep(self, name: str, data: bytes) -> None:
        key = f"{self._folder}receipts/{name}"
        with _told(f"{name} cannot be kept in {self.place}"):
            self._ask(self._client.put_object, Bucket=self._bucket, Key=key, Body=data)

    def kept(self) -> dict[str, bytes]:
        folder = f"{self._folder}receipts/"
        names = [name for name, _ in self._pages(folder, folder)]
        return {name.removeprefix(folder): data for name, data in zip(names, self._fetch(names), strict=True)}

    def _ask(self, call: Callable[..., Any], *args: Any, **asked: Any) -> Any:
        """The answer; asked for again where there was none."""
        for pause_s in self._pauses_s[1:]:
            try:
                return call(*args, **asked)
            except (ClientError, BotoCoreError) as error:
                if _is_final(error):
                    raise
            time.sleep(pause_s)
        return call(*args, **asked)

    def _key(self, number: int) -> str:
        return f"{self._folder}events/{number:012}.json"

    def _pages(self, folder: str, after: str) -> list[tuple[str, str]]:
        """Key and ETag of each object in the folder whose key comes after `after`."""
        found: list[tuple[str, str]] = []
        with _told(f"the ledger {self.place} cannot be read"):
            while True:
                asked = {"Bucket": self._bucket, "Prefix": folder, "StartAfter": found[-1][0] if found else after}
                page = self._ask(self._client.list_objects_v2, **asked)
                found += [(one["Key"], one["ETag"]) for one in page.get("Contents", ())]
                if not page.get("IsTruncated"):
                    return found

    def _fetch(self, keys: list[str]) -> list[bytes]:
        get = partial(self._ask, self._get)
        with _told(f"the ledger {self.place} cannot be read"):
            if len(keys) > 1:
                with ThreadPoolExecutor(min(READERS, len(keys))) as pool:
                    found = list(pool.map(get, keys))
            else:
                found = [get(key) for key in keys]
        if None in found:
            raise MegatokError(f"{self.place} lost {keys[found.index(None)]} while it was read; try again")
        return [one[0] for one in found if one]

    def _get(self, key: str) -> tuple[bytes, str] | None:
        try:
            answer = self._client.get_object(Bucket=self._bucket, Key=key)
            return answer["Body"].read(), str(answer["ETag"])
        except ClientError as error:
            if error.response["Error"]["Code"] == "NoSuchKey":
                return None
            raise


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except (ClientError, BotoCoreError) as error:
        raise MegatokError(
            f"{what}: {error}; see that it exists, that these credentials may list, get and put there, and that "
            "AWS_ENDPOINT_URL and AWS_DEFAULT_REGION are right"
        ) from error


def _status(error: Exception) -> int:
    return int(error.response["ResponseMetadata"]["HTTPStatusCode"]) if isinstance(error, ClientError) else 0


def _is_final(error: Exception) -> bool:
    """It was answered, or never sent: asking again changes nothing."""
    if isinstance(error, ClientError):
        return _status(error) < 500 and _status(error) not in AGAIN
    return not isinstance(error, HTTPClientError)
