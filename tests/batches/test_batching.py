import keras
import numpy as np
import pytest

from keras_attn.batches import EpochOrder, TokenBatches

START, END = 1, 2


def make_data(count=500, seed=0, longest=60):
    rng = np.random.default_rng(seed)
    sources, targets = [], []
    for i in range(count):
        n = int(rng.integers(1, longest))
        m = max(0, n + int(rng.integers(-5, 9)))
        # The first id names the pair, so that a row can be recognised.
        sources.append([3 + i, *rng.integers(3, 1000, n - 1).tolist()])
        targets.append(rng.integers(3, 1000, m).tolist())
    return sources, targets


def make(sources, targets, **kwargs):
    kwargs = {"tokens_per_batch": 512, **kwargs}
    return TokenBatches(sources, targets, start_id=START, end_id=END, **kwargs)


@pytest.fixture(scope="module")
def data():
    return make_data()


def strip(row, pad=0):
    return [int(i) for i in row if i != pad]


def rows(batches):
    """(source, decoder input, labels) of every row that counts, as lists without padding."""
    found = []
    for inputs, labels, weight in batches:
        for s, t, y, w in zip(
            inputs["source_ids"], inputs["target_ids"], labels, weight, strict=True
        ):
            if w.any():
                found.append((strip(s), strip(t), strip(y)))
    return found


def test_layout_of_a_batch():
    batches = make([[5, 6, 7], [8]], [[9, 10, 11], [12]], multiple=4, shuffle=False)
    ((inputs, labels, weight),) = list(batches)
    assert inputs["source_ids"].tolist() == [[5, 6, 7, 0], [8, 0, 0, 0]]
    assert inputs["target_ids"].tolist() == [[1, 9, 10, 11], [1, 12, 0, 0]]
    assert labels.tolist() == [[9, 10, 11, 2], [12, 2, 0, 0]]
    assert weight.tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]
    types = [inputs["source_ids"].dtype, inputs["target_ids"].dtype, labels.dtype, weight.dtype]
    assert types == ["int32", "int32", "int32", "float32"]
    assert batches.padded_share == pytest.approx(1 - (4 + 6) / 16)


@pytest.mark.parametrize("kwargs", [{}, {"rows_multiple_of": 4}, {"shuffle": False}])
def test_every_pair_once_an_epoch(data, kwargs):
    sources, targets = data
    expected = sorted((s, [START, *t], [*t, END]) for s, t in zip(*data, strict=True))
    batches = make(sources, targets, **kwargs)
    for epoch in range(3):
        batches.set_epoch(epoch)
        assert sorted(rows(batches)) == expected


def test_budget_shapes_and_padding(data):
    batches = make(*data, max_shapes=5)
    shapes, real, positions = set(), 0, 0
    for inputs, labels, weight in batches:
        n, s = inputs["source_ids"].shape
        assert inputs["target_ids"].shape == labels.shape == weight.shape == (n, labels.shape[1])
        assert s % 8 == labels.shape[1] % 8 == 0
        assert n * max(s, labels.shape[1]) <= 512
        assert np.array_equal(weight, labels != 0)
        shapes.add((n, s, labels.shape[1]))
        counted = weight.any(axis=1)
        real += np.sum(inputs["source_ids"][counted] != 0) + np.sum(weight)
        positions += inputs["source_ids"].size + labels.size
    assert shapes == set(batches.shapes)
    assert 2 <= len(shapes) == len(batches.shapes) <= 5
    assert batches.padded_share == pytest.approx(1 - real / positions)
    assert batches.padded_share < 0.35
    # One batch to each shape more than there are full ones at most.
    full = sum(sum(map(len, side)) for side in data) / 2 / 512
    assert len(batches) < 1.5 * full + 5


def test_more_shapes_cost_less_padding(data):
    shares = [make(*data, max_shapes=n).padded_share for n in (1, 3, 20)]
    assert shares[0] > shares[1] > shares[2]
    assert len(make(*data, max_shapes=1).shapes) == 1


def test_filler_rows_repeat_real_ones_and_count_nothing():
    batches = make([[5]] * 5, [[6]] * 5, rows_multiple_of=4)
    (shape,) = batches.shapes
    assert shape == (8, 8, 8)
    inputs, labels, weight = batches[0]
    assert (inputs["source_ids"][:, 0] == 5).all()
    assert (inputs["target_ids"][:, 0] == START).all()
    assert weight.sum() == 10
    assert not weight[5:].any()
    assert not labels[5:].any()


def test_a_pair_longer_than_the_budget_stands_alone():
    batches = make([[5] * 30, [6]], [[7], [8]], tokens_per_batch=16)
    assert sorted(batches.shapes) == [(1, 8, 8), (1, 32, 8)]


def test_order_depends_on_seed_and_epoch_alone(data):
    def order(batches):
        return [row[0][0] for row in rows(batches)]

    one, same, other = make(*data), make(*data), make(*data, seed=1)
    first = order(one)
    assert first == order(one) == order(same) != order(other)
    one.set_epoch(4)
    fourth = order(one)
    assert fourth != first
    assert one.state() == {"epoch": 4, "seed": 0}
    same.set_epoch(2)
    same.set_epoch(4)
    assert order(same) == fourth
    fixed = make(*data, shuffle=False)
    before = order(fixed)
    fixed.set_epoch(1)
    assert order(fixed) == before


def test_the_first_two_batches_differ_where_lengths_vary(data):
    batches = make(*data)
    for epoch in range(50):
        batches.set_epoch(epoch)
        (a, _, _), (b, _, _) = batches[0], batches[1]
        for name in ("source_ids", "target_ids"):
            assert a[name].shape[1] != b[name].shape[1]


def test_too_long_pairs_are_dropped_and_counted(data):
    batches = make(*data, max_length=20)
    keep = [(s, t) for s, t in zip(*data, strict=True) if len(s) <= 20 and len(t) + 1 <= 20]
    assert 0 < batches.dropped == len(data[0]) - len(keep)
    assert batches.num_examples == len(keep)
    assert sorted(row[0] for row in rows(batches)) == sorted(s for s, _ in keep)
    assert make(*data).dropped == 0


@pytest.mark.slow
def test_many_widths_are_merged_soon():
    sources, targets = make_data(3000, longest=600)
    batches = make(sources, targets, multiple=1, max_shapes=6, tokens_per_batch=4096)
    assert len(batches.shapes) <= 6
    assert len(rows(batches)) == 3000


@pytest.mark.parametrize(
    ("sources", "targets", "kwargs", "message"),
    [
        ([], [], {}, "0 sources and 0 targets"),
        ([[3]], [[3], [4]], {}, "1 sources and 2 targets"),
        ([[3], []], [[3], [4]], {}, "empty source at position 1"),
        ([[3], [4, 0]], [[3], [4]], {}, "`pad_id`=0 must not occur.*sequence 1 of `sources`"),
        ([[3], [4]], [[], [5, 0]], {}, "sequence 1 of `targets`"),
        ([[3.5]], [[3]], {}, "integer ids.*float64"),
        ([[3]], [[-1]], {}, "integer ids >= 0.*smallest -1"),
        ([[3]], [[2**31]], {}, r"below 2\^31. Received: ids up to 2147483648"),
        ([[3, 4]], [[3]], {"max_length": 1}, "No pair is left.*shortest has 2"),
        ([[3]], [[3]], {"pad_id": 2}, "`pad_id` must differ"),
        ([[3]], [[3]], {"tokens_per_batch": 0}, "`tokens_per_batch` must be >= 1"),
        ([[3]], [[3]], {"max_shapes": 0}, "`max_shapes` must be >= 1"),
        ([[3]], [[3]], {"seed": -1}, "`seed` must be >= 0"),
    ],
)
def test_errors(sources, targets, kwargs, message):
    with pytest.raises(ValueError, match=message):
        make(sources, targets, **kwargs)


def test_set_epoch_and_index_are_checked(data):
    batches = make(*data)
    with pytest.raises(ValueError, match="`epoch` must be >= 0"):
        batches.set_epoch(-1)
    with pytest.raises(IndexError):
        batches[len(batches)]


class Seen(keras.callbacks.Callback):
    """Notes the epoch of the batches at each batch of `fit`."""

    def __init__(self, batches):
        super().__init__()
        self.batches, self.epochs = batches, []

    def on_train_batch_end(self, batch, logs=None):
        self.epochs.append(self.batches.epoch)


def make_model():
    source = keras.Input((None,), dtype="int32", name="source_ids")
    target = keras.Input((None,), dtype="int32", name="target_ids")
    embed = keras.layers.Embedding(1000, 4)
    memory = keras.layers.GlobalAveragePooling1D(keepdims=True)(embed(source))
    x = keras.layers.Dense(1000)(keras.layers.Add()([embed(target), memory]))
    model = keras.Model([source, target], x)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_fit_walks_through_the_epochs(data, workers):
    batches = make(*data, workers=workers, max_queue_size=2)
    validation = make(data[0][:50], data[1][:50], shuffle=False)
    seen = Seen(batches)
    model = make_model()
    model.fit(
        batches, epochs=2, shuffle=False, verbose=0, validation_data=validation, callbacks=[seen]
    )
    n = len(batches)
    assert seen.epochs == [0] * n + [1] * n
    assert batches.state()["epoch"] == 2
    model.fit(batches, shuffle=False, verbose=0, callbacks=[seen])
    assert seen.epochs[2 * n :] == [2] * n
    callbacks = [EpochOrder(batches), seen]
    model.fit(batches, initial_epoch=7, epochs=8, shuffle=False, verbose=0, callbacks=callbacks)
    assert seen.epochs[3 * n :] == [7] * n
