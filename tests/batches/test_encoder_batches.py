"""Rows of an encoder in batches: ids, segments, labels of rows and of tokens, weights, orders."""

from itertools import chain

import numpy as np
import pytest

from keras_attn.batches import EncoderBatches

CLS, SEP = 2, 3


def rows_of(lengths, seed=0):
    """Rows of the given lengths; of each, a second segment begins at a drawn place or nowhere."""
    rng = np.random.default_rng(seed)
    rows = []
    for n, length in enumerate(lengths):
        ids = [CLS, *rng.integers(10, 99, length - 2).tolist(), SEP]
        rows.append((ids, int(rng.integers(2, length)) if n % 2 else length))
    return rows


LENGTHS = np.random.default_rng(1).integers(3, 40, 53).tolist()
ROWS = rows_of(LENGTHS)


def made(rows=ROWS, labels=None, weights=None, **settings):
    settings = {"batch_size": 8, "multiple": 8, "max_length": 42, **settings}
    return EncoderBatches(rows, labels, weights, **settings)


def test_each_row_is_once_in_an_epoch_as_it_was_given():
    labels = {"classes": np.arange(len(ROWS))}
    batches = made(labels=labels)
    found, shapes = [], set()
    for i in range(len(batches)):
        inputs, of_rows, weights = batches[i]
        shapes.add(inputs["token_ids"].shape)
        assert inputs["token_ids"].shape == inputs["segment_ids"].shape
        assert inputs["padding_mask"].dtype == bool and inputs["token_ids"].dtype == "int32"
        members = batches.members(i)
        assert of_rows["classes"][: len(members)].tolist() == members.tolist()
        for row, number in enumerate(members):
            ids, start = ROWS[number]
            width = inputs["token_ids"].shape[1]
            assert inputs["token_ids"][row].tolist() == ids + [0] * (width - len(ids))
            assert inputs["padding_mask"][row].tolist() == [p < len(ids) for p in range(width)]
            second = [int(start <= p < len(ids)) for p in range(width)]
            assert inputs["segment_ids"][row].tolist() == second
        filling = weights["classes"][len(members) :]
        assert not filling.any()
        found += members.tolist()
    assert sorted(found) == list(range(len(ROWS)))
    assert all(width % 8 == 0 or width == 42 for _, width in shapes)
    assert batches.num_examples == len(ROWS)


def test_weights_of_a_batch_sum_to_its_rows():
    """So that the mean over a batch with rows that fill it is the mean of the real ones."""
    weights = np.random.default_rng(0).uniform(0, 2, len(ROWS)).astype("float32")
    batches = made(labels={"classes": [0] * len(ROWS)}, weights=weights, rows_multiple_of=4)
    filled = 0
    for i in range(len(batches)):
        inputs, _, found = batches[i]
        rows, members = len(inputs["token_ids"]), batches.members(i)
        assert rows % 4 == 0
        filled += rows - len(members)
        most = max(len(batches.members(k)) for k in range(len(batches)) if batches[k][0][
            "token_ids"].shape == inputs["token_ids"].shape)  # fmt: skip
        expected = weights[members] * rows / most
        np.testing.assert_allclose(found["classes"][: len(members)], expected, rtol=1e-6)
        assert not found["classes"][len(members) :].any()
    assert filled


def test_labels_of_tokens():
    rng = np.random.default_rng(2)
    labels = [rng.integers(-1, 3, len(ids)).tolist() for ids, _ in ROWS]
    weights = np.where(np.arange(len(ROWS)) % 3, 1.0, 0.5)
    own = np.array([1.0, 3.0, 0.25], "float32")
    batches = made(
        labels={"tags": labels, "classes": np.arange(len(ROWS))}, weights=weights,
        token_labels=("tags",), label_weights={"tags": own},
    )  # fmt: skip
    seen = 0
    for i in range(len(batches)):
        inputs, found, of_heads = batches[i]
        members = batches.members(i)
        scale = of_heads["classes"][: len(members)] / weights[members]
        assert found["tags"].shape == of_heads["tags"].shape == inputs["token_ids"].shape
        assert found["tags"].min() >= 0  # a label that the loss can read, with weight 0
        for row, number in enumerate(members):
            expected = np.zeros(found["tags"].shape[1])
            for place, label in enumerate(labels[number]):
                if label >= 0:
                    assert found["tags"][row, place] == label
                    expected[place] = own[label] * weights[number] * scale[row]
                    seen += 1
            np.testing.assert_allclose(of_heads["tags"][row], expected, rtol=1e-6)
        assert not of_heads["tags"][len(members) :].any()
    assert seen == sum(label >= 0 for row in labels for label in row)


def test_what_the_model_does_not_take_is_left_out():
    batches = made(segments=False, shuffle=False)
    (inputs,) = batches[0]
    assert set(inputs) == {"token_ids", "padding_mask"}
    numbers = made(labels={"a": np.array([0.5] * len(ROWS)), "b": [True] * len(ROWS)})[0][1]
    assert (numbers["a"].dtype, numbers["b"].dtype) == ("float32", "int32")
    padded = made(pad_id=7)[0][0]
    assert ((padded["token_ids"] == 7) == ~padded["padding_mask"]).all()


def test_orders_and_going_on():
    """Epochs differ, a seed gives the same ones again, and a run goes on within an epoch."""

    def epoch(batches, number, begin=0):
        batches.set_epoch(number)
        return [batches.members(i).tolist() for i in range(begin, len(batches))]

    one, again, other = made(), made(), made(seed=1)
    first, second = epoch(one, 0), epoch(one, 1)
    assert first != second and sorted(chain(*first)) == sorted(chain(*second))
    assert epoch(again, 1) == second and epoch(again, 0) == first
    assert epoch(other, 0) != first
    assert epoch(again, 1, begin=3) == second[3:]
    still = made(shuffle=False)
    assert epoch(still, 0) == epoch(still, 1)


@pytest.mark.parametrize("max_shapes", [1, 3, 12])
def test_shapes_are_few(max_shapes):
    batches = made(max_shapes=max_shapes)
    shapes = {batches[i][0]["token_ids"].shape for i in range(len(batches))}
    assert len(shapes) <= max_shapes
    real = sum(int(batches[i][0]["padding_mask"][: len(batches.members(i))].sum())
               for i in range(len(batches)))  # fmt: skip
    assert real == sum(LENGTHS)
    assert 0 <= batches.padded_share < (0.7 if max_shapes == 1 else 0.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": []}, "at least one row"),
        ({"max_length": 20}, r"at most max_length=20 ids. Received: 39 ids in row"),
        ({"weights": [1.0]}, "53 numbers of at least 0"),
        ({"weights": [-1.0] * 53}, "53 numbers of at least 0"),
        ({"weights": [float("nan")] * 53}, "53 numbers of at least 0"),
        ({"labels": {"classes": [1, 2]}}, "labels 'classes' for 53 rows. Received: labels for 2"),
        (
            {"labels": {"tags": [[0]] * 53}, "token_labels": ("tags",)},
            r"a label 'tags' for each token, .* Received: a row of 1 for the \d+ tokens of row 0",
        ),
        ({"batch_size": 0}, "batch_size"),
        ({"rows": [([2, 0, 3], 3)]}, "`pad_id`=0 must not occur"),
    ],
)
def test_errors(change, message):
    with pytest.raises(ValueError, match=message):
        made(**change)


def test_the_loss_of_a_constant_guess():
    """Entropies of the shares by hand; labels of tokens and of rows are added."""
    rows = [([2, 9, 3], 3), ([2, 9, 9, 3], 4)]
    labels = {"tags": [[-1, 0, -1], [-1, 1, 1, -1]], "classes": [0, 1]}
    whole = -np.log(1 / 3) / 3 - 2 * np.log(2 / 3) / 3 + np.log(2)
    batches = EncoderBatches(rows, labels, token_labels=("tags",))
    assert batches.guessing_loss() == pytest.approx(whole)
    balanced = {"tags": np.array([2.0, 1.0])}
    batches = EncoderBatches(rows, labels, token_labels=("tags",), label_weights=balanced)
    assert batches.guessing_loss() == pytest.approx(2 * np.log(2))
    heavy = EncoderBatches(rows, {"classes": [0, 1]}, weights=[3.0, 1.0])
    assert heavy.guessing_loss() == pytest.approx(-0.75 * np.log(0.75) - 0.25 * np.log(0.25))
    assert EncoderBatches(rows, {"values": [0.5, 1.5]}).guessing_loss() is None
    assert EncoderBatches(rows).guessing_loss() is None
