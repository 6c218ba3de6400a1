"""Batches of pairs whose rows are compared with each other."""

import numpy as np

from keras_attn.batches import ScoredPairBatches


def batches(lengths, **settings):
    rows = [[1 + i % 9] * n for i, n in enumerate(lengths)]
    targets = np.arange(2 * len(rows)).reshape(-1, 2)
    return ScoredPairBatches([[1]] * len(rows), rows, targets, multiple=4, **settings)


def test_small_buckets_are_joined():
    lengths = [3, 3, 3, 7, 11, 12, 10, 15]
    alone = batches(lengths, batch_size=3, shuffle=False)
    assert alone.shapes == [(3, 4, 4), (1, 8, 8), (3, 12, 12), (1, 16, 16)]
    joined = batches(lengths, batch_size=3, least=3, shuffle=False)
    assert joined.shapes == [(3, 4, 4), (3, 16, 16)]
    assert batches(lengths, batch_size=9, least=9).shapes == [(8, 16, 16)]
    assert joined.num_examples == 8


def test_no_batch_has_a_single_pair():
    made = batches([3] * 13, batch_size=4, least=4)
    assert sorted(len(made.members(i)) for i in range(len(made))) == [3, 3, 3, 4]
    assert sorted(np.concatenate([made.members(i) for i in range(len(made))])) == [*range(13)]


def test_targets_of_several_numbers_stay_with_their_pairs():
    lengths = [3, 12, 3, 7]
    made = batches(lengths, batch_size=2, least=2, seed=3)
    seen = []
    for index in range(len(made)):
        inputs, labels, weights = made[index]
        for ids, own, weight in zip(
            inputs["token_ids"], labels["similarity"], weights["similarity"], strict=True
        ):
            if weight:
                seen.append((int((ids[1] != 0).sum()), own.tolist()))
    assert sorted(seen) == sorted((n, [2 * i, 2 * i + 1]) for i, n in enumerate(lengths))
