"""Checks, widths and dropout masks of the recurrent cells of `AttentionDecoder`."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import keras
from keras import ops, tree

from keras_attn.hints import DType, Size, Tensor
from keras_attn.ops.masks import static_shape

CELLS = {"gru": keras.layers.GRUCell, "lstm": keras.layers.LSTMCell}


def as_one_cell(
    cell: keras.layers.Layer | Sequence[keras.layers.Layer], dtype: DType
) -> keras.layers.Layer:
    """Returns a cell, or several cells as a stack; raises an error if they are not cells."""
    cells: list[keras.layers.Layer] = list(cell) if isinstance(cell, list | tuple) else [cell]
    for one in cells:
        if isinstance(one, keras.layers.RNN):
            raise TypeError(
                f"`cell` must be a recurrent cell, such as keras.layers.GRUCell(units). Received: "
                f"the layer {one.name!r}. Pass its cell, of class {type(one.cell).__name__}."
            )
        if not (hasattr(one, "call") and hasattr(one, "state_size")):
            raise TypeError(
                "`cell` must be a recurrent cell, such as keras.layers.GRUCell(units), or a list "
                f"of cells: a layer with `call(x, states)` and `state_size`. Received: {one!r}."
            )
        if isinstance(one, keras.layers.StackedRNNCells):
            as_one_cell(one.cells, dtype)
            continue
        sizes = one.state_size if isinstance(one.state_size, list | tuple) else [one.state_size]
        if not sizes or not all(isinstance(size, int) for size in sizes):
            raise ValueError(
                "Each state of a cell must be a vector: its `state_size` an integer or a list of "
                f"integers. Received: state_size={one.state_size!r} of {one!r}."
            )
    if not cells:
        raise ValueError("`cell` must be a cell or a list of cells. Received: an empty list.")
    return cell if cells[0] is cell else keras.layers.StackedRNNCells(cells, dtype=dtype)


def state_widths(cell: keras.layers.Layer) -> list[int]:
    """Returns the widths of all states of a cell."""
    return tree.flatten(cell.state_size)


def query_index(cell: keras.layers.Layer) -> int:
    """Returns the index of the hidden state of the top cell, its first state."""
    if isinstance(cell, keras.layers.StackedRNNCells):
        below = [one.state_size for one in cell.cells[:-1]]
        return len(tree.flatten(below)) + query_index(cell.cells[-1])
    return 0


def output_width(cell: keras.layers.Layer) -> int:
    """Returns the width of a cell's output."""
    width = getattr(cell, "output_size", None)
    return tree.flatten(cell.state_size)[query_index(cell)] if width is None else width


def _with_masks(cell: keras.layers.Layer, width: int) -> Iterator[tuple[Any, int]]:
    """Finds the cells with dropout masks in stacks and wrappers, and their input widths."""
    if isinstance(cell, keras.layers.StackedRNNCells):
        for one in cell.cells:
            yield from _with_masks(one, width)
            width = output_width(one)
    elif hasattr(cell, "get_dropout_mask"):
        yield cell, width
    elif hasattr(cell, "cell"):
        yield from _with_masks(cell.cell, width)


def no_state(x: Tensor) -> Tensor:
    """Returns zeros `(B, 1)` for a sequence `(B, T, D)`, which may have length 0."""
    return ops.zeros_like(ops.sum(x[:, :, :1], axis=1))


def run_loop(
    rnn: keras.layers.RNN, x: Tensor, states: list[Tensor], mask: Tensor | None
) -> list[Tensor]:
    """Runs a loop that returns its outputs and states; a sequence of length 0 has no outputs.

    Keras always reads the first step. A sequence without steps therefore gets one, whose output is
    cut off, and keeps the states that it began with.
    """
    x, mask, length = with_a_step(x, mask)
    output, *ends = rnn(x, initial_state=states, mask=mask)
    if length is None:
        return [output, *ends]
    pairs = zip(ends, states, strict=True)
    return [output[:, :length], *(ops.where(ops.equal(length, 0), b, a) for a, b in pairs)]


def with_a_step(x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None, Size | None]:
    """Adds a padded step to a sequence `(B, T, D)` without steps, in graphs of TensorFlow too.

    Returns the sequence, its mask, and its own length T, or None if no step had to be added. The
    symbolic lengths of the other backends stand for one or more.
    """
    known = static_shape(x)[1]
    if known or (known is None and keras.backend.backend() != "tensorflow"):
        return x, mask, None
    length = ops.shape(x)[1]
    more = 1 if known == 0 else ops.maximum(1 - length, 0)
    x = ops.pad(x, [[0, 0], [0, more], [0, 0]])
    return x, mask if mask is None else ops.pad(mask, [[0, 0], [0, more]]), length


@contextlib.contextmanager
def dropout_masks(
    cell: keras.layers.Layer, x: Tensor, width: int, training: bool | None
) -> Iterator[None]:
    """Lets cells draw their dropout masks before a loop, and resets them after it.

    Inside the loop, JAX would repeat random numbers. The masks are the same at each step anyway
    (Gal and Ghahramani, 2016).
    """
    found = list(_with_masks(cell, width))

    def forget():
        for one, _ in found:
            one.reset_dropout_mask()
            one.reset_recurrent_dropout_mask()

    forget()
    for one, width in found:
        if training:
            nothing = no_state(x)
            units = tree.flatten(one.state_size)[0]
            one.get_dropout_mask(nothing + ops.zeros((1, width), x.dtype))
            one.get_recurrent_dropout_mask(nothing + ops.zeros((1, units), x.dtype))
        else:
            # keras.layers.SimpleRNNCell draws unused masks in inference too, if they are None.
            one._dropout_mask = one._recurrent_dropout_mask = False
    try:
        yield
    finally:
        forget()
