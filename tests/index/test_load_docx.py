"""DOCX: headings, lists, tables, tracked changes; hostile archives are refused."""

import io
import struct
import zipfile

import pytest
from ragq.errors import LoadError
from ragq.index.load import load

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
STYLES = (
    f"<w:styles {W}>"
    '<w:style w:styleId="H1"><w:name w:val="heading 1"/></w:style>'
    '<w:style w:styleId="H2"><w:name w:val="heading 2"/></w:style>'
    '<w:style w:styleId="Own"><w:name w:val="Ward"/><w:basedOn w:val="H2"/></w:style>'
    '<w:style w:styleId="L1"><w:name w:val="Loop"/><w:basedOn w:val="L2"/></w:style>'
    '<w:style w:styleId="L2"><w:name w:val="Loop 2"/><w:basedOn w:val="L1"/></w:style>'
    '<w:style w:styleId="Bullet"><w:name w:val="List Bullet"/></w:style></w:styles>'
)


def archive(body, **parts):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("word/document.xml", f"<w:document {W}><w:body>{body}</w:body></w:document>")
        made.writestr("word/styles.xml", STYLES)
        for name, text in parts.items():
            made.writestr(f"word/{name}.xml", text)
    return data.getvalue()


def put(tmp_path, data, name="letter.docx"):
    (tmp_path / name).write_bytes(data)
    return load(tmp_path / name, f"42/{name}")[0]


def p(text, style="", look=""):
    chosen = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{chosen}{r(text, look)}</w:p>"


def r(text, look=""):
    return f'<w:r><w:rPr>{look}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def table(*rows):
    cells = ["".join(f"<w:tc>{p(cell)}</w:tc>" for cell in row) for row in rows]
    return f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in cells)}</w:tbl>"


def test_headings_lists_and_tables(tmp_path):
    body = (
        p("Letter", "H1") + p("Seen today.") + p("Drugs", "Own") + p("Apixaban 5 mg", "Bullet") + p("rest", "Bullet")
        + table(("Test", "Value"), ("INR", "2.4")) + p("Plan", "H1") + p("Review.", "L1")
    )  # fmt: skip
    made = put(tmp_path, archive(body))
    assert made.text == (
        "Letter\n\nSeen today.\n\nDrugs\n- Apixaban 5 mg\n- rest\n\nTest | Value\nINR | 2.4\n\nPlan\n\nReview."
    )
    assert [section.heading for section in made.sections] == [("Letter",), ("Letter", "Drugs"), ("Plan",)]
    assert (made.title, made.warnings) == ("Letter", ())


def test_tracked_changes_are_accepted_and_struck_or_hidden_text_is_not_stated(tmp_path):
    body = (
        f"<w:p>{r('Take ')}<w:del><w:r><w:delText>warfarin</w:delText></w:r></w:del><w:ins>{r('apixaban')}</w:ins>"
        f"{r(' not ')}{r('digoxin', '<w:strike/>')}{r('secret', '<w:vanish/>')}</w:p>"
    )
    assert put(tmp_path, archive(body)).text == "Take apixaban not [struck out: digoxin]"


def test_signs_and_powers_keep_their_meaning(tmp_path):
    body = (
        f"<w:p>{r('INR ')}<w:r><w:sym w:font='Symbol' w:char='F0B3'/></w:r>{r('2.5, platelets 10')}"
        + r("9", '<w:vertAlign w:val="superscript"/>') + r("/L") + "</w:p>"
    )  # fmt: skip
    assert put(tmp_path, archive(body)).text == "INR ≥2.5, platelets 10^9/L"


def test_links_boxes_and_content_controls_are_read(tmp_path):
    body = (
        f"<w:sdt><w:sdtContent>{p('Controlled')}</w:sdtContent></w:sdt><w:p><w:hyperlink>{r('linked')}</w:hyperlink></w:p>"
        f"<w:p><w:r><w:pict><w:txbxContent>{p('boxed')}</w:txbxContent></w:pict></w:r></w:p>"
    )
    assert put(tmp_path, archive(body, footnotes="<x/>")).text == "Controlled\n\nlinked\n\nboxed"
    assert put(tmp_path, archive(body, footnotes="<x/>")).warnings == ("not read: footnotes",)


def test_a_nested_table_stands_in_its_cell(tmp_path):
    inner = table(("a", "b"))
    body = f"<w:tbl><w:tr><w:tc>{inner}</w:tc><w:tc>{p('c')}</w:tc></w:tr></w:tbl>"
    assert put(tmp_path, archive(body)).text == "a b | c"


def lying(data):
    """Say that a part unpacks to 10 bytes."""
    at = data.index(b"PK\x01\x02")
    return data[: at + 24] + struct.pack("<I", 10) + data[at + 28 :]


BOMB = archive(p("x" * 60_000_000))
ENTITIES = (
    f'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><w:document {W}><w:body>{p("&b;")}</w:body></w:document>'
)


def without(name):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as made:
        made.writestr("word/other.xml", "<x/>")
        if name:
            made.writestr("word/document.xml", name)
    return data.getvalue()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"not a zip", "not a readable DOCX"),
        (archive(p("x"))[:-40], "not a readable DOCX"),
        (BOMB, "more than the limit of 48 MB"),
        (lying(archive(p("long enough a text"))), "not a readable DOCX"),
        (without(""), "no word/document.xml"),
        (without(ENTITIES), "DOCTYPE|entit"),
        (without("<w:document"), "not valid XML"),
        (archive("<w:p>" * 1000 + "</w:p>" * 1000), "not valid XML"),
        (archive(""), "no text in the document"),
    ],
)
def test_broken_or_hostile_archives_are_refused(tmp_path, data, reason):
    with pytest.raises(LoadError, match=reason):
        put(tmp_path, data)
