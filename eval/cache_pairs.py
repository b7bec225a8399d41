"""Cache pairs: labelled question pairs for the answer cache, made from families of questions or read from data sets.

A pair is {"q1", "q2", "same", "lang", "kind", "group"}; pairs of one group never stand on two sides of a split.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Part = Literal["train", "calibrate", "test"]

_TABLE = Path(__file__).with_name("cache_pairs.toml")
_SPANISH_SIDE = {"left": "izquierdo", "right": "derecho"}
_SPANISH_RELATIVE = {"mother": "madre", "father": "padre", "brother": "hermano", "sister": "hermana"}
# What a slot changes, as the report names it.
_KINDS = {"drug2": "drug", "year": "date", "side": "laterality", "joint": "subject", "relative": "subject", "person": "patient",
          "number": "number", "vaccine": "subject", "scan": "subject", "food": "subject", "symptom": "subject"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pair:
    """Two questions and whether one answer serves both."""

    q1: str
    q2: str
    same: bool
    lang: str
    kind: str
    group: str


def clinical_pairs(seed: int = 0, per_family: int = 44) -> list[Pair]:
    """Paraphrases and near-duplicates of every family: `per_family` near-duplicates (half as
    many again where they are for the test) and half as many paraphrases.
    """
    table = tomllib.loads(_TABLE.read_text(encoding="utf-8"))
    found: dict[tuple[str, str], Pair] = {}
    for family in table["family"]:
        draw = random.Random(f"{seed}:{family['name']}")
        n = per_family * 3 // 2 if family.get("held_out") else per_family
        made = [*_paraphrases(family, table["slots"], draw, n // 2), *_changed(family, table["slots"], draw, n)]
        for pair in made:
            found.setdefault((pair.q1, pair.q2), pair)
    return list(found.values())


def _group(family: Mapping[str, Any]) -> str:
    """The families written last, after the rules of `wording.py` were fixed, are for the test alone."""
    return f"clinic:{'held out:' if family.get('held_out') else ''}{family['name']}"


def _values(slots: Mapping[str, Sequence[str]], draw: random.Random) -> dict[str, str]:
    return {name: draw.choice(values) for name, values in slots.items()}


def _fill(template: str, values: Mapping[str, str], lang: str) -> str:
    if lang == "es":
        values = {**values, "side": _SPANISH_SIDE[values["side"]], "relative": _SPANISH_RELATIVE[values["relative"]]}
    text = template.format(**values)
    return text[:1].upper() + text[1:] if text[:1] != "¿" else text


def _languages(family: Mapping[str, Any], least: int) -> list[str]:
    return [lang for lang in ("en", "es") if len(family[lang]) >= least]


def _paraphrases(
    family: Mapping[str, Any], slots: Mapping[str, Sequence[str]], draw: random.Random, n: int
) -> Iterator[Pair]:
    for _ in range(n):
        lang = draw.choice(_languages(family, 2))
        one, other = draw.choice(list(permutations(family[lang], 2)))
        values = _values(slots, draw)
        yield Pair(_fill(one, values, lang), _fill(other, values, lang), True, lang, "paraphrase", _group(family))


def _changed(
    family: Mapping[str, Any], slots: Mapping[str, Sequence[str]], draw: random.Random, n: int
) -> Iterator[Pair]:
    """One slot or one twist changed, in the same words or in other ones by turns."""
    for turn in range(n):
        lang = draw.choice(_languages(family, 1))
        one = draw.choice(family[lang])
        other = one if turn % 2 else draw.choice(family[lang])
        values = _values(slots, draw)
        used = re.findall(r"{(\w+)}", one)
        filled = _fill(other, values, lang)
        twists = [(a, b) for a, b in family["twists"] if a in filled]
        group = _group(family)
        if twists and turn % 3 != 2:
            a, b = draw.choice(twists)
            yield Pair(_fill(one, values, lang), filled.replace(a, b, 1), False, lang, "wording", group)
        else:
            rare = [name for name in used if name != "drug"] or used
            slot = draw.choice(used if turn % 4 == 0 else rare)
            changed = {**values, slot: draw.choice([v for v in slots[slot] if v != values[slot]])}
            kind = _KINDS.get(slot, slot)
            yield Pair(_fill(one, values, lang), _fill(other, changed, lang), False, lang, kind, group)


def rqe_pairs(data: Path) -> list[Pair]:
    """The RQE test pairs; pairs that share a question stand in one group. Empty when the folder is not there."""
    rows = _rows(data / "rqe" / "rqe_302.jsonl")
    return _grouped("rqe", [(r["q1"], r["q2"], bool(r["label"])) for r in rows])


def faq_pairs(data: Path) -> list[Pair]:
    """COVID FAQ pairs, grouped by the FAQ entry. Empty when the folder is not there."""
    rows = _rows(data / "covidqa" / "faq_similarity_en.jsonl")
    return [Pair(r["q1"], r["q2"], bool(r["similar"]), "en", "faq", f"faq:{r['q1']}") for r in rows]


def nearest_pairs(
    pairs: Sequence[Pair], cosine: Callable[[Sequence[str]], NDArray[np.float32]], n: int = 4
) -> list[Pair]:
    """For every FAQ question the `n` most alike of other entries, as pairs that differ: what a cache really meets.

    `cosine` gives the cosines of texts with one another, shape (len(texts), len(texts)).
    """
    entries: dict[str, set[str]] = {}
    for p in (p for p in pairs if p.kind == "faq" and p.same):
        entries.setdefault(p.q1, set()).add(p.q1)
        entries.setdefault(p.q2, set()).add(p.q1)
    for one, other in tomllib.loads(_TABLE.read_text(encoding="utf-8"))["one_answer"]["faq"]:
        for known in entries.values():
            if known & {one, other}:
                known |= {one, other}
    texts = sorted(entries)
    found: dict[frozenset[str], Pair] = {}
    for at, row in enumerate(cosine(texts) if texts else ()):
        others = (texts[i] for i in (-row).argsort() if not entries[texts[i]] & entries[texts[at]])
        for other in islice(others, n):
            group = f"faq:{min(entries[texts[at]])}"
            found.setdefault(frozenset((texts[at], other)), Pair(texts[at], other, False, "en", "nearest", group))
    return list(found.values())


def read_pairs(path: Path) -> list[Pair]:
    """A user's labelled pairs: one JSON object a line with q1, q2 and same (true or false).

    Raises ValueError naming the line that is none.
    """
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            found.append(
                Pair(
                    str(row["q1"]),
                    str(row["q2"]),
                    bool(row["same"]),
                    row.get("lang", "en"),
                    "user",
                    f"user:{row['q1']}",
                )
            )
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{path}, line {number}: expected an object with q1, q2 and same") from None
    return found


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []


def _grouped(source: str, rows: Iterable[tuple[str, str, bool]]) -> list[Pair]:
    """Pairs with the smallest question linked to theirs, through any number of pairs, as their group."""
    rows = list(rows)
    root: dict[str, str] = {}

    def find(text: str) -> str:
        while root.setdefault(text, text) != text:
            text = root[text]
        return text

    for q1, q2, _ in rows:
        a, b = sorted((find(q1), find(q2)))
        root[b] = a
    return [Pair(q1, q2, same, "en", source, f"{source}:{find(q1)}") for q1, q2, same in rows]


def part_of(group: str) -> Part:
    """The side of the split on which a group stands, by its hash: 30 % train, 30 % calibrate, 40 % test.

    Clinical families are for the test where they say so, and for training or calibration otherwise.
    """
    at = int.from_bytes(hashlib.blake2b(group.encode(), digest_size=4).digest(), "big") % 10
    if group.startswith("clinic:"):
        return "test" if group.startswith("clinic:held out:") else "train" if at < 5 else "calibrate"
    return "train" if at < 3 else "calibrate" if at < 6 else "test"


def part(pairs: Iterable[Pair], *parts: Part) -> list[Pair]:
    """The pairs of these parts."""
    return [p for p in pairs if part_of(p.group) in parts]
