"""Pydantic cases: models as function calling uses them, with values that they allow and forbid."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter


class Route(Enum):
    """An enum of strings."""

    ORAL = "oral"
    IV = "iv"


class Dose(BaseModel):
    """Bounds, a literal and a default."""

    mg: float = Field(gt=0, le=1000)
    often: Literal["daily", "weekly"] = "daily"


class Order(BaseModel):
    """Nested, closed, with an enum, a pattern, an optional and a list of bounded length."""

    model_config = ConfigDict(extra="forbid")
    drug: str = Field(min_length=2, max_length=30)
    code: str = Field(pattern=r"^[A-Z]\d{2}$")
    route: Route
    dose: Dose
    note: str | None = None
    days: list[Annotated[int, Field(ge=1, le=7)]] = Field(min_length=1, max_length=7)


class Tree(BaseModel):
    """Recursive."""

    name: str
    children: list[Tree] = []


class Cat(BaseModel):
    """One side of a union told apart by `kind`."""

    kind: Literal["cat"]
    lives: int = Field(ge=0, le=9)


class Dog(BaseModel):
    """The other."""

    kind: Literal["dog"]
    tricks: list[str]


_ORDER: dict[str, Any] = {"drug": "apixaban", "code": "B01", "route": "oral", "dose": {"mg": 5}, "days": [1, 7]}
_KINDS: list[tuple[Any, list[Any], list[Any]]] = [
    (Dose, [{"mg": 0.5}, {"mg": 1000, "often": "weekly"}], [{"mg": 0}, {"mg": 1000.5}, {"often": "daily"}, {"mg": 1, "often": "x"}]),
    (Order, [_ORDER, {**_ORDER, "note": None}, {**_ORDER, "note": "é\n"}],
     [{**_ORDER, "code": "b01"}, {**_ORDER, "days": []}, {**_ORDER, "days": [8]}, {**_ORDER, "more": 1}, {**_ORDER, "route": "nasal"},
      {k: v for k, v in _ORDER.items() if k != "dose"}]),
    (Tree, [{"name": "a"}, {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]}],
     [{"name": 1}, {"name": "a", "children": [{"children": []}]}]),
    (Annotated[Cat | Dog, Field(discriminator="kind")], [{"kind": "cat", "lives": 9}, {"kind": "dog", "tricks": ["sit"]}],
     [{"kind": "cat", "tricks": []}, {"kind": "cow"}, {"kind": "cat", "lives": 10}]),
    (dict[str, int], [{}, {"a": 1}], [{"a": "b"}, []]),
    (tuple[int, str], [[1, "a"]], [[1], ["a", 1], [1, "a", 2]]),
    (set[int], [[1, 2]], [[1, 1], ["a"]]),
    (date, ["2026-11-30"], ["2026-13-01", "30.11.2026"]),
    (datetime, ["2026-11-30T01:02:03Z"], ["2026-11-30", "now"]),
    (UUID, ["12345678-1234-5678-1234-567812345678"], ["1234"]),
    (Decimal, [1.5, "2.5"], [None, []]),
    (int | None, [3, None], ["3", 2.5]),
    (list[Literal[1, "a", True]], [[1, "a", True], []], [[2], [False], ["b"]]),
    (Annotated[int, Field(multiple_of=5, ge=0, le=100)], [0, 55, 100], [3, 105, -5]),
]  # fmt: skip


def cases() -> list[dict[str, Any]]:
    """The schemas with their instances, in the form of the suite."""
    return [
        {
            "schema": TypeAdapter(kind).json_schema(),
            "tests": [{"data": v, "valid": True} for v in valid] + [{"data": v, "valid": False} for v in invalid],
        }
        for kind, valid, invalid in _KINDS
    ]
