"""JSON Schemas of every file that outlives a process: `docs/schemas/NAME.json`."""

from __future__ import annotations

import json
from typing import Any, Literal

from spec.answer import Answer
from spec.base import Spec
from spec.inventory import Inventory
from spec.ledger import Event
from spec.receipt import Receipt
from spec.recipe import Calibration, Campaign, Cluster, Gpu, Model, PriceList, Workload
from spec.record import Record, RunDocument

READ: dict[str, type[Spec]] = {
    "recipe": Campaign,
    "cluster": Cluster,
    "workload": Workload,
    "model": Model,
    "gpu": Gpu,
    "prices": PriceList,
    "calibration": Calibration,
}
"""What users write. `recipe` is a campaign, whose cluster and workload may be a name instead."""

WRITTEN: dict[str, type[Spec]] = {
    "inventory": Inventory,
    "event": Event,
    "receipt": Receipt,
    "record": Record,
    "run": RunDocument,
    "answer": Answer,
}
"""What the program writes."""

SCHEMAS = READ | WRITTEN


def schema(name: str) -> dict[str, Any]:
    """JSON Schema (2020-12) of the file called `name` above."""
    mode: Literal["validation", "serialization"] = "validation" if name in READ else "serialization"
    found = SCHEMAS[name].model_json_schema(mode=mode)
    if name == "recipe":
        for key in ("cluster", "workload"):
            found["properties"][key] = {"anyOf": [{"type": "string"}, found["properties"][key]]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found}


def text(name: str) -> str:
    """The schema as `docs/schemas/NAME.json` holds it."""
    return json.dumps(schema(name), indent=1) + "\n"
