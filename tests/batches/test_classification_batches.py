"""Batches of labelled texts: what is in them, their order, shortening, predictions."""

import keras
import numpy as np
import pytest

from keras_attn.batches import EpochOrder, TextBatches, class_weights, truncate


def make_ids(count=300, seed=0, longest=90):
    """The first id names the text."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, longest, count)
    return [[1000 + i, *rng.integers(5, 1000, n).tolist()] for i, n in enumerate(lengths)]


def rows(batches):
    """(ids, label, weight) of every row that counts."""
    found = []
    for ids, labels, weights in batches:
        assert ids.dtype == "int32"
        assert weights.dtype == "float32"
        for row, label, weight in zip(ids, labels, weights, strict=True):
            if weight:
                found.append((row[row != 0].tolist(), label, float(weight)))
    return found


def test_layout_of_a_batch():
    batches = TextBatches([[5, 6, 7], [8], []], [1, 0, 2], multiple=4, shuffle=False)
    ((ids, labels, weights),) = list(batches)
    assert ids.tolist() == [[5, 6, 7, 0], [8, 0, 0, 0], [0, 0, 0, 0]]
    assert labels.tolist() == [1, 0, 2]
    assert labels.dtype == "int32"
    assert weights.tolist() == [1, 1, 1]
    assert batches.shapes == [(3, 4)]
    assert (batches.num_examples, batches.truncated, batches.lost_share) == (3, 0, 0.0)
    assert batches.padded_share == pytest.approx(8 / 12)
    with_ends = TextBatches([[5, 6, 7], []], start_id=2, end_id=3, multiple=4, shuffle=False)
    rows_of = {tuple(row.tolist()) for (batch,) in with_ends for row in batch}
    assert rows_of == {(2, 5, 6, 7, 3, 0, 0, 0), (2, 3, 0, 0)}


def test_an_epoch_holds_every_text_once_with_its_label():
    ids = make_ids()
    labels = np.arange(len(ids)) % 7
    weights = 1 + np.arange(len(ids)) % 3
    batches = TextBatches(ids, labels, weights, batch_size=16, max_shapes=4, seed=5)
    expected = sorted(zip(ids, labels.tolist(), weights.tolist(), strict=True))
    seen = []
    for epoch in range(3):
        batches.set_epoch(epoch)
        found = rows(batches)
        assert sorted(found) == expected
        seen.append([row[0][0] for row in found])
    assert seen[0] != seen[1] != seen[2]
    again = TextBatches(ids, labels, weights, batch_size=16, max_shapes=4, seed=5)
    again.set_epoch(2)
    assert [row[0][0] for row in rows(again)] == seen[2]
    assert again.state() == {"epoch": 2, "seed": 5}


def test_few_shapes_and_no_larger_batches_than_asked_for():
    ids = make_ids()
    for settings in (
        {"batch_size": 16},
        {"batch_size": None, "tokens_per_batch": 512},
        {"batch_size": 20, "tokens_per_batch": 512, "rows_multiple_of": 4},
    ):
        batches = TextBatches(ids, np.zeros(300, int), max_shapes=3, **settings)
        assert len(batches.shapes) <= 3
        assert {batch[0].shape for batch in batches} == set(batches.shapes)
        for count, width in batches.shapes:
            assert count <= (settings["batch_size"] or 300)
            multiple = settings.get("rows_multiple_of", 1)
            assert (count - multiple + 1) * width <= settings.get("tokens_per_batch", 10**9)
            assert count % multiple == 0
            assert width % 16 == 0
        assert 0 < batches.padded_share < 0.5


def test_a_text_without_tokens_stays():
    """Arrays of no numbers are floats in NumPy."""
    batches = TextBatches([np.array([5, 6]), np.array([])], [0, 1], batch_size=2, shuffle=False)
    assert sum(len(labels) for _, labels, *_ in (batches[i] for i in range(len(batches)))) == 2


def test_several_labels():
    labels = np.array([[1, 0, 1], [0, 0, 0]])
    for given in (labels, labels.astype(bool), labels.tolist()):
        _, found, _ = TextBatches([[5], [6]], given, shuffle=False)[0]
        assert found.dtype == "float32"
        assert found.tolist() == labels.tolist()


def test_numbers():
    for given in ([0.5, -2.0], np.array([[0.5, 1.0], [-2.0, 0.0]])):
        ((_, found, weights),) = list(TextBatches([[5], [6]], given, shuffle=False))
        assert found.dtype == "float32" and weights.tolist() == [1.0, 1.0]
        np.testing.assert_array_equal(found, given)
    for wrong in ([0.5, np.nan], [0.5], np.zeros((2, 1, 1))):
        with pytest.raises(ValueError, match="or finite floats of shape"):
            TextBatches([[5], [6]], wrong)


@pytest.mark.parametrize(
    ("strategy", "kept"),
    [("head", [1, 2, 3, 4, 5]), ("tail", [6, 7, 8, 9, 10]), ("head_tail", [1, 7, 8, 9, 10])],
)
def test_truncation(strategy, kept):
    ids = list(range(1, 11))
    assert truncate(ids, 5, strategy) == kept
    np.testing.assert_array_equal(truncate(np.array(ids), 5, strategy), kept)
    assert truncate(ids, 10, strategy) is ids
    assert len(truncate(ids, 1, strategy)) == 1
    assert truncate([], 1, strategy) == []
    batches = TextBatches(
        [ids, ids[:5], ids[:6]], max_length=7, truncation=strategy, start_id=11, end_id=12
    )
    whole = {tuple(row[row != 0].tolist()) for (batch,) in batches for row in batch}
    assert (11, *kept, 12) in whole
    assert (11, 1, 2, 3, 4, 5, 12) in whole
    assert batches.truncated == 2
    assert batches.lost_share == pytest.approx(6 / 21)
    assert batches.shapes == [(3, 7)]


def test_truncation_is_checked():
    with pytest.raises(ValueError, match=r"'head', 'tail', 'head_tail'\. Received: 'middle'"):
        truncate([1], 3, "middle")
    with pytest.raises(ValueError, match=r"'head', 'tail', 'head_tail'\. Received: 'middle'"):
        TextBatches([[5]], truncation="middle")
    for wrong in (0, -1, True):
        with pytest.raises(ValueError, match="`max_length`"):
            truncate([1], wrong)


def test_weights_of_classes():
    labels = np.array([0, 0, 0, 0, 0, 0, 2, 2])
    weights = class_weights(labels, 4)
    np.testing.assert_allclose(weights, [8 / 24, 0, 1, 0], rtol=1e-6)
    labels = np.repeat([0, 1, 2], [6, 3, 1])
    each = class_weights(labels, 3)[labels]
    assert each.mean() == pytest.approx(1)
    for label in range(3):
        assert each[labels == label].sum() == pytest.approx(10 / 3)
    for wrong in ([], [0.5], [-1], [3], [[0]]):
        with pytest.raises(ValueError, match="integer labels from 0 to 2"):
            class_weights(wrong, 3)


def test_predictions_come_back_in_order():
    ids = make_ids(97)
    batches = TextBatches(ids, batch_size=8, max_shapes=5, shuffle=False)
    assert sum(count for count, _ in batches.shapes) * 8 > 97 / 5
    outputs = np.concatenate([np.stack([b[:, 0], b[:, 0] * 2], 1) for (b,) in batches])
    assert len(outputs) > 97  # some rows only fill a batch
    restored = batches.restore(outputs)
    np.testing.assert_array_equal(restored[:, 0], 1000 + np.arange(97))
    np.testing.assert_array_equal(restored[:, 1], 2 * restored[:, 0])
    with pytest.raises(ValueError, match="rows of all batches"):
        batches.restore(outputs[:-1])
    with pytest.raises(ValueError, match="`shuffle=False` only"):
        TextBatches(ids).restore(outputs)


class Spy(keras.callbacks.Callback):
    """Notes the state of the batches at the beginning of each epoch."""

    def __init__(self, batches):
        super().__init__()
        self.batches, self.states = batches, []

    def on_epoch_begin(self, epoch, logs=None):
        self.states.append(self.batches.state()["epoch"])


def classifier():
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(50, 4, mask_zero=True)(ids)
    x = keras.layers.GlobalAveragePooling1D()(x)
    model = keras.Model(ids, keras.layers.Dense(2)(x))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, weighted_metrics=["accuracy"])
    return model


@pytest.mark.slow
def test_fit_evaluate_and_predict():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 200)
    ids = [[10 + int(y), *rng.integers(12, 50, rng.integers(0, 40)).tolist()] for y in labels]
    batches = TextBatches(ids, labels, batch_size=16, max_shapes=3, max_length=30)
    model = classifier()
    model.optimizer.learning_rate = 0.05
    spy = Spy(batches)
    model.fit(
        batches, epochs=12, initial_epoch=2, shuffle=False, verbose=0,
        callbacks=[EpochOrder(batches), spy],
    )  # fmt: skip
    assert spy.states == list(range(2, 12))
    held_out = TextBatches(ids, labels, max_length=30, shuffle=False)
    _, accuracy = model.evaluate(held_out, verbose=0)
    assert accuracy > 0.95
    plain = TextBatches(ids, max_length=30, max_shapes=3, shuffle=False)
    predicted = plain.restore(model.predict(plain, verbose=0))
    assert predicted.shape == (200, 2)
    # Rows that only fill a batch count in no metric.
    assert np.mean(predicted.argmax(1) == labels) == pytest.approx(accuracy, abs=1e-6)


@pytest.mark.parametrize(
    ("arguments", "settings", "message"),
    [
        (([],), {}, "at least one text"),
        (([[5]], [1, 2]), {}, "1 integers >= 0"),
        (([[5]], [-1]), {}, "1 integers >= 0"),
        (([[5]], [np.inf]), {}, "1 integers >= 0"),
        (([[5]], ["a"]), {}, "1 integers >= 0"),
        (([[5]], [[0, 2]]), {}, "1 integers >= 0"),
        (([[5]], None, [1.0]), {}, "`weights` require `labels`"),
        (([[5]], [1], [-1.0]), {}, "finite numbers >= 0"),
        (([[5]], [1], [np.nan]), {}, "finite numbers >= 0"),
        (([[5]], [1], [1.0, 1.0]), {}, "finite numbers >= 0"),
        (([[5, 0]],), {}, "`pad_id`=0 must not occur"),
        (([[5.5]],), {}, "integer ids"),
        (([[5]],), {"batch_size": 0}, "`batch_size` must be >= 1"),
        (([[5]],), {"tokens_per_batch": 0}, "`tokens_per_batch` must be >= 1"),
        (([[5]],), {"batch_size": None}, "`batch_size` or `tokens_per_batch`"),
        (([[5]],), {"max_length": 2, "start_id": 1, "end_id": 2}, "`max_length` must be >= 3"),
        (([[5]],), {"seed": -1}, "`seed` must be >= 0"),
        (([[5]],), {"end_id": 0}, "`pad_id` must differ"),
    ],
)
def test_settings_are_checked(arguments, settings, message):
    with pytest.raises(ValueError, match=message):
        TextBatches(*arguments, **settings)
