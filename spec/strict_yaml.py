"""YAML as recipes use it: one document, the plain scalars of YAML 1.2, and where each thing stands.

Duplicate keys, tags, anchors and aliases are refused: without aliases a small file cannot grow into a large value, and
without YAML 1.1's scalars `010` stays ten, and `1:30:00`, `yes` and `2026-11-30` stay text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from spec.errors import RecipeError

KeyPath = tuple[str | int, ...]

MAX_DEPTH = 32
_NULL = re.compile(r"null|Null|NULL|~|")
_BOOL = re.compile(r"true|false")
_INT = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")


@dataclass(frozen=True)
class Mark:
    """Line and column, both from 1."""

    line: int
    column: int


@dataclass(frozen=True)
class Document:
    """The value of a file, and the mark of every key and value in it."""

    source: str
    value: Any
    keys: dict[KeyPath, Mark] = field(default_factory=dict)
    values: dict[KeyPath, Mark] = field(default_factory=dict)

    def where(self, path: KeyPath, *, key: bool = False) -> str:
        """`FILE:LINE:COL` of the thing at `path`, or of the nearest thing around it that the file has."""
        found = (self.keys if key else self.values).get(path)
        while found is None and path:
            path = path[:-1]
            found = self.keys.get(path) or self.values.get(path)
        return _at(self.source, found or Mark(1, 1))


def parse(text: str, source: str) -> Document:
    """The one document in `text`; RecipeError with the place where it is not what recipes use."""
    try:
        return _Builder(source, yaml.parse(text, Loader=yaml.SafeLoader)).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = _at(source, _mark(mark)) if mark else source
        raise RecipeError(f"{at}: not YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        detail = " ".join(str(error).split())
        raise RecipeError(f"{source}: not YAML: {detail}") from None


def scalar(text: str) -> Any:
    """What a plain (unquoted) scalar means in YAML 1.2's core schema; `.inf` and `.nan` stay text."""
    if _NULL.fullmatch(text):
        return None
    if _BOOL.fullmatch(text):
        return text == "true"
    if _INT.fullmatch(text):
        return int(text)
    if _BASED.fullmatch(text):
        return int(text[2:], 8 if text[1] == "o" else 16)
    return float(text) if _FLOAT.fullmatch(text) else text


def dump(value: Any) -> str:
    """`value` as YAML that `parse` reads back as the same."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


class _Dumper(yaml.SafeDumper):
    """Quotes what YAML 1.2 would read as something other than text; never writes an alias."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    plain = isinstance(scalar(value), str)
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if plain else "'")


_Dumper.add_representer(str, _text)


def _mark(mark: Any) -> Mark:
    return Mark(mark.line + 1, mark.column + 1)


def _at(source: str, mark: Mark) -> str:
    return f"{source}:{mark.line}:{mark.column}"


class _Builder:
    """Turns PyYAML's events into plain data, and keeps the marks."""

    def __init__(self, source: str, events: Iterator[yaml.Event]) -> None:
        self.source = source
        self.events = events
        self.keys: dict[KeyPath, Mark] = {}
        self.values: dict[KeyPath, Mark] = {}

    def document(self) -> Document:
        next(self.events)
        first = next(self.events)
        if isinstance(first, yaml.StreamEndEvent):
            raise RecipeError(f"{self.source}: the file is empty; copy one from recipes/ and edit it")
        value = self.node(next(self.events), ())
        next(self.events)
        after = next(self.events)
        if not isinstance(after, yaml.StreamEndEvent):
            raise self.refuse(after, "a second document begins; keep one document a file")
        return Document(self.source, value, self.keys, self.values)

    def node(self, event: Any, path: KeyPath) -> Any:
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise self.refuse(event, "anchors (&) and aliases (*) are not used in recipes; write the value out")
        if getattr(event, "tag", None):
            raise self.refuse(event, f"tag {event.tag} is not used in recipes; quote text instead")
        if len(path) > MAX_DEPTH:
            raise self.refuse(event, f"nested deeper than {MAX_DEPTH} levels")
        self.values[path] = _mark(event.start_mark)
        if isinstance(event, yaml.MappingStartEvent):
            return self.mapping(path)
        if isinstance(event, yaml.SequenceStartEvent):
            return self.sequence(path)
        return self.scalar(event)

    def scalar(self, event: Any) -> Any:
        text: str = event.value
        if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
            raise self.refuse(event, f"{text!r} holds half of a surrogate pair")
        try:
            return scalar(text) if event.implicit[0] else text
        except ValueError:
            raise self.refuse(event, f"a number of {len(text)} digits is too long") from None

    def mapping(self, path: KeyPath) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent) or event.anchor or event.tag:
                raise self.refuse(event, "a key must be one plain word")
            key, inner = event.value, (*path, event.value)
            if key in found:
                first = self.keys[inner].line
                raise self.refuse(event, f"key {key!r} stands twice (first on line {first}); remove one")
            self.keys[inner] = _mark(event.start_mark)
            found[key] = self.node(next(self.events), inner)
        return found

    def sequence(self, path: KeyPath) -> list[Any]:
        found: list[Any] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            found.append(self.node(event, (*path, len(found))))
        return found

    def refuse(self, event: yaml.Event, problem: str) -> RecipeError:
        return RecipeError(f"{_at(self.source, _mark(event.start_mark))}: {problem}")
