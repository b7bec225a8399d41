"""Schema: a JSON schema made ready for a grammar: read within limits, checked, brought to one dialect, weakened where needed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ragq.errors import UsageError

Schema = Mapping[str, Any]

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
MAX_BYTES, MAX_DEPTH, MAX_NODES, MAX_MEMBERS = 131_072, 48, 10_000, 500

# Keywords whose value is a schema, a list of schemas, or schemas by name; everything else is data.
_ONE = frozenset(
    "additionalItems additionalProperties contains else if items not propertyNames then unevaluatedItems"
    " unevaluatedProperties".split()
)
_MANY = frozenset("allOf anyOf oneOf prefixItems items".split())
_NAMED = frozenset("$defs definitions dependentSchemas dependencies patternProperties properties".split())
_COUNTS = ("maxItems", "minItems", "maxLength", "minLength", "maxProperties", "minProperties", "maxContains", "minContains")  # fmt: skip
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_LARGEST = 1e300
# Formats that `jsonschema` can check without further packages.
CHECKED_FORMATS = frozenset("date email idn-email ipv4 ipv6 regex uuid".split())


class SchemaError(UsageError):
    """A schema that is refused; `keyword` names what in it."""

    def __init__(self, keyword: str, reason: str) -> None:
        super().__init__(f"the schema is refused for {keyword!r}: {reason}")
        self.keyword, self.reason = keyword, reason


def read(schema: Any, dialect: str = DRAFT_2020) -> dict[str, Any]:  # noqa: ANN401 - a pydantic model or any schema
    """The schema of a pydantic model, or a JSON schema within the limits on bytes, depth and nodes, as plain values.

    Raises SchemaError for what is no schema of its `$schema` (else of `dialect`), for a reference that leaves the
    document, and for assertions of draft 7 that nothing checks.
    """
    made = schema.model_json_schema() if hasattr(schema, "model_json_schema") else schema
    made = {} if made is True else made
    if not isinstance(made, Mapping):
        raise SchemaError("schema", f"expected a JSON object or a pydantic model, found {type(made).__name__}")
    _within_limits(made)
    try:
        plain: dict[str, Any] = json.loads(json.dumps(made))
    except (TypeError, ValueError) as error:
        raise SchemaError("schema", f"not JSON: {error}") from None
    draft = str(plain.get("$schema", dialect)).rstrip("#")
    if draft not in (DRAFT_7.rstrip("#"), DRAFT_2020):
        raise SchemaError("$schema", f"expected draft 7 or 2020-12, found {draft}")
    _check(plain, draft)
    plain = _map(plain, _draft_7 if draft == DRAFT_7.rstrip("#") else _draft_2020)
    _no_remote(plain)
    return {**plain, "$schema": DRAFT_7 if draft == DRAFT_7.rstrip("#") else DRAFT_2020}


def asserts_format(schema: Any, dialect: str = DRAFT_2020) -> bool:  # noqa: ANN401 - as for `read`
    """Whether `format` must hold: not under a declared `$schema` of 2020-12, by which it is a mere annotation."""
    return not (isinstance(schema, Mapping) and str(schema.get("$schema", "")).rstrip("#") == DRAFT_2020)


def without(schema: dict[str, Any], keywords: Iterable[str]) -> dict[str, Any]:
    """The schema less some of its assertions, wherever they stand: it allows all that it allowed, and more."""
    dropped = set(keywords)
    if "patternProperties" in dropped:
        # What those patterns allowed must not become forbidden.
        dropped |= {"additionalProperties", "unevaluatedProperties"}
    weaker: dict[str, Any] = _map(schema, lambda node: {k: v for k, v in node.items() if k not in dropped})
    return weaker


def subschemas(schema: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401 - a schema may be a boolean
    """Every schema object within, the whole first."""
    if not isinstance(schema, dict):
        return
    yield schema
    for key, value in schema.items():
        for child in _children(key, value):
            yield from subschemas(child)


def formats(schema: dict[str, Any]) -> set[str]:
    """Every `format` within."""
    return {str(node["format"]) for node in subschemas(schema) if "format" in node}


def _children(key: str, value: Any) -> Iterator[Any]:  # noqa: ANN401 - any JSON value
    if key in _NAMED and isinstance(value, dict):
        yield from value.values()
    elif key in _MANY and isinstance(value, list):
        yield from value
    elif key in _ONE:
        yield value


def _map(schema: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:  # noqa: ANN401 - as above
    """`change` applied to every schema object, the innermost first."""
    if not isinstance(schema, dict):
        return schema
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _NAMED and isinstance(value, dict):
            out[key] = {name: _map(child, change) for name, child in value.items()}
        elif key in _MANY and isinstance(value, list):
            out[key] = [_map(child, change) for child in value]
        elif key in _ONE:
            out[key] = _map(value, change)
        else:
            out[key] = value
    return change(out)


def _draft_2020(node: dict[str, Any]) -> dict[str, Any]:
    # Options for the compiler that a schema may not set itself.
    node = {k: v for k, v in node.items() if not k.startswith(("x-guidance", "%"))}
    for name in _BOUNDS:
        if isinstance(node.get(name), (int, float)) and abs(node[name]) > _LARGEST:
            raise SchemaError(name, f"a number beyond {_LARGEST:g}")
    for name in _COUNTS:
        if isinstance(node.get(name), float) and node[name].is_integer():
            node[name] = int(node[name])
    if isinstance(node.get("pattern"), str):
        node["pattern"] = _ecma(node["pattern"])
    needs = node.pop("dependencies", None)
    if isinstance(needs, dict):
        for name, need in needs.items():
            key = "dependentRequired" if isinstance(need, list) else "dependentSchemas"
            node.setdefault(key, {}).setdefault(name, need)
    return node


def _draft_7(node: dict[str, Any]) -> dict[str, Any]:
    """Beside `$ref`, draft 7 ignores every other keyword."""
    if isinstance(node.get("$ref"), str):
        return {k: node[k] for k in ("$ref", "definitions", "$defs") if k in node}
    for name in ("contentEncoding", "contentMediaType"):
        if name in node:
            raise SchemaError(name, "nothing here checks the content of strings")
    needs = node.get("dependencies")
    return {**_draft_2020(node), **({"dependencies": needs} if needs else {})}


_SPACE = "\\t\\n\\v\\f\\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_CLASSES = {"d": "0-9", "w": "A-Za-z0-9_", "s": _SPACE}
_ANYTHING = re.compile(r"\[(?:\\s\\S|\\S\\s|\\d\\D|\\D\\d|\\w\\W|\\W\\w)\]")


def _ecma(pattern: str) -> str:
    r"""The classes `\d`, `\w`, `\s` and their opposites written out as ECMA 262 has them, for engines that think otherwise.

    Raises SchemaError for an opposite inside a class of more.
    """
    pattern = _ANYTHING.sub(r"(?:.|\\n|\\r)", pattern)
    out, inside, at = "", False, 0
    while at < len(pattern):
        two = pattern[at : at + 2]
        if two[:1] == "\\":
            out += _class(two, inside)
            at += 2
            continue
        inside = two[:1] == "[" or (inside and two[:1] != "]")
        out, at = out + two[:1], at + 1
    return out


def _class(escape: str, inside: bool) -> str:
    name = escape[1:]
    if name in _CLASSES:
        return _CLASSES[name] if inside else f"[{_CLASSES[name]}]"
    if name.lower() not in _CLASSES or name == "":
        return escape
    if inside:
        raise SchemaError("pattern", f"{escape} inside a class")
    return f"[^{_CLASSES[name.lower()]}]"


def _within_limits(schema: Any) -> None:  # noqa: ANN401 - any JSON value
    level, nodes, size = [schema], 0, 0
    for _ in range(MAX_DEPTH * 2):
        deeper: list[Any] = []
        for value in level:
            if isinstance(value, Mapping):
                deeper += value.values()
                size += sum(len(str(k)) for k in value)
            elif isinstance(value, (list, tuple)):
                deeper += value
            else:
                size += len(str(value))
        nodes += len(deeper)
        if any(len(value) > MAX_MEMBERS for value in level if isinstance(value, Mapping)):
            raise SchemaError("properties", f"more than {MAX_MEMBERS} members in one object")
        if nodes > MAX_NODES or size > MAX_BYTES:
            raise SchemaError("schema", f"more than {MAX_NODES} values or {MAX_BYTES} characters")
        if not deeper:
            return
        level = deeper
    raise SchemaError("schema", f"nested deeper than {MAX_DEPTH} levels")


def _check(schema: dict[str, Any], draft: str) -> None:
    import jsonschema

    known = jsonschema.Draft202012Validator if draft == DRAFT_2020 else jsonschema.Draft7Validator
    try:
        known.check_schema({**schema, "$schema": known.META_SCHEMA["$schema"]})
    except jsonschema.SchemaError as error:
        where = next((str(p) for p in reversed(error.absolute_path) if isinstance(p, str)), "schema")
        raise SchemaError(where, error.message[:200]) from None
    except RecursionError:
        raise SchemaError("schema", "nested too deep") from None


def _no_remote(schema: dict[str, Any]) -> None:
    """Only references into the document itself, or to an `$id` or anchor in it, can be followed."""
    ids = {str(n["$id"]).split("#")[0] for n in subschemas(schema) if "$id" in n}
    for node in subschemas(schema):
        for name in ("$ref", "$dynamicRef"):
            target = str(node.get(name, "")).split("#")[0]
            if target and "://" in target and target not in ids and target not in (DRAFT_2020, DRAFT_7.rstrip("#")):
                raise SchemaError(name, f"{target} is not in the document, and nothing is fetched")
        if str(node.get("$ref", "")).startswith((DRAFT_2020, DRAFT_7.rstrip("#"))):
            raise SchemaError("$ref", "a schema of schemas is not enforced")
