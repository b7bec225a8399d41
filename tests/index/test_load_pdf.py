"""PDF files, written by pypdf and by hand."""

import io

import pytest
from pypdf import PdfReader, PdfWriter
from ragq.errors import LoadError
from ragq.index.load import load


def pdf(*pages):
    """Make the bytes of a PDF with one line of text a page; an empty page has none."""
    objects = ["<</Type/Catalog/Pages 2 0 R>>", "", "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"]
    kids = []
    for text in pages:
        content = f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET" if text else ""
        kids.append(f"{len(objects) + 1} 0 R")
        objects.append(
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]/Resources<</Font<</F1 3 0 R>>>>"
            f"/Contents {len(objects) + 2} 0 R>>"
        )
        objects.append(f"<</Length {len(content)}>>stream\n{content}\nendstream")
    objects[1] = f"<</Type/Pages/Count {len(kids)}/Kids[{' '.join(kids)}]>>"
    data, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += f"{number} 0 obj{body}endobj\n".encode("latin-1")
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    end = (
        f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer<</Size {size}/Root 1 0 R>>\nstartxref\n{len(data)}\n%%EOF"
    )
    return data + end.encode()


def put(tmp_path, data, name="a.pdf"):
    (tmp_path / name).write_bytes(data)
    return load(tmp_path / name, name)[0]


def locked(user_password):
    writer = PdfWriter(PdfReader(io.BytesIO(pdf("Apixaban 5 mg."))))
    writer.encrypt(user_password=user_password, owner_password="owner", algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def test_each_page_is_a_section_with_its_number(tmp_path):
    document = put(tmp_path, pdf("Apixaban 5 mg.", "", "INR 2.4."))
    assert [(s.page, document.text[s.start : s.end].strip()) for s in document.sections] == [
        (1, "Apixaban 5 mg."),
        (3, "INR 2.4."),
    ]
    assert document.warnings == ("no text on page 2 (an image?)",)
    assert (document.media, document.title) == ("application/pdf", "a")


def test_damage_that_is_worked_around_is_told_and_not_printed(tmp_path, capfd):
    document = put(tmp_path, pdf("Apixaban 5 mg.").replace(b"startxref\n", b"startxref\n1"))
    assert "Apixaban 5 mg." in document.text
    assert document.warnings[0].startswith("the PDF is damaged, text may be missing")
    assert capfd.readouterr() == ("", "")


def test_a_pdf_is_known_by_its_first_bytes(tmp_path):
    assert put(tmp_path, pdf("INR 2.4."), "a.txt").media == "application/pdf"


def test_images_only_is_refused_with_the_reason(tmp_path):
    with pytest.raises(LoadError, match="no text on any of its 2 pages"):
        put(tmp_path, pdf("", ""))


def test_a_password_is_asked_for(tmp_path):
    with pytest.raises(LoadError, match="encrypted: a password is needed"):
        put(tmp_path, locked("secret"))


def test_an_empty_password_opens(tmp_path):
    assert "Apixaban 5 mg." in put(tmp_path, locked("")).text


@pytest.mark.parametrize(
    "data", [b"%PDF-1.4\n", b"%PDF-1.4\njunk\n%%EOF", pdf("x")[:200], b"no pdf at all", b"\0" * 99]
)
def test_a_damaged_file_is_refused(tmp_path, data):
    with pytest.raises(LoadError, match=r"not a readable PDF|no text|without pages"):
        put(tmp_path, data)
