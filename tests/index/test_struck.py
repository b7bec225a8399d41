"""Struck words: every loader that can tell them marks them alike, and no cut parts a mark."""

import pytest
from ragq.compress.extractive import sentences
from ragq.index.chunker import chunk
from ragq.index.document import Document
from ragq.index.load import load
from ragq.index.struck import is_struck, mark_struck, unstruck


def put(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    return load(tmp_path / name, name)[0].text


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<p><del>Warfarin 5 mg once daily</del></p>", "[struck out: Warfarin 5 mg once daily]"),
        ("<p>Allergies: <s>penicillin</s> none known</p>", "Allergies: [struck out: penicillin] none known"),
        ("<table><tr><td>INR</td><td><strike>7.9</strike> 2.4</td></tr></table>", "INR | [struck out: 7.9] 2.4"),
        ("<p>a <span style='text-decoration: line-through red'>b <b>c</b></span></p>", "a [struck out: b] [struck out: c]"),
        ("<style>em.old, .x {color: red; text-decoration-line: line-through}</style><p class='y x'>a</p><em>b</em>",
         "[struck out: a]\n\nb"),
        ("<del><ul><li>a [b]</li></ul><pre>c\nd</pre></del>", "- [struck out: a (b)]\n\n[struck out: c]\n[struck out: d]"),
        ("<p><span style='text-decoration: underline'>a</span></p>", "a"),
    ],
)  # fmt: skip
def test_html(tmp_path, page, text):
    assert put(tmp_path, "a.html", page) == text


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("- ~~Digoxin 125 micrograms~~\n- Apixaban", "- [struck out: Digoxin 125 micrograms]\n- Apixaban"),
        (
            "INR <s>7.9</s> 2.4, <del class='x'>a\nb</del>",
            "INR [struck out: 7.9] 2.4, [struck out: a]\n[struck out: b]",
        ),
        ("~~a\n- b~~, about ~5 mg or ~10 mg, ~~ c ~~\n", "~~a\n- b~~, about ~5 mg or ~10 mg, ~~ c ~~\n"),
        ("~~~\nfenced\n~~~\n", "~~~\nfenced\n~~~\n"),
    ],
)
def test_markdown(tmp_path, raw, text):
    assert put(tmp_path, "a.md", raw) == text


def test_what_is_said_keeps_its_offsets():
    text = "INR [struck out: 7.9] 2.4"
    assert unstruck(text) == "INR" + " " * 19 + "2.4"
    assert unstruck("[see plan] 2.4") == "[see plan] 2.4"
    assert [is_struck(t) for t in ("- [struck out: a].", "Allergies: [struck out: a]", text, "- ", "Plan:")] == [
        True, True, False, False, False,
    ]  # fmt: skip


def test_a_sentence_that_is_struck_out_is_none_and_one_with_struck_words_is_whole():
    text = "Seen today. [struck out: Warfarin stopped. Digoxin started.] INR [struck out: Is 7.9. No.] 2.4 today."
    assert [text[a:b] for a, b in sentences(text)] == ["Seen today. ", text[text.index("[struck out: W") :]]
    # What stands between two sentences goes with the second.
    assert sentences("- [struck out: Digoxin]\n- Apixaban")[0] == (24, 34)


def test_no_chunk_parts_a_mark():
    text = mark_struck("Stop it now, then. " * 200)
    made = chunk(Document(name="a", source="a", media="a", title="a", text=text, sections=(), digest="", date=None),
                 lambda t: [(i, i + 1) for i, c in enumerate(t) if not c.isspace()], 200, 160)  # fmt: skip
    assert len(made) > 20
    assert "".join(unstruck(c.text) for c in made).strip() == ""
