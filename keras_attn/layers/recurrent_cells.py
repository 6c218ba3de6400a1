"""What `AttentionDecoder` has to know of recurrent cells."""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
from keras import ops, tree

Tensor = Any


def as_one_cell(cell: Any, dtype: Any) -> Any:
    """Returns a cell, several of them stacked; raises where they are no cells."""
    cells = list(cell) if isinstance(cell, list | tuple) else [cell]
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


def state_widths(cell: Any) -> list[int]:
    """Returns the widths of all states of a cell."""
    return tree.flatten(cell.state_size)


def query_index(cell: Any) -> int:
    """Returns which state of a cell is the hidden state of its top: the first of the last cell."""
    if isinstance(cell, keras.layers.StackedRNNCells):
        below = [one.state_size for one in cell.cells[:-1]]
        return len(tree.flatten(below))
    return 0


def output_width(cell: Any) -> int:
    """Returns the width of a cell's output."""
    width = getattr(cell, "output_size", None)
    return tree.flatten(cell.state_size)[query_index(cell)] if width is None else width


@contextlib.contextmanager
def dropout_masks(cell: Any, x: Tensor, width: int, training: bool | None) -> Iterator[None]:
    """Lets cells draw their dropout masks before a loop, and forget them after it.

    Within it, JAX would repeat random numbers, and masks are the same at each step anyway (Gal and
    Ghahramani, 2016).

    Args:
        cell: The cell.
        x: `(B, T, D)`: what the loop runs over.
        width: Width of the cell's input.
        training: Whether dropout is active.
    """
    cells = cell.cells if isinstance(cell, keras.layers.StackedRNNCells) else [cell]
    with_masks = [one for one in cells if hasattr(one, "get_dropout_mask")]
    if training:
        nothing = ops.zeros_like(x[:, 0, :1])
        for one in cells:
            if one in with_masks:
                units = tree.flatten(one.state_size)[0]
                one.get_dropout_mask(nothing + ops.zeros((1, width), x.dtype))
                one.get_recurrent_dropout_mask(nothing + ops.zeros((1, units), x.dtype))
            width = output_width(one)
    try:
        yield
    finally:
        for one in with_masks:
            one.reset_dropout_mask()
            one.reset_recurrent_dropout_mask()
