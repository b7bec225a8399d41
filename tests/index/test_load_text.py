"""Plain text and Markdown, with the encodings and the hostile files that come with them."""

import codecs
import os

import pytest
from ragq.errors import LoadError
from ragq.index.load import MAX_FILE_BYTES, digest, load, supported


def put(path, data):
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return load(path, path.name)[0]


def spans_cover(document):
    """Every character that is no space stands in one section or in a heading line."""
    covered = [False] * len(document.text)
    for section in document.sections:
        assert 0 <= section.start < section.end <= len(document.text)
        for at in range(section.start, section.end):
            assert not covered[at]
            covered[at] = True
    outside = "".join(c for c, seen in zip(document.text, covered, strict=True) if not seen)
    headings = {h for section in document.sections for h in section.heading}
    return {line.strip().strip("#").strip() for line in outside.splitlines() if line.strip()} - headings


def test_plain_text_is_one_section_with_the_day_of_its_name(tmp_path):
    document = put(tmp_path / "2024-03-11-visit.txt", "INR 2.4.\r\nWarfarin 3 mg.\r\n")
    assert document.text == "INR 2.4.\nWarfarin 3 mg.\n"
    assert [(s.heading, s.start, s.end, s.page) for s in document.sections] == [((), 0, len(document.text), None)]
    assert (document.date, document.title, document.media) == ("2024-03-11", "2024-03-11-visit", "text/plain")
    assert document.digest == digest(b"INR 2.4.\r\nWarfarin 3 mg.\r\n")


@pytest.mark.parametrize(
    "data",
    [
        "5 µg de levotiroxina".encode(),
        codecs.BOM_UTF8 + "5 µg de levotiroxina".encode(),
        "5 µg de levotiroxina".encode("utf-16"),
        codecs.BOM_UTF16_BE + "5 µg de levotiroxina".encode("utf-16-be"),
        "5 µg de levotiroxina".encode("utf-32"),
        "5 µg de levotiroxina".encode("cp1252"),
    ],
)
def test_every_encoding_gives_the_same_text(tmp_path, data):
    assert put(tmp_path / "note.txt", data).text == "5 µg de levotiroxina"


@pytest.mark.parametrize(
    ("name", "data", "line"),
    [
        ("note.txt", "INR 2.4.\n5 µg of levothyroxine", "2: 'µ'"),
        ("note.md", "# Visit\n\nDra. Nuñez\n", "3: 'ñ'"),
        ("labs.csv", "Prueba,Resultado,Unidad,Fecha\nFósforo,1.1,mmol/L,2026-03-01\n", "2: 'ó'"),
        ("page.html", "<p>5 µg</p>", "1: 'µ'"),
    ],
)
def test_an_encoding_that_was_guessed_is_told(tmp_path, name, data, line):
    (warning,) = put(tmp_path / name, data.encode("cp1252")).warnings
    assert warning.startswith(f"expected UTF-8, found another encoding and read it as Windows-1252 (line {line})")
    for told in (data.encode(), codecs.BOM_UTF8 + data.encode(), data.encode("utf-16")):
        assert put(tmp_path / name, told).warnings == ()


def test_a_page_that_tells_its_encoding_is_not_guessed(tmp_path):
    page = '<meta charset="iso-8859-1"><p>5 µg</p>'.encode("latin-1")
    assert put(tmp_path / "page.html", page).warnings == ()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b" \n\t", "empty"),
        (codecs.BOM_UTF8 + b"\n", "empty"),
        (b"Warfarin\0 3 mg", "NUL"),
        (bytes(range(1, 256)) * 4, "not|neither"),
        (("Warfarin " * 9).encode("utf-16-le"), "NUL"),
        (codecs.BOM_UTF16_LE + b"\x00\xd8\x00", "utf-16"),
        (b"\x01\x02\x03\x04 junk", "control"),
    ],
)
def test_what_is_not_text_is_refused(tmp_path, data, reason):
    with pytest.raises(LoadError, match=reason):
        put(tmp_path / "note.txt", data)


def test_a_file_over_the_limit_is_refused_unread(tmp_path):
    path = tmp_path / "huge.txt"
    with path.open("wb") as file:
        file.write(b"x")
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(LoadError, match="64 MB"):
        load(path, "huge.txt")


def test_what_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    for name in ("missing.txt", "pipe.txt", "."):
        with pytest.raises(LoadError, match="not a regular file"):
            load(tmp_path / name, name)


def test_unknown_formats_are_named(tmp_path):
    (tmp_path / "scan.rtf").write_bytes(b"PK\x03\x04")
    assert not supported(tmp_path / "scan.rtf")
    assert supported(tmp_path / "NOTE.MD")
    with pytest.raises(LoadError, match=r"\.rtf is not read.*\.pdf") as caught:
        load(tmp_path / "scan.rtf", "scan.rtf")
    assert caught.value.path.endswith("scan.rtf")


NOTE = """---
title: ignored, a heading exists
date: 2023-05-02
author: NO
---
Seen today.

# Visit

## Plan
Start apixaban.

```
# not a heading
Not one either
---
```

### Follow-up ###

Assessment
----------
Stable.

## Allergies: none known
"""


def test_markdown_headings_make_the_path_of_sections(tmp_path):
    document = put(tmp_path / "2020-01-01.md", NOTE)
    found = [(s.heading, document.text[s.start : s.end].strip()) for s in document.sections]
    code = "```\n# not a heading\nNot one either\n---\n```"
    assert found == [
        ((), "Seen today."),
        (("Visit", "Plan"), f"Start apixaban.\n\n{code}"),
        (("Visit", "Plan", "Follow-up"), "### Follow-up ###"),
        (("Visit", "Assessment"), "Stable."),
        (("Visit", "Allergies: none known"), "## Allergies: none known"),
    ]
    assert (document.title, document.date, document.media) == ("Visit", "2023-05-02", "text/markdown")
    assert "author" not in document.text
    assert spans_cover(document) == {"----------"}


@pytest.mark.parametrize(
    ("name", "text", "day"),
    [
        ("a.md", "# Visit\n\n**Date:** 2024-03-11\n", "2024-03-11"),
        ("a.md", "- Fecha: 2024-03-11\n", "2024-03-11"),
        ("a.md", "Date of visit: 2024-03-11\n", "2024-03-11"),
        ("2021-02-03-x.md", "Date: 2024-99-11\n", "2021-02-03"),
        ("2021-13-03-x.md", "no date\n", None),
        ("a.md", "---\ndate: nonsense\n---\nno date\n", None),
    ],
)
def test_the_day_of_a_note(tmp_path, name, text, day):
    assert put(tmp_path / name, text).date == day


def test_a_rule_under_a_paragraph_is_no_heading(tmp_path):
    document = put(tmp_path / "a.md", "Line one\nline two\n---\nAfter.\n\n- item\n---\n")
    assert [s.heading for s in document.sections] == [()]


def test_a_paragraph_that_opens_with_a_hash_stays_text(tmp_path):
    document = put(tmp_path / "a.md", "# " + "word " * 100)
    assert [s.heading for s in document.sections] == [()]


def test_text_between_rules_is_not_taken_for_front_matter(tmp_path):
    assert "Seen today" in put(tmp_path / "a.md", "---\nSeen today\n---\nPlan.\n").text


@pytest.mark.parametrize(
    ("front", "reason"),
    [
        ("title: [unclosed\ndate: 2024", r"not valid YAML: .*\(line 3\)"),
        ("a: &a [x, x]\nb: *a", "aliases"),
        ("a: " + "[" * 400 + "]" * 400, "nested deeper"),
        ("a: " + "[" * 50_000, "nested deeper"),
        ("a: " + "x" * 70_000, "longer than"),
        ("? [complex, key]\n: 1", "not valid YAML"),
    ],
)
def test_broken_or_hostile_front_matter_is_refused(tmp_path, front, reason):
    with pytest.raises(LoadError, match=reason):
        put(tmp_path / "a.md", f"---\n{front}\n---\nText.\n")


def test_yaml_tags_build_nothing(tmp_path):
    document = put(tmp_path / "a.md", '---\ntitle: !!python/object/apply:os.system ["touch x"]\n---\nText.\n')
    assert document.text == "Text.\n"
    assert not (tmp_path / "x").exists()


def test_front_matter_without_text_is_refused(tmp_path):
    with pytest.raises(LoadError, match="nothing but front matter"):
        put(tmp_path / "a.md", "---\ntitle: x\n---\n\n")


def test_what_steers_a_terminal_or_turns_characters_round_is_no_text(tmp_path):
    text = "K \x1b[2Jsodium 140 \x1b]0;title\x07mmol \x1b[1;31mlow\x1b[0m \u202edesrever\u202c.\n" + "Stable. " * 99
    document = put(tmp_path / "a.txt", text)
    assert document.text.split()[:6] == ["K", "sodium", "140", "mmol", "low", "desrever"]
    assert document.text.split()[6] == "."
