"""Windows of a text: what is in them, their order, resuming; windows for scores."""

import keras
import numpy as np
import pytest

from keras_attn.batches import DocumentWindows, EpochOrder, TextWindows, scoring_windows
from keras_attn.training import MaskedCrossEntropy

START, PAD = 1, 0


def stream(n):
    return np.arange(10, 10 + n)


def labels_of(windows):
    """The labels that count, row by row."""
    rows = []
    for i in range(len(windows)):
        ids, labels, weight = windows[i]
        assert ids.dtype == labels.dtype == "int32"
        assert weight.dtype == "float32"
        assert ids.shape == labels.shape == weight.shape
        assert (ids[:, 0] == START).all()
        np.testing.assert_array_equal(ids[:, 1:], labels[:, :-1])
        assert set(weight.sum(axis=1)) <= {0.0, float(labels.shape[1])}
        rows += labels[weight[:, 0] == 1].tolist()
    return rows


def test_windows_stand_side_by_side():
    windows = TextWindows(stream(23), START, sequence_length=5, batch_size=3, shuffle=False)
    assert len(windows) == 2
    assert labels_of(windows) == stream(20).reshape(4, 5).tolist()
    assert windows[1][0].shape == (3, 5)  # all of one shape
    assert windows.num_examples == 4


def test_an_epoch_is_one_pass_from_a_new_place():
    windows = TextWindows(stream(103), START, sequence_length=10, batch_size=4, seed=3)
    seen = []
    for epoch in range(20):
        windows.set_epoch(epoch)
        rows = np.array(labels_of(windows))
        assert rows.shape == (9, 10)
        flat = np.sort(rows.ravel())
        np.testing.assert_array_equal(flat, np.arange(flat[0], flat[0] + 90))
        assert rows[:, 0].tolist() != sorted(rows[:, 0])
        seen.append(int(flat[0]))
    assert min(seen) >= 10
    assert max(seen) + 90 <= 113
    assert len(set(seen)) > 5
    again = TextWindows(stream(103), START, sequence_length=10, batch_size=4, seed=3)
    again.set_epoch(7)
    windows.set_epoch(7)
    assert labels_of(again) == labels_of(windows)
    other = TextWindows(stream(103), START, sequence_length=10, batch_size=4, seed=4)
    other.set_epoch(7)
    assert labels_of(other) != labels_of(windows)


def test_a_text_of_one_window():
    windows = TextWindows(stream(5), START, sequence_length=5, batch_size=2)
    assert labels_of(windows) == [stream(5).tolist()]
    assert windows[-1][0].shape == (2, 5)
    with pytest.raises(IndexError):
        windows[1]


def test_fit_goes_on_to_the_next_epoch():
    windows = TextWindows(stream(60), START, sequence_length=10, batch_size=2)
    model = keras.Sequential([keras.Input((10,)), keras.layers.Embedding(70, 70)])
    model.compile("sgd", MaskedCrossEntropy(), jit_compile=False)
    model.fit(windows, epochs=3, shuffle=False, verbose=0)
    assert windows.state() == {"epoch": 3, "seed": 0}
    model.fit(
        windows, initial_epoch=1, epochs=2, shuffle=False, verbose=0,
        callbacks=[EpochOrder(windows)],
    )  # fmt: skip
    assert windows.epoch == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ids": [1, 2, 3], "sequence_length": 4}, "at least one window"),
        ({"ids": [], "sequence_length": 4}, "at least one window"),
        ({"ids": [[1, 2]], "sequence_length": 1}, "vector of integers"),
        ({"ids": [0.5, 1.0]}, "vector of integers"),
        ({"ids": [1], "sequence_length": 0}, "`sequence_length` must be >= 1"),
        ({"ids": [1], "batch_size": 0}, "`batch_size` must be >= 1"),
        ({"ids": [1], "seed": -1}, "`seed` must be >= 0"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        TextWindows(start_id=START, **arguments)
    with pytest.raises(ValueError, match="epoch"):
        TextWindows([1], START, 1).set_epoch(-1)


@pytest.mark.parametrize("n", [1, 3, 7, 8, 9, 12, 13, 40])
@pytest.mark.parametrize("context", [0, 3, 7])
def test_each_token_is_scored_once_with_its_context(n, context):
    T = 8
    ids = stream(n)
    windows, scored = scoring_windows(ids, START, PAD, T, context)
    assert (windows[:, 0] == START).all()
    assert windows[:, 1:][scored].tolist() == ids.tolist()
    for row, marks in zip(windows[:, 1:], scored, strict=True):
        for place in np.flatnonzero(marks):
            i = int(row[place]) - 10
            before = row[:place].tolist()
            assert before == ids[i - len(before) : i].tolist()
            assert len(before) >= min(context, i)


END = 2
DOCUMENTS = [[*range(10, 10 + n), END] for n in (3, 5, 1, 23, 4, 2, 6)]


def learned_of(windows):
    """What each window learns, and the labels of all, row by row."""
    for i in range(len(windows)):
        ids, labels, weight = windows[i]
        assert (ids[:, 0] == START).all()
        np.testing.assert_array_equal(ids[:, 1:], labels[:, :-1])
        yield from zip(labels.tolist(), weight.tolist(), strict=True)


def test_documents_are_packed():
    settings = {"sequence_length": 10, "batch_size": 2, "shuffle": False}
    windows = DocumentWindows(DOCUMENTS, [0] * 7, START, PAD, **settings)
    rows = [labels for labels, weight in learned_of(windows) if any(weight)]
    flat = [x for document in DOCUMENTS for x in [*document, START]]
    assert [x for row in rows for x in row if x != PAD] == flat  # in their order, each once
    assert rows[0] == [10, 11, 12, END, START, *[PAD] * 5]  # the next does not fit
    assert rows[1] == [10, 11, 12, 13, 14, END, START, 10, END, START]
    assert rows[2] == [*range(10, 20)]  # a long one is cut
    for labels, weight in learned_of(windows):
        assert not any(weight) or weight == [float(x not in (START, PAD)) for x in labels]
    assert windows.padded_share == 1 - len(flat) / (10 * windows.num_examples)


def test_prompts_are_not_learned():
    windows = DocumentWindows(
        [[5, 6, 7, END], [8, END], [9] * 30 + [END]], [2, 0, 30], START, PAD, sequence_length=31,
        batch_size=1, shuffle=False,
    )  # fmt: skip
    learned = [[x for x, w in zip(*row, strict=True) if w] for row in learned_of(windows)]
    assert learned == [[7, END, 8, END], [END]]
    with pytest.warns(
        UserWarning, match="1 of 3 documents with a prompt are longer than a window of 16 tokens"
    ):
        cut = DocumentWindows(
            [[5, 7, END], [8] * 20 + [END], [9] * 20 + [END]], [1, 0, 20], START, PAD,
            sequence_length=16, shuffle=False,
        )  # fmt: skip
    assert cut.num_examples == 4  # that of the prompt alone is left out
    with pytest.raises(ValueError, match="at least one document"):
        DocumentWindows([], [], START, PAD)


def test_the_order_of_documents_follows_from_the_seed():
    def rows(seed, epoch):
        windows = DocumentWindows(
            DOCUMENTS, [0] * 7, START, PAD, sequence_length=10, batch_size=3, seed=seed
        )
        windows.set_epoch(epoch)
        return [labels for labels, weight in learned_of(windows) if any(weight)]

    assert rows(0, 2) == rows(0, 2) != rows(0, 3)
    assert sorted(rows(0, 2)) == sorted(rows(0, 3))
    assert sorted(rows(0, 0)) != sorted(rows(1, 0))


def test_what_is_given_is_not_scored():
    windows, scored = scoring_windows(stream(9), START, PAD, 4, 2, given=3)
    assert windows[:, 1:][scored].tolist() == stream(9)[3:].tolist()
