"""Ranking of sequences in beam search, and its stopping rules."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from keras import ops

from keras_attn.generation.numbers import is_tensor, of_rows
from keras_attn.hints import Size, Tensor

PENALTY_KINDS = ("gnmt", "power")
"""The kinds of length penalties."""
EARLY_STOPPING = (None, True, False, "never")
"""The values of `early_stopping`."""
EarlyStopping: TypeAlias = bool | Literal["never"] | None


def length_penalty(lengths: Size, alpha: float | Tensor, kind: str = "gnmt") -> Tensor:
    """Computes the length penalty, by which beam search divides log-probabilities of sequences.

        gnmt:  ((5 + n) / 6) ** alpha
        power: n ** alpha

    `kind="gnmt"` is the penalty of GNMT (Wu et al., 2016). transformers (`length_penalty`) and
    CTranslate2 use `kind="power"`.

    References:
        - [Wu et al., 2016](https://arxiv.org/abs/1609.08144): equation 14.

    Args:
        lengths: Numbers n of tokens of the sequences, including the end token: an integer, or a
            tensor of any shape.
        alpha: Exponent, a number or a tensor that can be broadcast with `lengths`. 0 has no effect;
            positive values favor longer sequences, and negative values shorter sequences.
        kind: `"gnmt"` or `"power"`.

    Returns:
        A float32 tensor of the broadcast shape of `lengths` and `alpha`.

    Raises:
        ValueError: If the kind is unknown.

    Example:

    >>> float(length_penalty(ops.array(1), 0.6)), float(length_penalty(ops.array(7), 1.0))
    (1.0, 2.0)
    >>> float(length_penalty(ops.array(7), 2.0, kind="power"))
    49.0
    """
    check_ranking(kind, None)
    alpha = ops.cast(alpha, "float32") if is_tensor(alpha) else float(alpha)
    n = ops.cast(lengths, "float32")
    return ops.power((5.0 + n) / 6.0 if kind == "gnmt" else n, alpha)


def check_ranking(length_penalty_kind: object, early_stopping: object) -> None:
    """Raises a ValueError for an unknown kind of length penalty or early stopping."""
    if length_penalty_kind not in PENALTY_KINDS:
        raise ValueError(
            f"`length_penalty_kind` must be one of {', '.join(map(repr, PENALTY_KINDS))}. "
            f"Received: {length_penalty_kind!r}."
        )
    if not (early_stopping == "never" or early_stopping is None or early_stopping in (True, False)):
        raise ValueError(
            f"`early_stopping` must be one of {', '.join(map(repr, EARLY_STOPPING))}. "
            f"Received: {early_stopping!r}."
        )


class Ranking(NamedTuple):
    """Settings for ranking sequences by their log-probability divided by the length penalty."""

    alpha: float | Tensor
    """The exponent of the length penalty: a number, or a tensor `(B, 1)`."""
    kind: str = "gnmt"
    given: int | Tensor = 0
    """Number of tokens in each sequence's given beginning, which do not count, int32 `(B, 1)`."""

    @classmethod
    def of(cls, alpha: float | Tensor, kind: str, given: int | Tensor) -> Ranking:
        """Creates a `Ranking` from its settings; `alpha` may be a tensor `(B,)`."""
        return cls(of_rows("alpha", alpha), kind, given)

    def penalty(self, lengths: Size) -> Tensor:
        """Returns the length penalties for lengths `(B, n)`, or for a single length.

        The `given` first tokens are not counted.
        """
        counted = ops.maximum(lengths - self.given, 1)
        return length_penalty(counted, self.alpha, self.kind)
