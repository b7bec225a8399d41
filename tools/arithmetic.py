"""Arithmetic: the value of an expression of numbers, without `eval` and within bounds."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Annotated

from pydantic import Field
from ragq.tools.result import Result, ToolError
from ragq.tools.tool import tool

MAX_EXPONENT, MAX_NODES, MAX_VALUE = 64, 200, 1e100
_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., float]] = {
    "sqrt": math.sqrt, "exp": math.exp, "log": math.log, "log10": math.log10, "abs": abs, "round": round,
    "min": min, "max": max,
}  # fmt: skip


class Sum(Result):
    """The value of an expression."""

    value: float


@tool()
def calculate(expression: Annotated[str, Field(max_length=300, description="numbers, + - * / ^ ( ), sqrt, exp, log, min, max, round")]) -> Sum:  # fmt: skip  # noqa: E501
    """Calculate an arithmetic expression."""
    value = evaluate(expression)
    return Sum(text=f"{expression.strip()} = {value:g}.", source="arithmetic", value=value)


def evaluate(expression: str) -> float:
    """The value of an expression. Raises ToolError for anything but numbers, the operators and a few functions of
    them, for a number beyond 1e100, an exponent beyond 64, and what has no value (a division by zero).
    """
    try:
        tree = ast.parse(expression.strip().replace("^", "**").replace("×", "*").replace("·", "*"), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise ToolError(f"not an arithmetic expression: {expression[:80]!r}") from None
    if sum(1 for _ in ast.walk(tree)) > MAX_NODES:
        raise ToolError(f"more than {MAX_NODES} terms")
    try:
        return _value(tree.body)
    except (ZeroDivisionError, OverflowError, ValueError, TypeError) as error:
        raise ToolError(f"{expression[:80]}: {error}") from None


def _value(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            found = float(number)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            found = -_value(inner)
        case ast.UnaryOp(op=ast.UAdd(), operand=inner):
            found = _value(inner)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            a, b = _value(left), _value(right)
            if isinstance(op, ast.Pow) and abs(b) > MAX_EXPONENT:
                raise ToolError(f"an exponent beyond {MAX_EXPONENT}")
            found = _BINARY[type(op)](a, b)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            found = float(_FUNCTIONS[name](*(int(_value(a)) if name == "round" and i else _value(a) for i, a in enumerate(args))))  # fmt: skip
        case _:
            raise ToolError(f"{ast.unparse(node)[:40]!r} is no number, operator or known function")
    if isinstance(found, complex) or not abs(found) <= MAX_VALUE:
        raise ToolError(f"a number beyond {MAX_VALUE:g}")
    return found
