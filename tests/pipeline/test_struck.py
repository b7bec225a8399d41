"""Struck-out text answers nothing; a citation shows it marked."""

from ragq import Ragq
from ragq.index.add import add

HTML = (
    "<meta name=date content=2026-03-01><h1>Note</h1><p><del>Warfarin 5 mg once daily</del></p>"
    "<p>Apixaban 5 mg twice daily.</p><p>Allergies: <s>penicillin (anaphylaxis)</s> none known</p>"
    "<p>INR <strike>7.9</strike> 2.4</p>"
)
MARKDOWN = "# Visit 2026-03-02\n\n- ~~Digoxin 125 micrograms daily~~\n- Bisoprolol 5 mg daily\n"


def test_struck_out_text_of_notes_is_not_told_as_said(empty_home, tmp_path, light_embedder, offsets):
    folder = tmp_path / "p"
    folder.mkdir()
    (folder / "note.html").write_text(HTML)
    (folder / "2026-03-02.md").write_text(MARKDOWN)
    add(empty_home / "index", "patient:900", folder, light_embedder, offsets)
    with Ragq.open(empty_home, model="smollm2-135m", cache=False) as rag:
        for asked in ("Is she on warfarin?", "Is she on digoxin?", "What was the warfarin dose?"):
            answer = rag.ask(asked, "900")
            assert answer.refusal, answer.text
        allergies = rag.ask("allergies?", "900")
        assert "none known" in allergies.text
        assert "penicillin" not in allergies.text
        assert "[struck out: penicillin (anaphylaxis)]" in allergies.citations[0].quote
        assert rag.ask("INR?", "900").text.startswith("2026-03-01: INR 2.4")
        taken = rag.ask("What medications does she take?", "900").text.lower()
        assert "apixaban" in taken
        assert "bisoprolol" in taken
        assert "warfarin" not in taken
        assert "digoxin" not in taken
        assert "warfarin" not in rag.ask("Any interactions between her medications?", "900").text.lower()


def test_no_answer_is_copied_out_of_struck_words(empty_home, tmp_path, light_embedder, offsets):
    page = tmp_path / "egr1.md"
    page.write_text("# EGR1\n\nThe gene EGR1 was cloned ~~in 1987 by Vikas Sukhatme~~ in 1988 in mice.\n")
    add(empty_home / "index", "shared:genes", page, light_embedder, offsets)
    with Ragq.open(empty_home, model="smollm2-135m", cache=False, judge="rules", shared=("genes",)) as rag:
        for asked in ("When was the gene EGR1 cloned?", "Who cloned the gene EGR1?"):
            said = rag.ask(asked).text
            assert "1987" not in said
            assert "Sukhatme" not in said
