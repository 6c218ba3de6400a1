"""Several pairs a row."""

import numpy as np
import pytest

from keras_attn.batches import EpochOrder, PackedBatches, TokenBatches
from keras_attn.batches.packing import first_fit

START, END = 1, 2


def make_data(count=400, seed=0):
    """Pairs of log-normal lengths; the first id of each side names the pair."""
    rng = np.random.default_rng(seed)
    lengths = np.clip(rng.lognormal(2.5, 0.5, count), 1, 60).astype(int)
    sources = [[3 + i, *rng.integers(3, 900, n - 1).tolist()] for i, n in enumerate(lengths)]
    others = np.clip(lengths + rng.integers(-3, 4, count), 0, 60)
    targets = [rng.integers(3, 900, n).tolist() for n in others]
    return sources, targets


def make(sources, targets, **settings):
    settings = {"tokens_per_row": 64, "tokens_per_batch": 512, **settings}
    return PackedBatches(sources, targets, start_id=START, end_id=END, **settings)


@pytest.fixture(scope="module")
def data():
    return make_data()


def pairs_of(batches):
    """(source, decoder input, labels) of all pairs with a weight, by the segments of each row."""
    found = []
    for inputs, labels, weights in batches:
        for r in np.flatnonzero(weights.any(axis=1)):
            source, target = inputs["source_segments"][r], inputs["target_segments"][r]
            assert source.max() == target.max()
            assert np.array_equal(weights[r], target > 0)
            for k in range(1, target.max() + 1):
                for numbers in (source, target):  # each in one piece
                    at = np.flatnonzero(numbers == k)
                    assert at[-1] - at[0] + 1 == len(at)
                ids = (inputs["source_ids"][r], inputs["target_ids"][r], labels[r])
                numbers = (source, target, target)
                found.append(
                    tuple(part[n == k].tolist() for part, n in zip(ids, numbers, strict=True))
                )
            for ids, numbers in (("source_ids", source), ("target_ids", target)):
                assert np.array_equal(inputs[ids][r] != 0, numbers != 0)
    return found


def test_layout_of_a_batch():
    batches = make([[5, 6, 7], [8]], [[9], [10, 11]], tokens_per_row=8, shuffle=False)
    ((inputs, labels, weights),) = list(batches)
    assert {name: ids.tolist() for name, ids in inputs.items()} == {
        "source_ids": [[5, 6, 7, 8]],
        "source_segments": [[1, 1, 1, 2]],
        "target_ids": [[1, 9, 1, 10, 11]],
        "target_segments": [[1, 1, 2, 2, 2]],
    }
    assert labels.tolist() == [[9, 2, 10, 11, 2]]
    assert weights.tolist() == [[1, 1, 1, 1, 1]]
    types = [ids.dtype for ids in inputs.values()]
    assert [*types, labels.dtype, weights.dtype] == ["int32"] * 5 + ["float32"]
    assert batches.padded_share == 0


@pytest.mark.parametrize("settings", [{}, {"rows_multiple_of": 3}, {"shuffle": False}])
def test_every_pair_once_an_epoch(data, settings):
    expected = sorted((s, [START, *t], [*t, END]) for s, t in zip(*data, strict=True))
    batches = make(*data, **settings)
    orders = []
    for epoch in range(2):
        batches.set_epoch(epoch)
        orders.append(pairs_of(batches))
        assert sorted(orders[-1]) == expected
    assert (orders[0] == orders[1]) == (settings.get("shuffle") is False)
    assert batches.num_examples == len(expected)
    assert batches.dropped == 0


def test_one_shape_and_less_padding_than_buckets(data):
    batches = make(*data)
    ((rows, s, t),) = batches.shapes
    assert rows * max(s, t) <= 512
    assert max(s, t) <= 64
    real = sum(len(s) + len(t) + 1 for s, t in zip(*data, strict=True))
    assert batches.padded_share == pytest.approx(1 - real / (len(batches) * rows * (s + t)))
    bucketed = TokenBatches(*data, start_id=START, end_id=END, tokens_per_batch=512)
    assert batches.padded_share < 0.12 < 0.2 < bucketed.padded_share


def test_rows_that_fill_the_last_batch_count_nothing():
    batches = make([[5]] * 3, [[6] * 7] * 3, tokens_per_row=8, rows_multiple_of=2)
    ((inputs, labels, weights),) = list(batches)
    assert inputs["target_ids"].shape == (4, 8)
    assert inputs["target_ids"].all()
    assert weights.sum() == 24
    assert labels[3].tolist() == [0] * 8
    assert labels[:3].all()


def test_pairs_longer_than_a_row_are_left_out():
    batches = make([[5], [6] * 9, [7], [8]], [[9], [9], [9] * 8, [9] * 7], tokens_per_row=8)
    assert batches.dropped == 2
    assert sorted(source for source, _, _ in pairs_of(batches)) == [[5], [8]]


def test_language_models_have_no_sources():
    batches = make(None, [[5, 6], [7]], tokens_per_row=5)
    ((inputs, labels, _),) = list(batches)
    assert sorted(inputs) == ["target_ids", "target_segments"]
    assert inputs["target_ids"].tolist() == [[1, 5, 6, 1, 7]]
    assert labels.tolist() == [[5, 6, 2, 7, 2]]
    assert batches.shapes == [(1, 5)]


def test_order_follows_the_epoch_of_fit(data):
    one, other = make(*data), make(*data)
    EpochOrder(one).on_epoch_begin(3)
    other.set_epoch(3)
    assert pairs_of(one) == pairs_of(other)
    assert one.state() == {"epoch": 3, "seed": 0}
    assert pairs_of(one) != pairs_of(make(*data, seed=1))


def test_first_fit_by_hand():
    sizes = np.array([[5], [7], [5], [2], [4], [2], [1]])
    assert first_fit(sizes, 10).tolist() == [1, 0, 1, 0, 2, 2, 0]  # 7 2 1, 5 5, 4 2
    sides = np.array([[3, 1], [1, 3], [1, 1]])
    assert first_fit(sides, 4).tolist() == [0, 0, 1]


def test_with_few_open_rows_nothing_overflows():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 20, (500, 2))
    for most_open in (1, 3, 1024):
        rows = first_fit(lengths, 20, most_open)
        assert sorted(set(rows)) == list(range(rows.max() + 1))
        filled = np.stack([np.bincount(rows, lengths[:, side]) for side in (0, 1)])
        assert filled.max() <= 20
    assert filled.mean() > 0.85 * 20


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"tokens_per_row": 0}, "`tokens_per_row` must be >= 1"),
        ({"tokens_per_row": 600}, r"`tokens_per_batch` must be >= 600 \(`tokens_per_row`\)"),
        ({"rows_multiple_of": 0}, "`rows_multiple_of`"),
        ({"seed": -1}, "`seed`"),
        ({"pad_id": 2}, "`pad_id` must differ"),
        ({"pad_id": 6}, "`pad_id`=6 must not occur in the data"),
        ({"tokens_per_row": 2}, r"No pair is left: .* \(the shortest has 3 ids\)"),
    ],
)
def test_errors_say_what_to_do(settings, said):
    with pytest.raises(ValueError, match=said):
        make([[5, 6, 7]], [[8, 9]], **settings)


def test_errors_of_data():
    with pytest.raises(ValueError, match="Received: 2 sources and 1 targets"):
        make([[5], [6]], [[7]])
    with pytest.raises(ValueError, match="Received: no sources and 0 targets"):
        make(None, [])
    with pytest.raises(ValueError, match="empty source at position 1"):
        make([[5], []], [[7], [8]])
