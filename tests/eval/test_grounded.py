import numpy as np
import pytest
from ragq.eval import grounded_fit
from ragq.eval.bench_grounded import summarise
from ragq.eval.grounded_data import Item, lines_of
from ragq.eval.grounded_signals import held, row_of
from ragq.index.lexicon import Lexicon


def test_auroc_counts_pairs_and_ties_by_half():
    assert grounded_fit.auroc([0.9, 0.4, 0.6, 0.4], [True, True, False, False]) == pytest.approx(0.625)


def test_abstention_is_judged_on_what_is_refused():
    probabilities = np.array([0.1, 0.2, 0.3, 0.9])
    assert grounded_fit.abstention(probabilities, [False, True, False, True], 0.35) == (pytest.approx(2 / 3), 1.0)
    assert grounded_fit.abstention(probabilities, [False, True, False, True], 0.0) == (1.0, 0.0)


def test_a_fold_is_scored_by_fits_that_have_not_seen_it():
    draw = np.random.default_rng(0)
    labels = [bool(i % 2) for i in range(200)]
    noise = draw.normal(size=(200, 1))
    out = grounded_fit.cross_validated(noise, labels, [str(i) for i in range(200)])
    assert 0.35 < grounded_fit.auroc(out, labels) < 0.65
    signal = noise + 3 * np.array(labels)[:, None]
    assert grounded_fit.auroc(grounded_fit.cross_validated(signal, labels, [str(i) for i in range(200)]), labels) > 0.9


def test_rows_of_rules_alone_and_what_is_made_of_them():
    item = Item("1", "medec", "", lines_of(["Culture grew Trichomonas vaginalis.", "Started on metronidazole 500 mg."]),
                (("Culture grew Trichomonas vaginalis.", True), ("Started on metronidazole 5 mg.", False)))  # fmt: skip
    row = row_of(item, None, Lexicon(), control=False)
    assert [a["supported"] for a in row["answers"]] == [True, False]
    assert summarise([row]) == {"n_medec": 1, "medec_stopped": 1.0, "medec_let_out": 1.0}
    assert held("Trichomonas", item) == 1.0
    assert held("yes", item) == 0.5


def test_figures_of_judged_rows():
    rows = [
        {"id": str(i), "source": "halueval", "answerable": None, "together": 1.0, "best": 1.0,
         "answers": [{"right": True, "held": 1.0, "judge": 1.0, "supported": True},
                     {"right": False, "held": 0.2, "judge": -1.0, "supported": False}]}
        for i in range(3)
    ]  # fmt: skip
    # Rows of the clinic are of questions asked: they have no signals.
    clinic = {"id": "q1", "source": "clinic", "out": 0, "read": False, "facts_out": [True]}
    found = summarise([*rows, clinic])
    assert (found["n_clinic"], found["unsupported_out"]) == (1, 0)
    assert found["auroc_halueval"] == found["auroc_halueval_rules"] == found["auroc_halueval_judge"] == 1.0
    assert found["n_halueval"] == 6
