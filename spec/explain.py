"""What was wrong with a file's values, told as `FILE:LINE:COL: key.path: what, the value, the way out`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from spec.errors import RecipeError
from spec.recipe import AT
from spec.strict_yaml import Document, KeyPath

_UNITS = {
    "s",
    "ms",
    "m",
    "h",
    "min",
    "minutes",
    "hours",
    "seconds",
    "usd",
    "eur",
    "cents",
    "tokens",
    "gib",
    "gb",
    "mib",
}
_MESSAGES = {
    "string_type": "must be text; put it in quotes",
    "int_type": "must be a whole number, without quotes",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number, without quotes",
    "decimal_type": "must be an amount of dollars, such as 1.50",
    "bool_type": "must be true or false (yes, no, on and off are text)",
    "tuple_type": "must be a list, such as [a, b]",
    "dict_type": "must be a group of keys, one a line, indented below it",
    "model_type": "must be a group of keys, one a line, indented below it",
    "too_short": "is empty; give at least {min_length}",
    "greater_than": "must be above {gt:g}",
    "greater_than_equal": "must be {ge:g} or more",
    "less_than": "must be below {lt:g}",
    "less_than_equal": "must be {le:g} or less",
    "literal_error": "must be {expected}",
    "string_pattern_mismatch": "must be lower-case letters, digits, dots and dashes, at most 63",
    "finite_number": "must be a finite number",
}


def refusal(document: Document, kind: type[BaseModel], error: ValidationError) -> RecipeError:
    """Everything that `error` holds, one line each, in the order of the file."""
    details = error.errors(include_url=False)
    meant = {_meant(kind, detail) for detail in details if detail["type"] == "extra_forbidden"}
    lines = {_line(document, kind, detail) for detail in details if not _follows(detail, details, meant)}
    return RecipeError("\n".join(sorted(lines, key=_position)))


def _follows(detail: ErrorDetails, details: Sequence[ErrorDetails], meant: set[KeyPath]) -> bool:
    """Whether an error only follows from another: a key missing that was misspelt, a list short of what was refused."""
    loc = detail["loc"]
    inner = any(other["loc"][: len(loc)] == loc and other is not detail for other in details)
    return (detail["type"] == "missing" and loc in meant) or (detail["type"] == "too_short" and inner)


def _position(line: str) -> tuple[int, int]:
    _, row, column, *_ = line.split(": ", 1)[0].rsplit(":", 2)
    return int(row), int(column)


def _line(document: Document, kind: type[BaseModel], detail: ErrorDetails) -> str:
    loc: KeyPath = (*detail["loc"], *detail.get("ctx", {}).get(AT, ()))
    at = document.where(loc, key=detail["type"] == "extra_forbidden")
    return f"{at}: {dotted(loc)}: {_what(kind, detail)}"


def dotted(path: KeyPath) -> str:
    """`sweep.0.layout`; the whole file where the path is empty."""
    return ".".join(str(part) for part in path) or "the file"


def _what(kind: type[BaseModel], detail: ErrorDetails) -> str:
    if detail["type"] == "missing":
        return "is missing; add it"
    if detail["type"] == "extra_forbidden":
        return _unknown(kind, detail)
    if detail["type"] in ("value_error", "assertion_error") or detail["type"] not in _MESSAGES:
        return detail["msg"].removeprefix("Value error, ")
    text = _MESSAGES[detail["type"]].format_map(detail.get("ctx", {}))
    return f"{_shown(detail['input'])} {text}"


def _shown(value: Any) -> str:
    """The value as the file has it, more or less, and not too much of it."""
    text = repr(list(value) if isinstance(value, tuple) else value)
    text = {"None": "nothing", "True": "true", "False": "false"}.get(text, text)
    return text if len(text) <= 60 else text[:57] + "..."


def _unknown(kind: type[BaseModel], detail: ErrorDetails) -> str:
    key, known = str(detail["loc"][-1]), _keys(kind, detail["loc"][:-1])
    meant = _meant(kind, detail)
    if not meant:
        return f"unknown key {key!r}; known are {', '.join(known)}"
    name = str(meant[-1])
    if _stem(name) == _stem(key):
        return f"unknown key {key!r}; units live in names: use {name}"
    return f"unknown key {key!r}; did you mean {name!r}?"


def _meant(kind: type[BaseModel], detail: ErrorDetails) -> KeyPath:
    """Path of the key that the unknown one probably stands for; empty where none is near."""
    *parent, key = detail["loc"]
    known = _keys(kind, parent)
    same = [name for name in known if _stem(name) == _stem(str(key))]
    near = same or difflib.get_close_matches(str(key), known, n=1)
    return (*parent, near[0]) if near else ()


def _stem(key: str) -> str:
    head, _, tail = key.rpartition("_")
    return head if head and tail in _UNITS else key


def _keys(kind: type[BaseModel], path: Sequence[str | int]) -> list[str]:
    """Keys that the type at `path` below `kind` knows, by its JSON schema."""
    schema = kind.model_json_schema()
    here = _resolve(schema, schema)
    for part in path:
        inner = here.get("items", {}) if isinstance(part, int) else here.get("properties", {}).get(part, {})
        here = _resolve(schema, inner)
    return list(here.get("properties", {}))


def _resolve(schema: Mapping[str, Any], here: Mapping[str, Any]) -> Mapping[str, Any]:
    for choice in here.get("anyOf", ()):
        if "$ref" in choice:
            here = choice
    if "$ref" not in here:
        return here
    found: Mapping[str, Any] = schema["$defs"][here["$ref"].rsplit("/", 1)[-1]]
    return found
