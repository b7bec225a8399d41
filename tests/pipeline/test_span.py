"""A short answer is words of its line, never half a value, and never without the negation that stands by it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ragq.engine.llama import LlamaEngine
from ragq.engine.models import find, installed
from ragq.index.lexicon import Lexicon
from ragq.pipeline.span import copied, fresh_starts, whole, word_starts
from ragq.pipeline.words import content

LINES = (
    "EGR1 is upregulated in infected cells and localizes to the nucleus.",
    "It was first described in 1987.",
    "Dosis máxima: 4 g al día según la guía.",
)


@pytest.fixture(scope="module")
def engine(models_dir: Path) -> Iterator[LlamaEngine]:
    path = installed(find("smollm2-135m"), models_dir)
    assert path is not None
    with LlamaEngine(path, n_ctx=1024) as opened:
        yield opened


@pytest.mark.parametrize("asked", ["Where does EGR1 localize?", "When was it described?", "¿Dosis máxima?", "Banana"])
def test_span_stands_in_the_line_it_names_whatever_is_asked(engine: LlamaEngine, asked: str) -> None:
    tokens = engine.tokenize("\n".join(LINES) + f'\nQuestion: {asked}\nAnswer: "')
    found = copied(engine, tokens, [], LINES)
    assert found is not None
    assert found.text in LINES[found.line]
    before, _, after = LINES[found.line].partition(found.text)
    assert not (before[-1:].isalnum() and found.text[0].isalnum())
    assert not (found.text[-1].isalnum() and after[:1].isalnum())
    assert found.log_probability < 0
    assert copied(engine, tokens, [], LINES) == found


def test_span_is_what_the_model_was_writing_in_the_letters_of_the_line(engine: LlamaEngine) -> None:
    tokens = engine.tokenize('EGR1 was described in 1987. In one word, the gene was called "egr1". Again: "')
    found = copied(engine, tokens, [], ["The gene EGR1.", "The city."])
    assert found is not None
    assert (found.line, found.text) == (0, "EGR1")


def test_what_is_copied_begins_with_no_word_to_be_avoided(engine: LlamaEngine) -> None:
    tokens = engine.tokenize('EGR1 was described in 1987. In one word, the gene was called "egr1". Again: "')
    lines = ["The gene EGR1.", "of the EGR1 city"]
    found = copied(engine, tokens, [], lines, lambda line: fresh_starts(line, content("EGR1")))
    assert found is not None
    # An article before the word leads up to it.
    assert found.text.split()[0] in {"The", "gene", "city"}


def test_the_one_line_left_is_decoded_ahead_and_the_span_is_the_same(
    engine: LlamaEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[int] = []
    decode = engine.decode_rows
    monkeypatch.setattr(engine, "decode_rows", lambda tokens: steps.append(len(tokens)) or decode(tokens))
    line = "EGR1 was first described in 1987 by two groups, in cells of the rat, and named after what brings it about."
    tokens = engine.tokenize(f'"{line}"\n"{line}"\n"{line}"\n"')
    slow = copied(engine, tokens, [], [line], ahead=0)
    alone = len(steps)
    steps.clear()
    fast = copied(engine, tokens, [], [line])
    assert slow is not None
    assert fast is not None
    assert fast.text == slow.text
    assert len(fast.text.split()) > 10
    assert len(steps) < alone / 2
    # What was decoded and not taken is gone: the cache holds the prompt and the words taken.
    written = b"".join(map(engine.piece, engine._kv[len(tokens) :])).decode()
    assert fast.text.startswith(written)


def test_words_begin_where_no_word_is_cut() -> None:
    assert word_starts("≤14 años (EGR1)") == [0, 1, 4, 9, 10, 14]
    assert fresh_starts("in the EGR1 gene", content("EGR1")) == [12]


def test_nothing_is_copied_from_no_line(engine: LlamaEngine) -> None:
    assert copied(engine, engine.tokenize('Answer: "'), [], []) is None


@pytest.mark.parametrize(
    ("line", "text", "told"),
    [
        ("Give 5 mg twice daily. Then stop.", "5", "5 mg"),
        ("EGR1 localizes to the nucleus.", "the nucleus", "the nucleus"),
        ("Do not give warfarin with this drug. Apixaban may be given.", "warfarin", "Do not give warfarin with this drug."),
        ("Do not give warfarin with this drug. Apixaban may be given.", "Apixaban", "Apixaban"),
        ("Onset was in March 2024 in most.", "2024", "March 2024"),
        ("It wasn’t discovered by Alice Brennan.", "Alice Brennan", "It wasn’t discovered by Alice Brennan."),
        ("Nobody believes that Alice Brennan found it.", "Alice Brennan", "Nobody believes that Alice Brennan found it."),
        ("If found in 1987 it is old. Yes.", "1987", "If found in 1987 it is old."),
        ("It was wrongly attributed to Alice Brennan.", "Alice Brennan", "It was wrongly attributed to Alice Brennan."),
        ("It is said to have been Alice. That claim was refuted. So be it.", "Alice",
         "It is said to have been Alice. That claim was refuted."),
        ("Alice found it. However, she denied it.", "Alice", "Alice found it. However, she denied it."),
        ("Fewer than 20 people took part.", "20 people", "Fewer than 20 people took part."),
        ("Give between 10 and 20 mg.", "10", "Give between 10 and 20 mg."),
        ("Nadie cree que Alicia lo hiciera.", "Alicia", "Nadie cree que Alicia lo hiciera."),
    ],
)  # fmt: skip
def test_values_are_whole_and_negations_stay(line: str, text: str, told: str) -> None:
    assert whole(line, text, line.find(text), Lexicon()) == told


def test_the_sentence_is_that_of_the_place_that_was_copied() -> None:
    line = "Alice wrote the report. It was not found by Alice."
    assert whole(line, "Alice", line.rfind("Alice"), Lexicon()) == "It was not found by Alice."
    assert whole(line, "Alice", 0, Lexicon()) == "Alice"


def test_a_strict_answer_is_the_whole_sentence() -> None:
    line = "It was found early. EGR1 localizes to the nucleus. So they say."
    assert (
        whole(line, "the nucleus", line.find("the nucleus"), Lexicon(), short=False) == "EGR1 localizes to the nucleus."
    )
