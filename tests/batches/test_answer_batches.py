"""Rows of a prompt and its answer: the answer alone counts."""

import numpy as np
import pytest

from keras_attn.batches import AnswerBatches


def rows(count, seed=0):
    rng = np.random.default_rng(seed)
    prompts = [rng.integers(5, 50, rng.integers(1, 30)).tolist() for _ in range(count)]
    answers = [rng.integers(5, 50, rng.integers(0, 12)).tolist() for _ in range(count)]
    return prompts, answers


@pytest.mark.parametrize("shuffle", [True, False])
def test_each_answer_is_learnt_once(shuffle):
    prompts, answers = rows(57)
    batches = AnswerBatches(
        prompts, answers, end_id=2, tokens_per_batch=160, max_shapes=3, rows_multiple_of=2,
        shuffle=shuffle,
    )  # fmt: skip
    assert len(set(batches.shapes)) <= 3 and batches.num_examples == 57
    found = []
    for i in range(len(batches)):
        ids, labels, weights = batches[i]
        assert ids.shape == labels.shape == weights.shape and len(ids) % 2 == 0
        assert ((labels != 0) == (weights == 1)).all()
        for row, label in zip(ids, labels, strict=True):
            places = np.flatnonzero(label)
            if not len(places):  # it only fills the batch
                continue
            first, last = places[0], places[-1]
            assert (np.diff(places) == 1).all() and label[last] == 2
            assert row[first + 1 : last + 1].tolist() == label[first:last].tolist()
            assert not row[last + 1 :].any()
            found.append((row[: first + 1].tolist(), label[first:last].tolist()))
    assert sorted(found) == sorted(zip(prompts, answers, strict=True))


def test_no_row_is_padded_beyond_the_longest_that_there_may_be():
    prompts, answers = [[5] * 9, [6], [7] * 12], [[8, 9], [8], [9]]
    batches = AnswerBatches(prompts, answers, end_id=2, max_length=11, max_shapes=1)
    assert batches[0][0].shape == (2, 11) and batches.dropped == 1
    assert sorted(batches[0][1].max(axis=1).tolist()) == [8, 9]
    with pytest.raises(ValueError, match="max_length"):
        AnswerBatches(prompts, answers, end_id=2, max_length=1)


def test_widths_that_are_rounded_once_more_stay_below_the_longest():
    """There are more than 256 of them."""
    prompts = [[5] * n for n in range(1, 2049, 4)] + [[5] * 2099]
    batches = AnswerBatches(prompts, [[6]] * len(prompts), end_id=2, max_length=2100, multiple=4)
    assert max(batches[i][0].shape[1] for i in range(len(batches))) == 2100


def test_what_it_refuses():
    with pytest.raises(ValueError, match="1 of them empty"):
        AnswerBatches([[5], []], [[6], [7]], end_id=2)
    with pytest.raises(ValueError, match=r"2 prompts, .* 1 answers"):
        AnswerBatches([[5], [6]], [[6]], end_id=2)
    with pytest.raises(ValueError, match="pad_id"):
        AnswerBatches([[5, 0]], [[6]], end_id=2)
