"""Segment ids of two texts in one row."""

from typing import Any

import keras
from keras import ops

from keras_attn.hints import Tensor
from keras_attn.layers.masked_layer import MaskedLayer, sequence_mask
from keras_attn.layers.token_weighting import integer_ids


@keras.saving.register_keras_serializable(package="keras_attn")
class TokenSegments(MaskedLayer):
    """Computes segment ids of two texts from the separator between them (Devlin et al., 2019).

        ids       [CLS] a b [SEP] c d [SEP] padding
        segments    0   0 0   0   1 1   1      0

    A token has segment 1 if it is not padding, and a separator comes before it. A row without a
    separator, or with a separator only at its end, has segment 0.

    Shapes: token_ids `(B, S)` to `(B, S)`, int32.

    Masking: ids of 0, and positions that `mask` `(B, S)` or the Keras mask of the ids hides, are
    padding. The output has no mask.

    Args:
        separator_id: Id of the separator, above 0.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        token_ids: Integers `(B, S)`; 0 is padding.
        mask: Padding mask `(B, S)`, boolean or 0/1 integers; the Keras mask of `token_ids` if None.

    Returns:
        Segment ids 0 and 1, int32 `(B, S)`.

    Raises:
        ValueError: If `separator_id` is not an integer above 0, an input or a mask has the wrong
            shape, the ids are not integers, or the mask has floats.

    Example:

    >>> segments = TokenSegments(separator_id=3)(ops.array([[2, 7, 3, 8, 3, 0]]))
    >>> ops.convert_to_numpy(segments)[0].tolist()
    [0, 0, 0, 1, 1, 0]
    """

    def __init__(self, separator_id: int, **kwargs):
        super().__init__(**kwargs)
        if isinstance(separator_id, bool) or not isinstance(separator_id, int) or separator_id < 1:
            raise ValueError(
                "`separator_id` of TokenSegments must be an integer above 0, as id 0 is "
                f"padding. Received: {separator_id!r}."
            )
        self.separator_id = separator_id

    def compute_mask(self, token_ids: Tensor, previous_mask: Tensor | None = None):
        """Returns None, because segment ids have no mask."""
        return None

    def call(self, token_ids: Tensor, *, mask: Tensor | None = None):
        """Computes the segment of each token of ids `(B, S)`."""
        token_ids = integer_ids(token_ids, self.name)
        mask = sequence_mask(token_ids, mask, name="mask")
        if mask is not None:
            token_ids = token_ids * ops.cast(mask, "int32")
        separators = ops.cast(ops.equal(token_ids, self.separator_id), "int32")
        before = ops.cumsum(separators, axis=1) - separators
        second = ops.logical_and(before > 0, ops.not_equal(token_ids, 0))
        return ops.cast(second, "int32")

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {**super().get_config(), "separator_id": self.separator_id}
