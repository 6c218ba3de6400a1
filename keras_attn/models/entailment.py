"""Recurrent classifiers of pairs of texts, such as a premise and a hypothesis."""

from dataclasses import dataclass
from typing import Any

import keras

from keras_attn.hints import DType, Tensor
from keras_attn.layers import (
    AdditiveAttention,
    AttentionDecoder,
    Dropout,
    LuongAttention,
    TokenEmbedding,
    WordByWordAttention,
)
from keras_attn.models.roles import PAIR_CLASSIFIERS
from keras_attn.settings import Settings, setting, size

_SHARPNESS = 10.0  # a word finds itself among ten others with a weight of almost 1
PAIR_ATTENTIONS = ("none", "last", "word_by_word", "matching")


@PAIR_CLASSIFIERS.register("lstm")
@dataclass(frozen=True)
class EntailmentConfig(Settings):
    """Settings of recurrent entailment classifiers (Rocktäschel et al., 2016).

        Y      = LSTM(premise)                                   (B, S, U)
        h      = second LSTM(hypothesis), starting from the final cell state of the first (B, T, U)

        attention logits
        none         h[T] W + b
        last         tanh(r Wp + h[T] Wx) W + b, with r the attention of h[T] over Y
        word_by_word the same, with r[T] of `WordByWordAttention(h, Y)`

        matching     h[T] W + b, where the second LSTM reads, in place of each word x[t],
                     [x[t]; a[t]; x[t] - a[t]; x[t] a[t]], with a the attention of x over the
                     words of the premise, whose scores are their cosines times 10

    S and T are the numbers of words of premise and hypothesis, and W, b, Wp and Wx are weights.

    `attention="none"`, `"last"` and `"word_by_word"` are from the paper. The additive scores of the
    paper have to learn that a word matches itself, and a word of the hypothesis is compared with
    the premise only in the output layer. This takes many training pairs. `attention="matching"`
    compares each word directly with the words that it attends to, similar to Wang and Jiang, 2016,
    and needs only a few thousand pairs.

    Unless `projection_dim=0`, both LSTMs read word embeddings through the same linear projection.
    The second LSTM reads only the hypothesis, without the delimiter that precedes it in the paper.
    Padding is id 0, and may be on either side.

    References:
        - [Rocktäschel et al., 2016](https://arxiv.org/abs/1509.06664): Reasoning about entailment
          with neural attention.
        - [Wang and Jiang, 2016](https://arxiv.org/abs/1512.08849): Learning natural language
          inference with LSTM.

    Args:
        vocabulary_size: Number of tokens; id 0 is padding.
        num_classes: Number C of classes.
        attention: `"none"`, `"last"`, `"word_by_word"` or `"matching"`.
        dim: Width of the embeddings.
        units: Width U of the states, and of the hidden layers of the attention.
        projection_dim: Width to which the embeddings are projected; 0 for no projection.
        dropout: Dropout rate of the inputs of the LSTMs and of the head.
        word_dropout: Fraction of the words that are left out in training.

    Raises:
        TypeError: If a setting is unknown or has the wrong type.
        ValueError: If a setting is out of range or not one of its choices.

    Example:

    >>> model = EntailmentConfig(50, num_classes=3, dim=8, units=16, projection_dim=8).build()
    >>> ids = keras.ops.array([[5, 6, 2, 0]])
    >>> tuple(model({"premise_ids": ids, "hypothesis_ids": ids[:, :2]}).shape)
    (1, 3)
    """

    vocabulary_size: int = size("number of tokens")
    num_classes: int = size("number of classes")
    attention: str = setting(
        "word_by_word",
        "which states, or words, of the hypothesis attend to the premise",
        choices=PAIR_ATTENTIONS,
    )
    dim: int = setting(50, "width of the embeddings", at_least=1)
    units: int = setting(100, "width of the states and of the attention", at_least=1)
    projection_dim: int = setting(
        100, "width that the embeddings are projected to; 0 does not project", at_least=0
    )
    dropout: float = setting(
        0.2, "dropout of the inputs of the networks and of the output", at_least=0, below=1
    )
    word_dropout: float = setting(
        0.0, "share of the words that are left out in training", at_least=0, below=1
    )

    recurrent = True

    def build(self, dtype: DType = None, name: str | None = None) -> keras.Model:
        """Builds the Keras model that these settings describe, with random weights.

        Args:
            dtype: Dtype or policy of the layers, such as `"mixed_bfloat16"`.
            name: Name of the model.

        Returns:
            A functional model from `{"premise_ids": (B, S), "hypothesis_ids": (B, T)}`, 0 for
            padding, to logits `(B, C)`.
        """
        own: dict[str, Any] = {"dtype": dtype}
        embedding = TokenEmbedding(
            self.vocabulary_size, self.dim, scale=False, mask_zero=False, name="embedding", **own
        )
        layers: list[keras.layers.Layer] = [embedding]
        if self.word_dropout:
            layers.append(
                keras.layers.Dropout(self.word_dropout, (None, None, 1), name="word_dropout", **own)
            )
        if self.projection_dim:
            layers.append(keras.layers.Dense(self.projection_dim, name="projection", **own))
        layers.append(Dropout(self.dropout, name="input_dropout", **own))

        inputs, embedded, masks = [], [], []
        for side in ("premise", "hypothesis"):
            ids = keras.Input((None,), dtype="int32", name=f"{side}_ids")
            x = ids
            for layer in layers:
                x = layer(x)
            inputs.append(ids)
            embedded.append(x)
            masks.append(keras.ops.not_equal(ids, 0))

        premise, (_, cell) = self._lstm("premise", own)(
            embedded[0], padding_mask=masks[0], return_state=True
        )
        if self.attention == "matching":
            x = embedded[1]
            attend = LuongAttention(score="dot", name="attention", **own)
            found = attend(
                _SHARPNESS * _unit(x),
                embedded[0],
                key=_unit(embedded[0]),
                query_mask=masks[1],
                value_mask=masks[0],
                key_mask=masks[0],
            )
            embedded[1] = keras.ops.concatenate([x, found, x - found, x * found], axis=-1)
        hypothesis, (last, _) = self._lstm("hypothesis", own)(
            embedded[1],
            padding_mask=masks[1],
            initial_state=[keras.ops.zeros_like(cell), cell],
            return_state=True,
        )
        x = last
        if self.attention in ("last", "word_by_word"):
            if self.attention == "last":
                attend = AdditiveAttention(self.units, name="attention", **own)
                query = keras.ops.expand_dims(last, 1)
                r = keras.ops.squeeze(attend(query, premise, value_mask=masks[0]), 1)
            else:
                attend = WordByWordAttention(self.units, name="attention", **own)
                _, r = attend(
                    hypothesis,
                    premise,
                    query_mask=masks[1],
                    value_mask=masks[0],
                    return_state=True,
                )
            both = keras.ops.concatenate([r, last], axis=-1)
            x = keras.layers.Dense(self.units, "tanh", use_bias=False, name="combination", **own)(
                both
            )
        x = Dropout(self.dropout, name="head_dropout", **own)(x)
        logits = keras.layers.Dense(self.num_classes, name="head", **own)(x)
        names = ("premise_ids", "hypothesis_ids")
        return keras.Model(
            dict(zip(names, inputs, strict=True)), logits, name=name or "lstm_pair_classifier"
        )

    def _lstm(self, name: str, own: dict[str, Any]) -> AttentionDecoder:
        cell = keras.layers.LSTMCell(self.units, name="cell", **own)
        return AttentionDecoder(cell, name=name, **own)


def _unit(x: Tensor) -> Tensor:
    """Scales vectors to length 1, with finite gradients for zero vectors."""
    x = keras.ops.cast(x, "float32")
    squares = keras.ops.sum(keras.ops.square(x), axis=-1, keepdims=True)
    return x * keras.ops.rsqrt(squares + 1e-6)
