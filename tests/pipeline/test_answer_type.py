"""What an answer must hold stands in the question's first words, and so do the places at which it may begin."""

from __future__ import annotations

import pytest
from ragq.index.tokenizer import tokenize
from ragq.pipeline.answer_type import AnswerType, answer_type, beginnings, places
from ragq.pipeline.words import content


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("When was the act signed into law?", "time"),
        ("In what year did the outbreak begin?", "time"),
        ("¿En qué año empezó?", "time"),
        ("Who described the gene first?", "name"),
        ("By whom was it described?", "name"),
        ("Colby cheese is named after a town in what state", "name"),
        ("Who should be vaccinated?", None),
        ("WHO recommendations on testing?", None),
        ("What did the WHO say when asked?", None),
        ("How many episodes has season 7?", "amount"),
        ("In how many cases was it found?", "amount"),
        ("What was the case fatality rate?", "amount"),
        ("¿Cuántos casos hubo?", "amount"),
        ("What happens when it is stopped?", None),
        ("Why was it stopped?", None),
    ],
)
def test_types(question: str, kind: AnswerType | None) -> None:
    assert answer_type(question) == kind


@pytest.mark.parametrize(
    ("kind", "asked", "text", "begins"),
    [
        ("time", "When was the 1976 act signed?", "The act of 1976 was signed in May 1978.", ["in", "May", "1978"]),
        ("time", "When?", "Symptoms began 14 days later, on 3 June 2020.", ["14", "on", "3", "June", "2020"]),
        ("amount", "How many episodes has season 7?", "Season 7 has seven episodes and 3 specials.", ["seven", "3"]),
        ("amount", "How many cases?", "By 3 June 2020 there were 41 cases; 1999 saw none.", ["41"]),
        ("amount", "What percentage?", "It rose to 12.5 % from 3 %.", ["12.5", "3"]),
        ("name", "who wrote the song Help", 'If asked: "Help" by John Lennon, not "Let It Be".', ["John", "Lennon"]),
        ("name", "who sang you got a friend in me", "You’ve Got a Friend in Me, by Randy Newman", ["Randy", "Newman"]),
        ("name", "who has it?", "nobody has it", []),
    ],
)
def test_an_answer_may_begin_where_its_kind_stands_and_the_question_does_not_say_it(
    kind: AnswerType, asked: str, text: str, begins: list[str]
) -> None:
    known = content(asked) | set(tokenize(asked))
    found = beginnings(text, kind, known)
    assert [text[i:].split()[0].strip(",.") for i in found] == begins


def test_of_amounts_those_of_what_is_counted() -> None:
    lines = ["At most 8 tablets are taken in a day.", "The trial had 20 healthy people.", "300 doses were thrown away."]

    def found(question: str) -> list[list[str]] | None:
        at = places(lines, question, content(question))
        return at and [[line[i:].split()[0] for i in starts] for line, starts in zip(lines, at, strict=True)]

    assert found("How many people were in the trial?") == [[], ["20"], []]
    assert found("How many tablets may be taken in a day?") == [["8"], [], []]
    assert found("How many hens had she?") == [["8"], ["20"], ["300"]]
    assert found("Why were they thrown away?") is None
