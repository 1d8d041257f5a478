"""The limits that keep a file on one screen and a change in one place."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("campaign", "cli", "infra", "localcloud", "money", "plan", "playbooks", "report", "spec")
MODULE_LINES = 400
FUNCTION_LINES = 50
LITERAL_LINES = 80
CLASS_METHODS = 15
ENTRY_LINES = 30
VAGUE = {"utils", "util", "common", "misc", "manager", "helpers"}
PRINTS = ("cli", "tools")
"""Rooms that talk to a person; every other room returns, raises or logs."""
LAST_RESORT = {"cli/main.py", "infra/audit/look.py"}
"""Beside modules called teardown: where everything must be caught, because nobody else would."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def _listed(*patterns: str) -> list[Path]:
    """Files of the project, also those not committed yet, as far as they still exist."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    return [Path(name) for name in names if name and (ROOT / name).is_file()]


def _is_python(path: Path) -> bool:
    if path.suffix:
        return path.suffix == ".py"
    return (ROOT / path).read_bytes()[:64].split(b"\n")[0].endswith(b"python3")


MODULES = [path for path in _listed("*.py", "tools/*") if _is_python(path)]


def _tree(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text(), str(path))


def _functions(tree: ast.Module) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def _lines(node: Function) -> int:
    """Decorators are not counted: they say nothing of how long the body is."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _is_literal(node: Function) -> bool:
    """A function that is one literal list or call: long because what it lists is long, not because it decides."""
    body = [part for part in node.body if not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))]
    return len(body) in {1, 2} and isinstance(body[-1], ast.Return)


def _breadth(handler: ast.ExceptHandler) -> bool:
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or ast.unparse(kind) in {"Exception", "BaseException"} for kind in caught)


def _breaches(path: Path) -> Iterator[str]:
    tree = _tree(path)
    length = len((ROOT / path).read_text().splitlines())
    limit = ENTRY_LINES if path.name == "__main__.py" and len(path.parts) == 1 else MODULE_LINES
    if length > limit:
        yield f"{path}: {length} lines, at most {limit}"
    for function in _functions(tree):
        allowed = LITERAL_LINES if _is_literal(function) else FUNCTION_LINES
        if _lines(function) > allowed:
            yield f"{path}:{function.lineno}: {function.name} has {_lines(function)} lines, at most {allowed}"
        for inner in ast.walk(function):
            if isinstance(inner, ast.Import | ast.ImportFrom):
                yield f"{path}:{inner.lineno}: import inside {function.name}"
    for node in ast.walk(tree):
        yield from _node_breaches(path, node)


def _node_breaches(path: Path, node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.ClassDef):
        methods = sum(isinstance(part, Function) for part in node.body)
        if methods > CLASS_METHODS:
            yield f"{path}:{node.lineno}: class {node.name} has {methods} methods, at most {CLASS_METHODS}"
    if isinstance(node, ast.ExceptHandler) and _breadth(node) and not _may_catch_all(path):
        yield f"{path}:{node.lineno}: broad except"
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "print" and path.parts[0] not in PRINTS:
        yield f"{path}:{node.lineno}: print outside {' and '.join(PRINTS)}"


def _may_catch_all(path: Path) -> bool:
    return path.as_posix() in LAST_RESORT or path.stem == "teardown"


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_module_keeps_the_limits(path: Path) -> None:
    assert not list(_breaches(path))


def test_no_module_has_a_vague_name() -> None:
    assert not [path for path in MODULES if VAGUE & {path.stem, *path.parts[:-1]}]


def test_every_room_is_a_package() -> None:
    """import-linter sees packages only: a folder without `__init__.py` would escape it."""
    folders = {path.parent for path in MODULES if path.parts[0] in ROOMS}
    assert not [folder for folder in folders if not (ROOT / folder / "__init__.py").is_file()]
