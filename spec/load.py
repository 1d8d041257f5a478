"""Recipes from files: the only module of spec that reads one.

A campaign may hold its cluster and workload or name them: `cluster: local-2` is `clusters/local-2.yaml` in the recipes
folder that the campaign stands in, else in this project's own `recipes/`.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from spec import strict_yaml
from spec.base import Spec
from spec.errors import OverBudget, RecipeError
from spec.explain import refusal
from spec.inventory import Inventory
from spec.recipe import Calibration, Campaign, Cluster, Gpu, Model, PriceEntry, PriceList, Workload
from spec.strict_yaml import Document

RECIPES = Path(__file__).resolve().parent.parent / "recipes"
MAX_BYTES = 1 << 20
"""Far above any recipe (a thousand hosts take 300 kB), far below what would stall the parser."""

S = TypeVar("S", bound=Spec)


def campaign(path: Path, budget_usd: Decimal | None = None) -> Campaign:
    """The campaign in `path`, with the cluster and workload that it names; `budget_usd` takes the place of its own."""
    document = _document(path)
    if isinstance(document.value, dict) and "node_type" in document.value and not _is_campaign(document):
        raise RecipeError(
            f"{path}: is the recipe of a cluster, not of a campaign; name it in a campaign (cluster: {path.stem}), "
            "or stand it up alone with pulumi up, as the README shows"
        )
    value = _with_parts(document, path)
    unbounded = isinstance(value, dict) and budget_usd is None and "budget_usd" not in value
    if isinstance(value, dict) and (budget_usd is not None or unbounded):
        value = {**value, "budget_usd": budget_usd or Decimal(1)}
    found = _validated(document, value, Campaign)
    if unbounded:
        raise OverBudget(f"{document.source}:1:1: budget_usd is missing; add it, or give --budget USD")
    _named("models", found.model, RECIPES, document.where(("model",)))
    _named("gpus", found.cluster.gpu, RECIPES, document.where(("cluster", "gpu")))
    return found


def cluster(path: Path) -> Cluster:
    """The cluster in `path`, which is a cluster recipe or a campaign."""
    document = _document(path)
    if _is_campaign(document):
        return campaign(path).cluster
    return _validated(document, document.value, Cluster)


def model(name: str) -> Model:
    """The model that `recipes/models/` calls `name`."""
    return _read(_named("models", name, RECIPES), Model)


def weights_gib(path: Path) -> float:
    """Size of the model that the recipe in `path` serves; 0 for a cluster recipe, which serves none."""
    document = _document(path)
    if _is_campaign(document):
        return model(campaign(path).model).weights_gib
    return 0.0


def gpu(name: str) -> Gpu:
    """The GPU that `recipes/gpus/` calls `name`."""
    return _read(_named("gpus", name, RECIPES), Gpu)


def price(cloud: str, node_type: str) -> PriceEntry:
    """What `recipes/prices/` says of one node type; RecipeError where it says nothing."""
    path = _named("prices", cloud, RECIPES)
    entries = _read(path, PriceList).entries
    for entry in entries:
        if entry.node_type == node_type:
            return entry
    known = ", ".join(entry.node_type for entry in entries)
    raise RecipeError(f"no price for node type {node_type!r} of cloud {cloud!r}; {path.name} has {known}")


@functools.cache  # asked for once a cell
def calibration(engine: str, model: str, gpu: str) -> Calibration | None:
    """Measured speeds of `model` in `engine` on `gpu`; None where nothing was measured."""
    path = RECIPES / "calibration" / f"{engine}-{model}-{gpu}.yaml"
    return _read(path, Calibration) if path.is_file() else None


def inventory(path: Path) -> Inventory:
    """The nodes in an inventory file, as the stack's output has them."""
    try:
        return Inventory.model_validate_json(_text(path))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise RecipeError(f"{path}: not an inventory: {where}: {first['msg']}") from None


def dump(spec: Spec) -> str:
    """A recipe as YAML that loads again as the same."""
    return strict_yaml.dump(spec.model_dump(mode="json"))


def _is_campaign(document: Document) -> bool:
    """Only a campaign has a sweep; a cluster recipe has none."""
    return isinstance(document.value, dict) and "sweep" in document.value


def _with_parts(document: Document, path: Path) -> Any:
    """The document's value, in which a named cluster or workload has been read from its own file."""
    if not isinstance(document.value, dict):
        return document.value
    value: dict[str, Any] = dict(document.value)
    parts: Mapping[str, tuple[str, type[Spec]]] = {
        "cluster": ("clusters", Cluster),
        "workload": ("workloads", Workload),
    }
    for key, (folder, kind) in parts.items():
        name = value.get(key)
        if isinstance(name, str):
            value[key] = _read(_named(folder, name, path.parent.parent, document.where((key,))), kind)
    return value


def _named(folder: str, name: str, near: Path, where: str = "") -> Path:
    """File of the recipe called `name`, in `near` or in this project's own recipes."""
    roots = dict.fromkeys((near, RECIPES))
    for root in roots:
        if (root / folder / f"{name}.yaml").is_file() and "/" not in name:
            return root / folder / f"{name}.yaml"
    known = sorted({found.stem for root in roots for found in (root / folder).glob("*.yaml")})
    near_names = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near_names[0]!r}? " if near_names else ""
    at = f"{where}: " if where else ""
    raise RecipeError(f"{at}no {name!r} in recipes/{folder}; {hint}there are {', '.join(known)}")


def _read(path: Path, kind: type[S]) -> S:
    document = _document(path)
    return _validated(document, document.value, kind)


def _document(path: Path) -> Document:
    return strict_yaml.parse(_text(path), str(path))


def _validated(document: Document, value: Any, kind: type[S]) -> S:
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise refusal(document, kind, error) from None


def _text(path: Path) -> str:
    """The file's text; RecipeError where it is none, too large, or not UTF-8."""
    if path.is_dir():
        raise RecipeError(f"{path}: is a folder; name a file in it")
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise RecipeError(f"{path}: cannot be read: {reason}; recipes/ holds examples") from None
    if len(data) > MAX_BYTES:
        raise RecipeError(f"{path}: larger than {MAX_BYTES} bytes, which is no recipe; check the path")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise RecipeError(f"{path}:{line}:1: not UTF-8 (byte {data[error.start]:#04x}); save it as UTF-8") from None
