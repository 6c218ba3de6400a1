"""Several questions about one image in one row of a batch."""

from typing import Any, cast

import keras
from keras import ops

from keras_attn.hints import Shape, Tensor
from keras_attn.layers import DecoderBlock
from keras_attn.layers.multi_head_attention import MultiHeadAttention

FORMS = ("questions", "pictures", "answers")


@keras.saving.register_keras_serializable(package="keras_attn")
class QuestionRows(keras.layers.Layer):
    """Rearranges tensors of the words of Q questions about each of B images.

    | form | from | to |
    |---|---|---|
    | `"questions"` | a tensor of words | `(B Q, T)`, or `(B Q, T, D)`: a row for each question |
    | `"pictures"` | a tensor of words | `(B, Q T)`, or `(B, Q T, D)`: a row for each image |
    | `"answers"` | `(B Q, D)` | `(B, Q, D)` |

    Args:
        form: `"questions"`, `"pictures"` or `"answers"`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Raises:
        ValueError: If `form` is unknown.
    """

    def __init__(self, form: str, **kwargs):
        super().__init__(**kwargs)
        if form not in FORMS:
            raise ValueError(f"`form` must be one of {list(FORMS)}. Received: {form!r}.")
        self.form = form
        self.supports_masking = True

    def call(self, x: Tensor, question_ids: Tensor) -> Tensor:
        """Rearranges `x` to the form of the layer.

        Args:
            x: A tensor of words or answers: integers without the axis D, or floats with it.
            question_ids: Ids `(B, Q, T)`, which determine Q and T.

        Returns:
            The values of `x` in the shape that the class describes.
        """
        _, Q, T = ops.shape(question_ids)
        sizes = {"questions": (T,), "pictures": (Q * T,), "answers": (Q,)}[self.form]
        floats = "float" in keras.backend.standardize_dtype(x.dtype)
        width = (x.shape[-1],) if floats else ()
        return ops.reshape(x, (-1, *sizes, *width))

    def compute_mask(self, x: Tensor, previous_mask: Tensor | None = None) -> None:
        """Returns None, because the output has no mask."""
        return None

    def compute_output_spec(self, x: Tensor, question_ids: Tensor) -> keras.KerasTensor:
        """Returns the shape and dtype of the output."""
        B, Q, T = question_ids.shape
        floats = "float" in keras.backend.standardize_dtype(x.dtype)
        shape = {
            "questions": (_times(B, Q), T),
            "pictures": (B, _times(Q, T)),
            "answers": (B, Q),
        }[self.form]
        return keras.KerasTensor((*shape, *((x.shape[-1],) if floats else ())), x.dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading by Keras."""
        return {**super().get_config(), "form": self.form}


def _times(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a * b


@keras.saving.register_keras_serializable(package="keras_attn")
class QuestionBlock(DecoderBlock):
    """A decoder block without a causal mask, for the words of Q questions about each image.

    The words of a question attend to each other, and to the regions of the image. Self-attention
    computes `(B Q, N, T, T)` products; with a mask between questions, it would compute `(B, N, Q T,
    Q T)` products, which are Q times as many. The keys and values of an image are computed once.
    """

    _needed_masks = ()

    def build(
        self,
        x_shape: Shape,
        memory_shape: Shape | None = None,
        question_ids_shape: Shape | None = None,
    ):
        """Creates the sublayers for words of width D and regions of width Dm."""
        super().build(x_shape, memory_shape)

    def compute_output_spec(
        self, x: Tensor, memory: Tensor, question_ids: Tensor, training: bool | None = None
    ) -> keras.KerasTensor:
        """Returns the shape and dtype of the output, because Keras cannot infer its length Q T."""
        return keras.KerasTensor(x.shape, self.compute_dtype)

    def call(  # type: ignore[override]  # it takes question ids in place of masks
        self, x: Tensor, memory: Tensor, question_ids: Tensor, training: bool | None = None
    ) -> Tensor:
        """Applies all sublayers to the words `x` of all questions."""
        B, Q, T = ops.shape(question_ids)
        D = x.shape[-1]
        mask = ops.not_equal(question_ids, 0)
        each = ops.reshape(mask, (-1, T))

        def attend_self(h: Tensor):
            h = ops.reshape(h, (-1, T, D))
            h = self.self_attention(h, mask=each, training=training)
            return ops.reshape(h, (B, Q * T, D)), None

        def attend_memory(h: Tensor):
            attend = cast(MultiHeadAttention, self.cross_attention)
            return attend(h, memory, training=training), None

        x = self._clean(x, ops.reshape(mask, (B, Q * T)))
        x, _ = self._residual(x, self.self_attention_norm, attend_self, training)
        x, _ = self._residual(x, self.cross_attention_norm, attend_memory, training)
        return self._feed_forward(x, training)
