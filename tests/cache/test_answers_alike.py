"""Questions in other words: what may never be taken for the same, and what is."""

import json
import sqlite3

import pytest
from ragq.cache.alike import EMBEDDER, Likeness, revision_of, threshold_of
from ragq.cache.answers import AnswerCache
from ragq.cache.calibrate import NEVER, calibrate, lower_bound, upper_bound
from ragq.cache.likeness import difference
from ragq.cache.wording import read_wording
from ragq.engine.models import model_path
from ragq.index.drug import Drug
from ragq.index.embed import open_embedder
from ragq.index.lexicon import Lexicon

KEY = {"patient": "42", "shards": {"patient:42": [3, "x"]}}
LEXICON = Lexicon(
    Drug(name, (), aliases, ()) for name, aliases in (("apixaban", ("Eliquis", "apixabán")), ("warfarin", ("warfarina",)),
                                                      ("digoxin", ()), ("amiodarone", ()), ("penicillin", ()))
)  # fmt: skip
NEAR = [
    ("Is 0.5 mg of digoxin too much?", "Is 0.05 mg of digoxin too much?"),
    ("Is she allergic to penicillin?", "Is she not allergic to penicillin?"),
    ("Can apixaban be given if eGFR is below 30?", "Can apixaban be given if eGFR is above 30?"),
    ("Is the left knee swollen?", "Is the right knee swollen?"),
    ("When was warfarin started?", "When was warfarin stopped?"),
    ("When was warfarin stopped?", "Why was warfarin stopped?"),
    ("Does apixaban interact with amiodarone?", "Does warfarin interact with amiodarone?"),
    ("Can I replace warfarin with apixaban?", "Can I replace apixaban with warfarin?"),
    ("What was the INR on 2024-03-15?", "What was the INR on 2024-05-13?"),
    ("What is the latest potassium?", "What is the latest sodium?"),
    ("Did her mother take warfarin?", "Did her father take warfarin?"),
    ("Did her mother take warfarin?", "Did she take warfarin?"),
    ("Does Maria take warfarin?", "Does Carmen take warfarin?"),
    ("What is her apixaban dose?", "What is her maximum apixaban dose?"),
    ("Is apixaban safe in pregnancy?", "Is apixaban safe in breastfeeding?"),
    ("Should warfarin be stopped before surgery?", "Should warfarin be stopped after surgery?"),
    ("What is the highest INR?", "What is the lowest INR?"),
    ("Is she on warfarin?", "Was she on warfarin?"),
    ("¿Cuándo se inició warfarina?", "¿Cuándo se suspendió warfarina?"),
    ("¿Es alérgica a la penicilina?", "¿No es alérgica a la penicilina?"),
    ("Can warfarin cause a rash?", "Can warfarin treat a rash?"),
    ("When is the next tetanus vaccine due?", "What date is her next influenza vaccine?"),
    ("Does she have asthma?", "Does she have gout?"),
    ("Does amiodarone increase digoxin?", "Is amiodarone increased by digoxin?"),
    ("Is a CT planned?", "Is an MRI planned?"),
    ("Is there a clot in the vein?", "Is there a polyp in the bowel?"),
    ("What is creatine?", "What is creatinine?"),
    ("Who should be called in an emergency?", "Who was called in the emergency?"),
    ("How can I help my mother prepare for the visit?", "How can my mother help me prepare for the visit?"),
    ("Can apixaban be increased to 5 mg?", "Can apixaban be increased from 5 mg?"),
]
SAME = [
    ("When was warfarin started?", "On what date was warfarin started?"),
    ("What is the latest INR?", "What was the most recent INR result?"),
    ("Does apixaban interact with amiodarone?", "Is there an interaction between apixaban and amiodarone?"),
    ("Why was warfarin stopped?", "What was the reason warfarin was stopped?"),
    ("What are the side effects of Eliquis?", "Which adverse effects does apixaban have?"),
    ("How does the virus spread?", "In which ways is the virus spread?"),
    (
        "Which symptoms and complications does COVID-19 cause?",
        "What are the symptoms and complications that corona can cause?",
    ),
    ("¿Por qué se suspendió warfarina?", "¿Cuál fue el motivo de que warfarina fuera suspendida?"),
]


@pytest.fixture(scope="module")
def embedder(models_dir):
    return open_embedder(model_path(EMBEDDER, models_dir), EMBEDDER)


@pytest.fixture
def cache(tmp_path):
    return AnswerCache(tmp_path / "answers.db")


@pytest.fixture
def likeness(cache, embedder):
    return Likeness(cache, lambda: embedder, lambda text: read_wording(text, LEXICON), revision_of(EMBEDDER))


def keep(cache, question, key=KEY, namespace="42"):
    return cache.store(key, namespace, question, {"text": question, "refusal": None}, read_wording(question, LEXICON))


@pytest.mark.parametrize(("one", "other"), NEAR)
def test_near_duplicates_are_never_the_same(one, other):
    a, b = read_wording(one, LEXICON), read_wording(other, LEXICON)
    assert difference(a, b)
    assert difference(b, a)


@pytest.mark.parametrize(("one", "other"), SAME)
def test_paraphrases_are_found(cache, likeness, one, other):
    keep(cache, one)
    hit = likeness.find(KEY, read_wording(other, LEXICON))
    assert hit is not None
    assert hit.question == one
    assert hit.score < 1.0


def test_another_key_never_finds_it(cache, likeness):
    keep(cache, SAME[0][0])
    assert likeness.find({**KEY, "patient": "43"}, read_wording(SAME[0][1], LEXICON)) is None


def test_nothing_to_compare_loads_no_embedder(cache):
    def refuse():
        raise AssertionError("the embedder was opened")

    keep(cache, "What is the latest INR?")
    likeness = Likeness(cache, refuse, lambda text: read_wording(text, LEXICON), revision_of(EMBEDDER))
    assert likeness.find(KEY, read_wording("What is the latest potassium?", LEXICON)) is None


def test_a_damaged_vector_is_a_miss_and_made_again(cache, likeness):
    keep(cache, SAME[0][0])
    asked = read_wording(SAME[0][1], LEXICON)
    assert likeness.find(KEY, asked)
    vectors = next(cache.path.parent.glob("*.vec"))
    vectors.write_bytes(b"\x01" * 3 + vectors.read_bytes()[3:])
    assert likeness.find(KEY, asked) is None
    assert likeness.find(KEY, asked)


def test_a_rejected_answer_is_gone_and_tightens(cache, likeness):
    entry = keep(cache, SAME[0][0])
    asked = read_wording(SAME[0][1], LEXICON)
    score = likeness.find(KEY, asked).score
    assert cache.reject(entry)
    assert not cache.reject(entry)
    assert threshold_of(cache, revision_of(EMBEDDER)) > score
    keep(cache, SAME[0][0])
    assert likeness.find(KEY, asked) is None


def test_deleting_wipes_the_vectors(cache, likeness):
    keep(cache, SAME[0][0])
    likeness.find(KEY, read_wording(SAME[0][1], LEXICON))
    assert cache.clear("42") == 1
    assert not any(next(cache.path.parent.glob("*.vec")).read_bytes())


def test_without_a_calibration_for_the_embedder_nothing_is_alike(cache):
    keep(cache, "INR?")
    assert threshold_of(cache, "another@embedder") == NEVER


def test_the_bound_is_that_of_clopper_and_pearson():
    assert upper_bound(0, 299) == pytest.approx(1 - 0.05 ** (1 / 299), rel=1e-6)
    assert upper_bound(0, 299) < 0.01 < upper_bound(0, 298)
    assert upper_bound(2, 100) == pytest.approx(0.0616, abs=1e-3)
    assert lower_bound(98, 100) == pytest.approx(1 - upper_bound(2, 100))
    assert upper_bound(5, 5) == 1.0


def test_the_threshold_is_the_loosest_that_is_vouched_for():
    scores = [0.9] * 10 + [0.6] * 10 + [0.5] * 5 + [0.1] * 500
    same = [True] * 20 + [False] * 505
    found = calibrate(scores, same, 0.01, "e")
    assert found.threshold == pytest.approx(0.55)
    assert found.hit_rate == 1.0
    assert calibrate(scores[:30], same[:30], 0.01, "e").threshold == NEVER


def test_a_changed_calibration_is_used(cache):
    keep(cache, "INR?")
    revision = revision_of(EMBEDDER)
    cache.set_fact("calibration", json.dumps({"threshold": 0.77, "embedder": revision}))
    assert threshold_of(cache, revision) == 0.77
    with sqlite3.connect(cache.path) as db:
        assert db.execute("SELECT count(*) FROM facts").fetchone() == (1,)
