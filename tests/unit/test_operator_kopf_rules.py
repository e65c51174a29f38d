"""What of kopf may be used: watches only. Its other handlers leave finalizers and annotations behind."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

OPERATOR = Path(__file__).parents[2] / "operator" / "runnerq_operator"

ALLOWED = {
    "kopf.AiohttpSession",
    "kopf.OperatorRegistry",
    "kopf.OperatorSettings",
    "kopf.RawEvent",
    "kopf.on",
    "kopf.on.event",
    "kopf.on.login",
    "kopf.run_tasks",
    "kopf.spawn_tasks",
}


def dotted(node: ast.expr) -> str:
    """`a.b.c` of an attribute; "" for anything else."""
    match node:
        case ast.Attribute(value=value, attr=attr):
            inner = dotted(value)
            return f"{inner}.{attr}" if inner else ""
        case ast.Name(id=name):
            return name
        case _:
            return ""


def uses(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and (name := dotted(node)).startswith("kopf."):
            yield name
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kopf"):
            yield f"from {node.module}"


def test_only_the_informer_uses_kopf_and_only_to_watch():
    found = {
        (path.relative_to(OPERATOR).as_posix(), name)
        for path in OPERATOR.rglob("*.py")
        for name in uses(path)
    }
    assert {path for path, _ in found} == {"kube/informer.py"}
    assert {name for _, name in found} <= ALLOWED
    assert ("kube/informer.py", "kopf.on.event") in found
