"""Function: what a model may call, by name, description and a JSON schema of its arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Type names of other languages that function descriptions use.
_TYPES = {"dict": "object", "float": "number", "double": "number", "int": "integer", "tuple": "array", "list": "array",
          "str": "string", "bool": "boolean", "hashmap": "object"}  # fmt: skip
_PYTHON = {"integer": "int", "number": "float", "string": "str", "boolean": "bool", "array": "list", "object": "dict"}


@dataclass(frozen=True, slots=True)
class Function:
    """`parameters` is an object schema of plain JSON Schema types, closed to further members."""

    name: str
    description: str
    parameters: dict[str, Any]

    @property
    def arguments(self) -> dict[str, dict[str, Any]]:
        """The schema of every argument by name."""
        found: dict[str, dict[str, Any]] = self.parameters.get("properties", {})
        return found

    @property
    def required(self) -> frozenset[str]:
        """Names of the arguments that must be given."""
        return frozenset(self.parameters.get("required", ()))

    def words(self) -> str:
        """Name, description and arguments as running text, for ranking."""
        parts = [f"{_apart(self.name)}: {self.description}"]
        parts += [f"{_apart(n)}: {s.get('description', '')}" for n, s in self.arguments.items()]
        return " ".join(parts)

    def signature(self) -> str:
        """The function as a typed Python signature with a docstring: a third of the tokens of its JSON schema."""
        order = sorted(self.arguments, key=lambda n: n not in self.required)
        given = ", ".join(f"{n}: {_python(self.arguments[n])}{'' if n in self.required else ' = None'}" for n in order)
        lines = [f"def {self.name}({given}):", f'    """{self.description.strip()}']
        lines += [f"    {n}: {_told(self.arguments[n])}" for n in order]
        return "\n".join(lines) + '\n    """'


def from_openai(spec: Mapping[str, Any]) -> Function:
    """A function from an OpenAI-style description, with or without the `function` envelope."""
    inner = spec.get("function", spec)
    return Function(
        str(inner["name"]), str(inner.get("description", "")), _closed(plain(inner.get("parameters") or {}))
    )


def plain(schema: Any) -> Any:  # noqa: ANN401 - any JSON value
    """A schema with the type names of JSON Schema, and without annotations that are none of its keywords."""
    if isinstance(schema, list):
        return [plain(s) for s in schema]
    if not isinstance(schema, Mapping):
        return schema
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "type" and isinstance(value, str):
            if value != "any":
                out[key] = _TYPES.get(value.lower(), value.lower())
        elif key == "properties" and isinstance(value, Mapping):
            out[key] = {name: plain(child) for name, child in value.items()}
        elif key in ("default", "enum", "const", "examples", "required"):
            out[key] = value
        elif key not in ("optional", "format"):
            out[key] = plain(value)
    return out


def call_schema(functions: Sequence[Function], *, answer: bool = False, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:  # fmt: skip
    """The schema of one call of one of the functions, `{"tool": …, "args": …}`, or with `answer` also `{"answer": …}`."""
    calls: list[dict[str, Any]] = [
        _object({"tool": {"const": f.name}, "args": _lifted(f.parameters)}, ("tool", "args")) for f in functions
    ]
    if answer:
        calls.append(_object({"answer": {"type": "string", "minLength": 1}}, ("answer",)))
    definitions = {k: v for f in functions for k, v in f.parameters.get("$defs", {}).items()}
    made = calls[0] if len(calls) == 1 else {"anyOf": calls}
    return {**made, **({"$defs": definitions} if definitions else {}), **(arguments or {})}


def _lifted(parameters: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in parameters.items() if k != "$defs"}


def _object(properties: dict[str, Any], required: Sequence[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def _closed(parameters: dict[str, Any]) -> dict[str, Any]:
    known = parameters.get("properties", {})
    required = [n for n in parameters.get("required", ()) if n in known]
    return {**parameters, "type": "object", "properties": known, "required": required, "additionalProperties": False}


def _apart(name: str) -> str:
    return re.sub(r"[._]+", " ", re.sub(r"([a-z])([A-Z])", r"\1 \2", name))


def _python(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return f"Literal[{', '.join(repr(v) for v in schema['enum'])}]"
    kind = _PYTHON.get(str(schema.get("type", "")), "Any")
    return f"list[{_python(schema['items'])}]" if kind == "list" and isinstance(schema.get("items"), Mapping) else kind


def _told(schema: Mapping[str, Any]) -> str:
    told = str(schema.get("description", "")).strip()
    inner = schema.get("properties") or {}
    if inner:
        told += " Keys: " + "; ".join(f"{n} ({_python(s)}): {s.get('description', '')}" for n, s in inner.items())
    return told
