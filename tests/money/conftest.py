"""The same tests over both places where a ledger may lie."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

BUCKET = "megatok-test"


@pytest.fixture(scope="session")
def s3() -> Iterator[dict[str, str]]:
    """Environment in which BUCKET stands on this machine; its server ends with this process, whatever happens."""
    command = [sys.executable, str(Path(__file__).with_name("s3_server.py"))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout
        environment = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.stdout.readline().strip()}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            boto3.client("s3").create_bucket(Bucket=BUCKET)
        yield environment
        server.communicate()


@pytest.fixture
def s3_address(s3: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """A ledger of this test's own."""
    for name, value in s3.items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{uuid.uuid4().hex}"


@pytest.fixture(params=["file", "s3"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return (tmp_path / "ledger").as_uri()
    found: str = request.getfixturevalue("s3_address")
    return found
