"""Which expert goes first, and reads past the page cache."""

import ctypes
import mmap

import numpy as np
import pytest
from ragq.engine.direct_read import Read, Reader
from ragq.engine.eviction import POLICIES, History


def after(uses, sizes=(4096,) * 4):
    """A history in which the tokens used these slots, one after another."""
    history = History(np.array(sizes))
    for slots in uses:
        history.next_tokens(1)
        history.use(np.array(slots))
    return history


def first_to_go(policy, history):
    return int(np.argmin(POLICIES[policy](history)))


def test_lru_drops_what_was_used_the_longest_ago():
    assert first_to_go("lru", after([[0], [1, 2], [3], [0], [1]])) == 2


def test_lfu_drops_what_was_used_least():
    assert first_to_go("lfu", after([[1, 2, 3], [1, 2, 3], [1, 2, 3], [0]])) == 0


def test_segmented_drops_what_was_used_once_before_what_came_back():
    assert first_to_go("segmented", after([[0], [0], [1], [2], [3], [3]])) == 1


def test_segmented_protects_no_more_than_its_share():
    history = after([[0, 1, 2, 3], [0], [1], [2], [3]])
    # All came back; the one that did so the longest ago is not protected.
    assert first_to_go("segmented", history) == 0


def test_cost_aware_drops_the_large_one_of_two_that_are_used_alike():
    assert first_to_go("cost", after([[0, 1]], sizes=(4096, 4_096_000))) == 1


def test_cost_aware_forgets_what_was_used_often_long_ago():
    uses = [[0]] * 30 + [[1]] * 10 + [[2]] * 600
    assert POLICIES["cost"](after(uses))[0] < POLICIES["cost"](after([*uses, [1], [1], [1]]))[1]


def test_counts_stay_finite_over_many_tokens():
    history = after([[0]])
    for _ in range(300):
        history.next_tokens(512)
        history.use(np.array([1]), np.array([512]))
    assert np.isfinite(history.fast).all()
    assert np.isfinite(history.slow).all()
    assert first_to_go("cost", history) in (0, 2, 3)


def test_what_an_earlier_run_used_most_is_worth_most():
    shares = after([[2], [2], [1]]).shares()
    history = History(np.array([4096] * 4))
    history.recall(shares, 100)
    assert int(np.argmax(POLICIES["lfu"](history))) == 2


@pytest.fixture
def memory():
    made = mmap.mmap(-1, 1 << 20)
    yield made
    made.close()


def test_many_reads_in_flight_bring_what_stands_in_the_file(tmp_path, memory):
    data = np.random.default_rng(0).bytes(1 << 20)
    (tmp_path / "data").write_bytes(data)
    first = ctypes.c_char.from_buffer(memory)
    reader = Reader(tmp_path / "data")
    order = np.random.default_rng(1).permutation(64).tolist()
    reader.start([Read(i, ctypes.addressof(first) + i * 16384, 16384, i * 16384) for i in order[:40]])
    reader.start([Read(i, ctypes.addressof(first) + i * 16384, 16384, i * 16384) for i in order[40:]], urgent=False)
    done = []
    while reader.in_flight:
        done += reader.finished(wait=True)
    reader.close()
    del first
    assert sorted(done) == [(i, "") for i in range(64)]
    assert bytes(memory) == data


def test_a_read_past_the_end_says_so(tmp_path, memory):
    (tmp_path / "data").write_bytes(bytes(8192))
    first = ctypes.c_char.from_buffer(memory)
    reader = Reader(tmp_path / "data")
    reader.start([Read(7, ctypes.addressof(first), 16384, 0)])
    assert reader.finished(wait=True) == [(7, "8192 of 16384 bytes")]
    reader.close()
    del first
