import pytest

from taut.training.micro_batch import cut_minibatches, micro_batches


def test_one_minibatch_is_the_whole_batch_in_order():
    assert cut_minibatches(4, epochs=2, minibatches=1, key=(0, 1)) == [[[0, 1, 2, 3]], [[0, 1, 2, 3]]]


def test_minibatches_are_equal_disjoint_and_shuffled_anew_each_epoch():
    epochs = cut_minibatches(12, epochs=3, minibatches=4, key=(0, 1))
    for epoch in epochs:
        assert [len(part) for part in epoch] == [3, 3, 3, 3]
        assert sorted(row for part in epoch for row in part) == list(range(12))
    assert epochs[0] != epochs[1] != epochs[2]


def test_the_shuffle_is_fixed_by_seed_and_step():
    first = cut_minibatches(12, 1, 4, (0, 1))
    assert cut_minibatches(12, 1, 4, (0, 1)) == first
    assert cut_minibatches(12, 1, 4, (0, 2)) != first
    assert cut_minibatches(12, 1, 4, (1, 1)) != first


@pytest.mark.parametrize(
    ("max_tokens", "expected"),
    [
        (100, [[2, 0, 3, 1]]),  # 4 rows x 9 tokens
        (12, [[2, 0], [3], [1]]),  # 3 x 2 rows fit 12, 7 x 2 and 9 x 2 do not
        (14, [[2, 0], [3], [1]]),
        (18, [[2, 0], [3, 1]]),
        (1, [[2], [0], [3], [1]]),  # each goes alone, whatever its length
    ],
)
def test_micro_batches_are_sorted_by_length_and_hold_the_budget(max_tokens, expected):
    lengths = [3, 9, 2, 7]
    assert micro_batches([0, 1, 2, 3], lengths, max_tokens) == expected


def test_micro_batches_keep_to_the_rows_they_are_given():
    assert micro_batches([3, 1], [5, 5, 5, 5], 10) == [[1, 3]]
