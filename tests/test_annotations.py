"""Annotations: ``Any`` stands only where a value really is anything."""

from __future__ import annotations

import ast
from pathlib import Path

import vitalrank

ROOT = Path(vitalrank.__file__).parent
# Kernels aside: operators of "an array or a tensor", options passed on, JSON of others, libraries without types.
MOST_PARAMETERS, MOST_RETURNS = 81, 47


def annotations(tree: ast.AST) -> tuple[list[ast.expr | None], list[ast.expr | None]]:
    """Of the parameters and of the returns of all functions."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    parameters = [
        one.annotation for function in functions for one in ast.walk(function.args) if isinstance(one, ast.arg)
    ]
    return parameters, [function.returns for function in functions]


def is_any(annotation: ast.expr | None) -> bool:
    return annotation is not None and ast.unparse(annotation).strip("'\"") in ("Any", "typing.Any")


def test_no_more_values_are_anything():
    parameters, returns = 0, 0
    for path in ROOT.rglob("*.py"):
        if "kernels" not in path.relative_to(ROOT).parts:
            taken, given = annotations(ast.parse(path.read_text(encoding="utf-8")))
            parameters, returns = parameters + sum(map(is_any, taken)), returns + sum(map(is_any, given))
    assert parameters <= MOST_PARAMETERS, "give the new parameter the type that it has"
    assert returns <= MOST_RETURNS, "give the new return value the type that it has"
