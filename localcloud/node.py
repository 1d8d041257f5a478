"""One node as the cloud knows it: a record in a file, what the API shows of it, and what it is told of itself."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from localcloud.ports import COUNT
from localcloud.thing import Thing, stamp, write


@dataclass(kw_only=True)
class Node(Thing):
    """A machine."""

    PRIVATE: ClassVar[tuple[str, ...]] = (*Thing.PRIVATE, "public_key", "extras")

    kind: str = "machine"
    node_type: str
    gpu: str
    gpus: int
    public_key: str
    user_data: str = ""
    """Script of the first boot."""
    extras: dict[str, str] = field(default_factory=dict)
    """Kinds that are made with it and billed apart, with their dollars an hour."""
    ssh_port: int = 0
    user: str = ""
    host_key: str = ""

    def shown(self) -> dict[str, Any]:
        """The API's form."""
        return super().shown() | {"host": "127.0.0.1", "ports": {"first": self.ssh_port + 1, "count": COUNT}}

    def save(self, folder: Path) -> None:
        """The record; beside it the expiry, all that the supervisor reads of it again and again, and the metadata."""
        write(folder / "node.json", json.dumps(asdict(self)))
        write(folder / "expires_at", str(self.expires_at))
        write(folder / "metadata", self.metadata())

    def metadata(self) -> str:
        """What the node can read of itself, as lines `KEY=VALUE`; each tag as `tag.NAME=VALUE`."""
        told = {"id": self.id, "name": self.name, "region": self.region, "node_type": self.node_type}
        told |= {"expires_at": str(stamp(self.expires_at))} | {f"tag.{key}": value for key, value in self.tags.items()}
        return "".join(f"{key}={value}\n" for key, value in told.items() if "\n" not in key + value)


def load(folder: Path) -> Node:
    return Node(**json.loads((folder / "node.json").read_text()))
