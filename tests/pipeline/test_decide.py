import pytest
from ragq.index.lexicon import Lexicon
from ragq.pipeline.decide import answerable, coverage, shipped, supported, threshold
from ragq.pipeline.evidence import Evidence


def lines(*texts: str) -> list[Evidence]:
    return [Evidence(t, t, "d", "shared:x", "test") for t in texts]


def test_coverage_counts_stems_and_synonyms():
    evidence = lines("She never smoked.", "Works as a gardener.")
    assert coverage("Does she smoke?", evidence, Lexicon()) == (1.0, 1.0)
    assert coverage("smoking gardener", evidence, Lexicon()) == (1.0, 0.5)
    assert coverage("colonoscopy?", evidence, Lexicon()) == (0.0, 0.0)


def test_kinship_words_are_found_under_each_other():
    assert coverage("How many children does she have?", lines("Her daughter Claire visits."), Lexicon())[0] > 0


def test_more_evidence_and_a_surer_judge_make_an_answer_likelier():
    assert answerable((1.0, 1.0), 2.0) > answerable((1.0, 1.0), -2.0)
    assert answerable((1.0, 1.0), None) > answerable((0.0, 0.0), None)
    assert answerable(None, 3.0) > answerable(None, -3.0)
    assert supported(1.0, 2.0) > supported(0.5, 2.0) > supported(0.5, -2.0)


def test_without_a_signal_there_is_no_verdict():
    assert supported(None, None) is None
    assert answerable(None, None) == 1.0


@pytest.mark.parametrize("name", ["answerable", "supported"])
@pytest.mark.parametrize("judged", [True, False])
def test_strict_asks_for_more_than_lenient(name, judged):
    strict, normal, lenient = (threshold(name, m, judged) for m in ("strict", "normal", "lenient"))
    assert strict >= normal >= lenient


def test_every_signal_speaks_for_the_answer():
    for kind in ("answerable", "supported"):
        for table in shipped()[kind].values():
            assert all(v > 0 for k, v in table.items() if k in ("together", "held", "judge"))


def test_of_a_record_words_that_one_line_holds_weigh_more_than_in_a_library():
    held, doubted = (1.0, 1.0), -0.3
    assert answerable(held, doubted, "_record") >= threshold("answerable", "normal", True, "_record")
    assert answerable((0.0, 0.0), doubted, "_record") < threshold("answerable", "normal", True, "_record")
    assert answerable(held, doubted) < threshold("answerable", "normal", True)
