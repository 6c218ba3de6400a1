"""Skip-gram and CBOW, the models of word2vec."""

from dataclasses import dataclass
from typing import Any, ClassVar

import keras
from keras import ops

from keras_attn.hints import DType
from keras_attn.models.roles import WORD_MODELS
from keras_attn.settings import Settings, setting, size


@WORD_MODELS.register("skip-gram")
@dataclass(frozen=True)
class SkipGramConfig(Settings):
    """Settings of skip-gram (Mikolov et al., 2013), in which a word predicts its context words.

        logits[w, c] = E[w] . O[c]                           (B, P, C)

    E is the table of word vectors, and O the table of context vectors; w and c are a word and a
    context word. A row has P words and C context words.

    References:
        - [Mikolov et al., 2013](https://arxiv.org/abs/1310.4546).

    Args:
        vocabulary_size: Number V of words.
        dim: Width D of the vectors.

    Raises:
        TypeError: If a setting is unknown or has the wrong type.
        ValueError: If a setting is out of range.

    Example:

    >>> model = SkipGramConfig(50, dim=8).build()
    >>> words, others = ops.array([[4, 5]]), ops.array([[5, 4, 9]])
    >>> tuple(model({"word_ids": words, "context_ids": others}).shape)
    (1, 2, 3)
    """

    vocabulary_size: int = size("number of words")
    dim: int = setting(100, "width of the vectors", at_least=1)

    cbow: ClassVar[bool] = False
    learning_rate: ClassVar[float] = 0.025

    def build(self, dtype: DType = None, name: str = "skip_gram") -> keras.Model:
        """Builds the Keras model that these settings describe, with random weights.

        Args:
            dtype: Dtype or policy of the layers.
            name: Name of the model.

        Returns:
            A functional model from `{"word_ids": (B, P), "context_ids": (B, C)}` to logits
            `(B, P, C)`, with the layers `embedding` and `context`.
        """
        inputs = {key: _ids(key) for key in ("word_ids", "context_ids")}
        embedding, context = _tables(self, dtype)
        words, others = embedding(inputs["word_ids"]), context(inputs["context_ids"])
        return keras.Model(inputs, ops.einsum("bpd,bcd->bpc", words, others), name=name)


@WORD_MODELS.register("cbow")
@dataclass(frozen=True)
class CbowConfig(Settings):
    """Settings of CBOW (Mikolov et al., 2013), in which context words predict a word.

        h[p]         = sum_c weight[p, c] E[c]               (B, P, D)
        logits[p, w] = h[p] . O[w]                           (B, P, N)

    E is the table of word vectors, and O has a vector of each word w as a predicted word. P is the
    number of places p, C the number of context words, whose weights `weight[p, c]` are an input,
    and N the number of words that are scored at each place.

    With weights 1/n, h is the mean of n word vectors. The gradient of each vector also has the
    factor 1/n, which the word2vec program leaves out. Therefore, the learning rate must be larger
    than in that program (Irsoy et al., 2021).

    References:
        - [Mikolov et al., 2013](https://arxiv.org/abs/1301.3781).
        - [Irsoy et al., 2021](https://arxiv.org/abs/2012.15332): the gradient of the mean.

    Args:
        vocabulary_size: Number V of words.
        dim: Width D of the vectors.

    Raises:
        TypeError: If a setting is unknown or has the wrong type.
        ValueError: If a setting is out of range.

    Example:

    >>> model = CbowConfig(50, dim=8).build()
    >>> around, weights = ops.array([[4, 6]]), ops.array([[[0.5, 0.5]]])
    >>> inputs = {"context_ids": around, "context_weights": weights}
    >>> tuple(model({**inputs, "word_ids": ops.array([[5, 9, 8]])}).shape)
    (1, 1, 3)
    """

    vocabulary_size: int = size("number of words")
    dim: int = setting(100, "width of the vectors", at_least=1)

    cbow: ClassVar[bool] = True
    learning_rate: ClassVar[float] = 0.075

    def build(self, dtype: DType = None, name: str = "cbow") -> keras.Model:
        """Builds the Keras model that these settings describe, with random weights.

        Args:
            dtype: Dtype or policy of the layers.
            name: Name of the model.

        Returns:
            A functional model from `{"context_ids": (B, C), "context_weights": (B, P, C),
            "word_ids": (B, N)}` to logits `(B, P, N)`, with the layers `embedding` and `context`.
        """
        inputs = {
            "context_ids": _ids("context_ids"),
            "context_weights": keras.Input((None, None), name="context_weights"),
            "word_ids": _ids("word_ids"),
        }
        embedding, context = _tables(self, dtype)
        around, words = embedding(inputs["context_ids"]), context(inputs["word_ids"])
        h = ops.einsum("bpc,bcd->bpd", inputs["context_weights"], around)
        return keras.Model(inputs, ops.einsum("bpd,bnd->bpn", h, words), name=name)


def _ids(name: str) -> Any:
    return keras.Input((None,), dtype="int32", name=name)


def _tables(config: Any, dtype: DType) -> tuple[keras.layers.Embedding, keras.layers.Embedding]:
    """The table of word vectors, small and random, and the table of context vectors, zeros."""
    reach = 0.5 / config.dim
    start = keras.initializers.RandomUniform(-reach, reach)
    sizes = (config.vocabulary_size, config.dim)
    embedding = keras.layers.Embedding(*sizes, start, dtype=dtype, name="embedding")
    return embedding, keras.layers.Embedding(*sizes, "zeros", dtype=dtype, name="context")
