"""Several questions about one picture, in one row of a batch."""

from typing import Any

import keras
from keras import ops

Tensor = Any

FORMS = ("questions", "pictures", "answers")


@keras.saving.register_keras_serializable(package="keras_attn")
class QuestionRows(keras.layers.Layer):
    """Arranges what belongs to the words of Q questions about each of B pictures.

    | form | from | to |
    |---|---|---|
    | `"questions"` | anything of words | `(B Q, T)`, or `(B Q, T, D)`: a row for each question |
    | `"pictures"` | anything of words | `(B, Q T)`, or `(B, Q T, D)`: a row for each picture |
    | `"answers"` | `(B Q, D)` | `(B, Q, D)` |

    Masking: masks are tensors of the words like others, and are arranged by a call of their own.
    The output has none.

    Args:
        form: One of the forms above.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: A tensor of one number for each word, or of D floats for each word or question.
        question_ids: Ids `(B, Q, T)`, for the sizes.

    Returns:
        `x` in the form.

    Raises:
        ValueError: If the form is unknown.

    Example:

    >>> ids = ops.reshape(ops.arange(12), (2, 3, 2))
    >>> tuple(QuestionRows("questions")(ids, ids).shape)
    (6, 2)
    >>> QuestionRows("pictures")(ids, ids)[1].numpy().tolist()
    [6, 7, 8, 9, 10, 11]
    """

    def __init__(self, form: str, **kwargs):
        super().__init__(**kwargs)
        if form not in FORMS:
            raise ValueError(f"`form` must be one of {list(FORMS)}. Received: {form!r}.")
        self.form = form
        self.supports_masking = True

    def call(self, x, question_ids):
        """Arranges."""
        _, Q, T = ops.shape(question_ids)
        sizes = {"questions": (T,), "pictures": (Q * T,), "answers": (Q,)}[self.form]
        floats = "float" in keras.backend.standardize_dtype(x.dtype)
        width = (x.shape[-1],) if floats else ()
        return ops.reshape(x, (-1, *sizes, *width))

    def compute_mask(self, x, previous_mask=None):
        """Returns None."""
        return None

    def compute_output_spec(self, x, question_ids):
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
        """Returns the config."""
        return {**super().get_config(), "form": self.form}


def _times(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a * b


def same_question(question_ids: Tensor) -> Tensor:
    """Says which words of a picture's questions stand in one question.

    Args:
        question_ids: Ids `(B, Q, T)`.

    Returns:
        Booleans `(B, Q T, Q T)`.

    Example:

    >>> same_question(ops.ones((1, 2, 1), "int32")).numpy().tolist()
    [[[True, False], [False, True]]]
    """
    numbers = ops.cumsum(ops.ones_like(question_ids), axis=1)
    numbers = QuestionRows("pictures", name="question_numbers")(numbers, question_ids)
    return ops.equal(ops.expand_dims(numbers, 2), ops.expand_dims(numbers, 1))
