from __future__ import annotations

import pytest

from taut.models.sequences import pad_ids, pad_sequences


def test_prompt_and_reply_are_laid_out_right_padded():
    sequences = pad_sequences([(5, 6), (7,)], [(1,), (2, 3, 4)], "cpu")
    assert sequences.input_ids.tolist() == [[5, 6, 1, 0], [7, 2, 3, 4]]
    assert sequences.reply_ids.tolist() == [[1, 0, 0], [2, 3, 4]]
    assert sequences.prompt_lengths.tolist() == [2, 1]
    assert sequences.reply_lengths.tolist() == [1, 3]
    assert sequences.reply_mask.tolist() == [[True, False, False], [True, True, True]]


def test_the_mask_comes_from_lengths_and_not_from_ids():
    sequences = pad_sequences([(0,)], [(0, 0)], "cpu")
    assert sequences.reply_mask.tolist() == [[True, True]]


def test_ids_stay_integers_where_there_are_none():
    assert pad_ids([(), ()], "cpu").tolist() == [[], []]
    assert not pad_ids([()], "cpu").is_floating_point()


def test_a_prompt_without_a_token_is_refused():
    with pytest.raises(AssertionError, match="at least one token"):
        pad_sequences([()], [(1,)], "cpu")
