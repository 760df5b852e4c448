"""All an installed Tinker SDK can send, read from its sources: endpoints, fields of requests, words of enumerations.

Nothing is imported, so the SDK of any environment can be read.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PREFIX = "/api/v1/"
_ANSWERS = ("Response", "Output", "Event", "Info", "Summary", "Sequence", "Completion")
"""Endings of names of what is received, or is told of the client itself."""
_VERBS = {"get": "GET", "post": "POST", "put": "PUT", "delete": "DELETE", "patch": "PATCH"}


def read_surface(package: Path) -> frozenset[str]:
    """Return `VERB /path`, `Request.field` and `Enumeration=word` for all that is in the SDK's folder."""
    found = set[str]()
    for file in sorted(package.rglob("*.py")):
        if file.stem.endswith("_test"):
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        found.update(_endpoints(tree))
        if "types" in file.parts:
            found.update(_fields(tree))
            found.update(_words(tree))
    return frozenset(found)


def _endpoints(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            verb = _VERBS.get(getattr(node.func, "attr", "").lstrip("_"))
            path = _path(node.args[0])
            if verb and path and path.startswith(PREFIX):
                yield f"{verb} {path}"


def _path(node: ast.expr) -> str | None:
    """A text, or an f-string in which every value is `*`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_path(part) or "*" for part in node.values)
    return None


def _fields(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.endswith(_ANSWERS):
            given = [line for line in node.body if isinstance(line, ast.AnnAssign)]
            names = [ast.unparse(line.target) for line in given if not _of_class(line)]
            yield from (f"{node.name}.{name}" for name in names if name != "type")


def _of_class(line: ast.AnnAssign) -> bool:
    return "ClassVar" in ast.unparse(line.annotation)


def _words(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.AnnAssign | ast.Assign) and node.value is not None:
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if isinstance(target, ast.Name):
                yield from (f"{target.id}={word}" for word in _literal(node.value))
        elif isinstance(node, ast.ClassDef) and any("Enum" in ast.unparse(b) for b in node.bases):
            for line in node.body:
                if isinstance(line, ast.Assign) and isinstance(line.value, ast.Constant):
                    yield f"{node.name}={line.value.value}"


def _literal(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("Literal"):
        words = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        yield from (str(word.value) for word in words if isinstance(word, ast.Constant))
