"""Base class of tasks on an encoder that read long inputs in windows."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from keras import ops

from keras_attn.arrays import Array, ArrayModule, starts_of
from keras_attn.batches import EncoderBatches
from keras_attn.export import in_parts
from keras_attn.tasks.base.doubts import doubt_of
from keras_attn.tasks.base.task_run import TrainingRun
from keras_attn.tasks.families.encoder_task import EncoderTask, row_lists

Arrays = Mapping[str, Array]


class WindowedTask(EncoderTask):
    """Base class of tasks whose inputs become one or several rows of an encoder.

    A subclass makes rows of encoded inputs in `rows`, and computes the results in `run`. If it
    names arrays in `of_rows`, it also reduces the outputs of each row in `read_off`. The three
    methods take an array module, so that Python and the SavedModel share them.
    """

    parts_rows = False  # its rows are computed in parts
    of_rows: ClassVar[tuple[str, ...]] = ()
    """Names of arrays `(R,)` in the result of `rows` that `read_off` receives."""

    def doubt(self, batches: EncoderBatches, run: TrainingRun) -> str:
        """Returns a warning if the final training loss is not below the loss of a guess that is the
        same for all texts; empty otherwise."""
        guess = batches.guessing_loss()
        if guess is None:
            return ""
        return doubt_of(run, guess, "guessing labels only by their shares")

    def rows(self, xp: ArrayModule, tensors: Arrays) -> dict[str, Array]:
        """Cuts encoded inputs into the rows of ids that the model reads.

        Args:
            xp: The array module: `numpy`, or `keras.ops` in the SavedModel.
            tensors: The encoded inputs.

        Returns:
            A dict of `row_ids (R, T)`; `row_sizes (R,)`, the number of ids of each row;
            `row_seconds (R,)`, the position where the second segment of each row begins; and
            further arrays for `read_off` and `run`.
        """
        raise NotImplementedError

    def scores(self, inputs: Arrays) -> dict[str, Array]:
        """Computes the outputs of the model for each token of rows, on every backend.

        Args:
            inputs: Inputs of the model: `token_ids`, `segment_ids` and `padding_mask` `(R, T)`.

        Returns:
            A dict of `tokens (R, T, C)`.
        """
        raise NotImplementedError

    def read_off(self, xp: ArrayModule, tensors: Arrays, use: Any) -> dict[str, Array]:
        """Reduces the outputs for the tokens of each row, if `of_rows` has names.

        Args:
            xp: The array module: `numpy`, or `keras.ops` in the SavedModel.
            tensors: A dict of `tokens (N, C)`, the outputs for the tokens of all R rows one after
                the other; `token_starts (R,)`, the index of the first token of each row; and the
                arrays named in `of_rows`.
            use: Settings of class `Use`.

        Returns:
            A dict of arrays with a row for each of the R rows, which `run` receives.
        """
        raise NotImplementedError

    def computed(self, tensors: Arrays, use: Any) -> dict[str, Any]:
        """Computes the scores of all tokens with the model and the result of `run` with NumPy.

        Returns a dict of the arrays that `run` and `rows` return.
        """
        rows = self.rows(np, tensors)
        sizes = rows["row_sizes"]
        found = self.compute(row_lists(rows), use.batch_size, self.scores)
        values = [x["tokens"][:size] for x, size in zip(found, sizes, strict=True)]
        tokens = {"tokens": np.concatenate(values), "token_starts": starts_of(np, sizes)}
        if self.of_rows:
            kept = []
            for i in range(0, len(sizes), use.batch_size):
                some = {name: rows[name][i : i + use.batch_size] for name in self.of_rows}
                some["token_starts"] = tokens["token_starts"][i : i + use.batch_size]
                kept.append(self.read_off(np, {"tokens": tokens["tokens"], **some}, use))
            tokens = {name: np.concatenate([x[name] for x in kept]) for name in kept[0]}
        return {**rows, **self.run(np, {**tensors, **rows, **tokens}, use)}

    def computed_graph(self, tf: ModuleType, tensors: Arrays, use: Any) -> dict[str, Any]:
        """Computes the result of `run` with TensorFlow ops, `batch_size` rows at a time."""

        def tokens_of(tokens: Array) -> dict[str, Array]:
            rows, width = ops.shape(tokens)[0], ops.shape(tokens)[1]
            flat = ops.reshape(tokens, (rows * width, tokens.shape[2]))
            return {"tokens": flat, "token_starts": ops.arange(rows, dtype="int32") * width}

        def compute(**some: Array) -> dict[str, Array]:
            found = self.scores(self.row_inputs(some))
            if not self.of_rows:
                return found
            return self.read_off(ops, {**some, **tokens_of(found["tokens"])}, use)

        rows = self.rows(ops, tensors)
        names = "row_ids", "row_seconds", "row_sizes", *self.of_rows
        given = {name: rows[name] for name in names}
        found = in_parts(tf, compute, use.batch_size)(**given)
        if not self.of_rows:
            found = tokens_of(found["tokens"])
        return self.run(ops, {**tensors, **rows, **found}, use)
