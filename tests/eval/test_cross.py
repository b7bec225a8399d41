"""Training of cross-encoders: the loss, the lists drawn, the order that comes out, and the teacher's kept answers."""

import math

import numpy as np
import pytest
import torch
from ragq.eval.cross_compare import blend, with_feature
from ragq.eval.cross_model import Cross
from ragq.eval.cross_teacher import HITS, hardest, key_of, read_kept, teach
from ragq.eval.cross_train import HEAT, SOFT, Z_FUSED, loss_of, members
from ragq.eval.rank_train import List, gains, gains_by
from ragq.index.features import NAMES

NONE = torch.full((1, 2), math.nan)


def list_of(gold, question="q"):
    rows = np.zeros((len(gold), len(NAMES)), dtype=np.float32)
    rows[:, Z_FUSED] = np.linspace(1, -1, len(gold))
    return List(rows, np.array(gold, dtype=bool), sum(gold), question, [f"passage {i}" for i in range(len(gold))])


class Teacher:
    name = "teacher"

    def __init__(self):
        self.asked = []

    def score(self, question, hits):
        self.asked += [(question, h.chunk.text) for h in hits]
        return [0.5] * len(hits)


def test_the_loss_is_that_of_the_right_hit_beside_the_first_stage():
    even = loss_of(torch.zeros(1, 2), torch.zeros(1, 2), NONE)
    assert even.item() == pytest.approx(math.log(2))
    made_up_for = loss_of(torch.tensor([[3.0, 0.0]]), torch.tensor([[-3.0, 0.0]]), NONE)
    assert made_up_for.item() == pytest.approx(math.log(2))


def test_a_list_that_the_teacher_has_read_is_pulled_towards_its_odds():
    odds = torch.tensor([[HEAT * math.log(3), 0.0]])  # three to one when cooled
    agreed = loss_of(torch.tensor([[math.log(3), 0.0]]), torch.zeros(1, 2), odds)
    assert agreed.item() == pytest.approx((1 - SOFT) * math.log(4 / 3))
    both = loss_of(torch.zeros(2, 2), torch.zeros(2, 2), torch.cat([odds, NONE]))
    divergence = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    assert both.item() == pytest.approx(((1 - SOFT) * math.log(2) + SOFT * divergence + math.log(2)) / 2)


def test_a_drawn_list_has_a_right_hit_first_and_wrong_ones_after_it():
    one = list_of([False, True, *[False] * 20])
    numbers, odds = members(one, {}, np.random.default_rng(0))
    assert numbers[0] == 1
    assert len(set(numbers)) == HITS
    assert 1 not in numbers[1:]
    assert all(map(math.isnan, odds))
    assert members(list_of([True, False]), {}, np.random.default_rng(0)) is None


def test_without_weight_the_first_stage_stays_and_what_is_not_read_stays_below():
    one = list_of([False, True, False, False])
    cross = np.array([0.0, 2.0], dtype=np.float32)
    assert np.argsort(-blend(one, cross, 0.0), kind="stable").tolist() == [0, 1, 2, 3]
    assert np.argsort(-blend(one, cross, 5.0), kind="stable").tolist() == [1, 0, 2, 3]
    assert (gains_by([one], [blend(one, cross, 0.0)]) == gains([one], None)).all()
    assert gains_by([one], [blend(one, cross, 5.0)]).tolist() == [[1.0, 1.0]]


def test_as_a_feature_it_is_one_column_more_and_least_for_what_was_not_read():
    made = with_feature([list_of([False, True, False])], [np.array([0.0, 2.0], dtype=np.float32)])[0]
    assert made.rows.shape == (3, len(NAMES) + 1)
    assert made.rows[:, -1].tolist() == pytest.approx([-1, 1, -1], abs=1e-3)


def test_the_teacher_reads_the_hardest_questions_and_goes_on_where_it_stopped(tmp_path):
    lists = [list_of([True, *[False] * 9], "easy"), list_of([*[False] * 9, True], "hard"), list_of([False] * 4, "lost")]
    assert hardest(lists, 1) == [(1, [9, 0, 1, 2, 3, 4])]
    path, first = tmp_path / "kept" / "teacher.jsonl", Teacher()
    odds = teach(first, {"one": lists}, path, 60)
    assert first.asked[0] == ("hard", "passage 9")
    assert len(first.asked) == len(odds) == 2 * HITS
    assert read_kept(path) == odds
    assert members(lists[1], odds, np.random.default_rng(1))[1] == [0.5] * HITS
    path.write_bytes(path.read_bytes()[:-5])  # stopped while it wrote
    again = Teacher()
    assert teach(again, {"one": lists}, path, 60) == odds
    assert again.asked == first.asked[-1:]
    assert key_of("hard", "passage 9") in read_kept(path)


def test_untrained_the_score_is_how_alike_both_halves_are():
    states = torch.tensor(
        [[[9.0, 9.0], [1.0, 0.0], [1.0, 0.0], [7.0, 7.0]], [[9.0, 9.0], [1.0, 0.0], [0.0, 1.0], [7.0, 7.0]]]
    )
    body = torch.nn.Module()
    body.forward = lambda **given: (states,)
    model = Cross(body, 2)
    mask, types = torch.tensor([[0, 1, 1, 0]] * 2), torch.tensor([[0, 0, 1, 0]] * 2)
    alike = (model(types, mask, types) - model.first.bias)[:, 0].tolist()
    assert alike == pytest.approx([5.0, 0.0], abs=1e-3)
