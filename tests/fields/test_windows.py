"""Windows: each place is read off once, with context, in Python and in the graph."""

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.fields.windows import Windows


@pytest.mark.parametrize(("room", "margin"), [(3, 0), (4, 1), (8, 2), (30, 7)])
def test_each_place_is_read_off_in_one_window(room, margin):
    windows = Windows(room, margin)
    for length in range(1, 5 * room):
        starts = windows.starts(length)
        assert starts == sorted(set(starts)) and starts[0] == 0
        assert starts[-1] == max(0, length - room)
        numbers = [windows.number(place, length) for place in range(length)]
        assert sorted(set(numbers)) == list(range(len(starts)))
        assert windows.number(np.arange(length), length).tolist() == numbers
        for place, number in enumerate(numbers):
            before = place - starts[number]
            behind = starts[number] + min(room, length) - 1 - place
            assert before >= min(margin, place)
            assert behind >= min(margin, length - 1 - place)
    assert windows.starts(0) == [0]


def test_the_graph_does_the_same():
    lengths = list(range(60))
    windows = Windows(8, 2)
    found = windows.graph(tf, tf.constant(lengths))
    owner, start, size, first, behind, rows = (x.numpy().tolist() for x in found)
    expected = [(i, x) for i, n in enumerate(lengths) for x in windows.starts(n)]
    assert list(zip(owner, start, strict=True)) == expected
    assert size == [min(lengths[i], 8) for i in owner]
    assert rows == [owner.index(i) for i in lengths]
    for i, length in enumerate(lengths):
        for place in range(length):
            (row,) = [r for r, o in enumerate(owner) if o == i and first[r] <= place < behind[r]]
            assert row - rows[i] == windows.number(place, length)
        some = tf.range(length)
        numbers = windows.number_graph(tf, some, tf.fill([length], length)).numpy().tolist()
        assert numbers == [windows.number(place, length) for place in range(length)]


def test_rooms_may_differ_in_the_graph():
    rooms, margins, lengths = [8, 5, 30], [2, 1, 7], [40, 17, 100]
    found = Windows(tf.constant(rooms), tf.constant(margins)).graph(tf, tf.constant(lengths))
    owner, start = found.owner.numpy(), found.start.numpy()
    for i, (room, margin, length) in enumerate(zip(rooms, margins, lengths, strict=True)):
        assert start[owner == i].tolist() == Windows(room, margin).starts(length)
