"""Tool: a typed function that a question or a model may call, with checked arguments, a time limit and a scope."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from ragq.errors import UsageError
from ragq.tools.function import Function
from ragq.tools.result import Result, ToolError
from ragq.tools.scope import Scope

_SCOPE = "scope"


@dataclass(frozen=True, slots=True)
class Tool:
    """`arguments` is made from the function's signature; a `patient_scoped` tool gets the Scope of the question."""

    name: str
    description: str
    run: Callable[..., Result]
    arguments: type[BaseModel]
    result: type[Result]
    timeout_s: float
    patient_scoped: bool

    def __call__(self, args: Mapping[str, Any], scope: Scope | None = None) -> Result:
        """The result. Raises UsageError for arguments that are wrong, ToolError when they do not suffice, when the tool
        needs a patient and has none, or when it takes longer than `timeout_s`.
        """
        if self.patient_scoped and scope is None:
            raise ToolError(f"{self.name} needs a patient's record; name one with --patient")
        try:
            checked = self.arguments.model_validate(dict(args))
        except ValidationError as error:
            raise UsageError(f"{self.name}: {_told(error)}") from None
        given = {name: getattr(checked, name) for name in self.arguments.model_fields}
        if self.patient_scoped:
            given[_SCOPE] = scope
        return _within(self, given)

    def function(self) -> Function:
        """The tool as a model sees it."""
        schema = self.arguments.model_json_schema()
        return Function(self.name, self.description, {**_plain(schema), "additionalProperties": False})

    def schema(self) -> dict[str, Any]:
        """The OpenAI-style description."""
        made = self.function()
        return {
            "type": "function",
            "function": {"name": made.name, "description": made.description, "parameters": made.parameters},
        }


def tool(*, timeout_s: float = 5.0, patient_scoped: bool = False) -> Callable[[Callable[..., Result]], Tool]:
    """Make a Tool of a function: its name and docstring describe it, its annotations are the arguments (with
    `Annotated[…, Field(…)]` for bounds and descriptions) and the result. Raises TypeError for one that is not typed.
    """

    def wrap(function: Callable[..., Result]) -> Tool:
        hints = get_type_hints(function, include_extras=True)
        result = hints.pop("return", None)
        if not (isinstance(result, type) and issubclass(result, Result)):
            raise TypeError(f"{function.__name__}: the result must be a Result, found {result}")
        fields: dict[str, Any] = {}
        for name, parameter in inspect.signature(function).parameters.items():
            if name == _SCOPE and patient_scoped:
                continue
            if name not in hints:
                raise TypeError(f"{function.__name__}: argument {name!r} has no type")
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[name] = (hints[name], default)
        config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
        model = create_model(f"{function.__name__}_arguments", __config__=config, **fields)
        description = " ".join((inspect.getdoc(function) or "").split())
        if not description:
            raise TypeError(f"{function.__name__}: a tool needs a docstring that says what it does")
        return Tool(function.__name__, description, function, model, result, timeout_s, patient_scoped)

    return wrap


def _within(tool: Tool, given: dict[str, Any]) -> Result:
    """Run in a thread of its own; one that overruns is left behind and its result ignored."""
    box: list[Result | BaseException] = []

    def work() -> None:
        try:
            box.append(tool.run(**given))
        except BaseException as error:  # noqa: BLE001 - it is raised again in the caller's thread
            box.append(error)

    thread = threading.Thread(target=work, daemon=True, name=f"tool {tool.name}")
    started = time.monotonic()
    thread.start()
    thread.join(tool.timeout_s)
    if not box:
        raise ToolError(f"{tool.name} gave no result within {time.monotonic() - started:.1f} s")
    if isinstance(box[0], BaseException):
        raise box[0]
    return box[0]


def _told(error: ValidationError) -> str:
    found = []
    for e in error.errors():
        where = ".".join(str(p) for p in e["loc"]) or "arguments"
        given = "" if e["type"] == "missing" else f", found {e['input']!r}"
        found.append(f"{where}: {e['msg'].lower()}{given}")
    return "; ".join(found)


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """Pydantic's schema less the titles, which cost tokens and say nothing."""

    def bare(node: Any) -> Any:  # noqa: ANN401 - any JSON value
        if isinstance(node, dict):
            return {k: bare(v) for k, v in node.items() if not (k == "title" and isinstance(v, str))}
        return [bare(v) for v in node] if isinstance(node, list) else node

    made: dict[str, Any] = bare(schema)
    return made
