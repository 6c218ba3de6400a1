"""End-to-end memory networks: questions about stories, by repeated attention to sentences."""

from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from keras_attn.hints import DType, Shape, Tensor
from keras_attn.layers import (
    LearnedPositionalEncoding,
    LuongAttention,
    MaskedAveragePooling,
    TokenEmbedding,
)
from keras_attn.settings import Settings, setting, size

MEMORY_ATTENTIONS = ("dot", "linear", "uniform")
_DEVIATION = 0.1  # of all tables, as in the paper


@keras.saving.register_keras_serializable(package="keras_attn")
class PositionWeightedSum(keras.layers.Layer):
    """Sums the word embeddings of a sentence, weighted by position (Sukhbaatar et al., 2015).

        output[k] = sum_j l[j, k] x[j, k],  l[j, k] = (1 - j/J) - (k/D) (1 - 2 j/J)     (..., D)

    J is the number of words of the sentence, j = 1 ... J and k = 1 ... D. Unlike a plain sum, the
    result depends on the order of the words. The layer has no weights of its own.

    Shapes: x `(..., T, D)` and ids `(..., T)` to `(..., D)`.

    Masking: id 0 is padding. A sentence without words gives zeros.
    """

    def call(self, x: Tensor, ids: Tensor) -> Tensor:
        """Computes the weighted sum of the word embeddings, `(..., D)`."""
        D = x.shape[-1]
        real = ops.cast(ops.not_equal(ids, 0), "float32")
        length = ops.maximum(ops.sum(real, axis=-1, keepdims=True), 1.0)
        place = ops.cumsum(real, axis=-1) / length  # j / J
        # The weights are linear in k, so two sums over the words are enough.
        weights = ops.stack([(1 - place) * real, (1 - 2 * place) * real], axis=-2)  # (..., 2, T)
        sums = ops.matmul(ops.cast(weights, x.dtype), x)  # (..., 2, D)
        feature = ops.arange(1, D + 1, dtype="float32") / D
        return sums[..., 0, :] - ops.cast(feature, x.dtype) * sums[..., 1, :]

    def compute_output_shape(self, x_shape: Shape, ids_shape: Shape) -> tuple[int | None, ...]:
        """Returns the shape `(..., D)` of the sums."""
        return (*x_shape[:-2], x_shape[-1])


@keras.saving.register_keras_serializable(package="keras_attn")
class LinearMemory(keras.layers.Layer):
    """Attention without a softmax, for the first part of training a memory network.

    context[t] = sum_s value_mask[s] (query[t] . key[s]) value[s]       (B, T, Dv)
    """

    def call(self, query: Tensor, value: Tensor, key: Tensor, value_mask: Tensor) -> Tensor:
        """Computes the sums `(B, T, Dv)` of the values, weighted by their scores."""
        scores = ops.matmul(query, ops.transpose(key, (0, 2, 1)))  # (B, T, S)
        scores = scores * ops.cast(ops.expand_dims(value_mask, 1), scores.dtype)
        return ops.matmul(scores, value)


@dataclass(frozen=True)
class MemoryNetworkConfig(Settings):
    """Settings of an end-to-end memory network (Sukhbaatar et al., 2015).

        memory_k[s] = sum_j l[j] E_k[story[s, j]] + T_k[age of s]       k = 0 ... K   (B, S, D)
        u_0         = sum_j l[j] E_0[question[j]]                                     (B, D)
        weights_k   = softmax_s(u_(k-1) . memory_(k-1)[s])              k = 1 ... K   (B, S)
        u_k         = u_(k-1) + sum_s weights_k[s] memory_k[s]                        (B, D)
        logits      = u_K E_K^T                                                       (B, V)

    `story[s, j]` is word j of sentence s, E_k and T_k are learned tables of words and ages, and the
    softmax is over the sentences.

    Each of the K hops reads the story once. The query of a hop depends on the sentences that
    earlier hops attended to, so that the model can follow a chain of facts. Weights are tied
    between adjacent hops: the values of one hop are the keys of the next, the question has the same
    embedding as the first keys, and the answer has the same embedding as the last values.
    `PositionWeightedSum` defines the weights l. The age of the last sentence is 0, and sentences
    with an age of at least `memory_size` are ignored.

    Masking: id 0 is padding, for words and for whole sentences. The logits of a story without
    sentences depend on the question only.

    Training with a softmax from the start often ends in a local minimum, which the paper's "linear
    start" avoids: first train a model with `attention="linear"`, and then copy its weights to a
    model with `attention="dot"`: `model.set_weights(linear.get_weights())`.

    With `attention="dot"`, `keras_attn.attention_maps` returns the weights `(B, 1, S)` of the
    layers `hop_1` ... `hop_K`.

    References:
        - [Sukhbaatar et al., 2015](https://arxiv.org/abs/1503.08895): End-to-end memory networks.

    Args:
        vocabulary_size: Number V of words; id 0 is padding.
        dim: Width D of the memories.
        num_hops: Number K of hops.
        memory_size: Maximum number of sentences that are remembered.
        attention: `"dot"`; `"linear"`, dot-product attention without the softmax; or `"uniform"`, a
            baseline that weights all sentences equally.

    Raises:
        TypeError: If a setting is unknown or has the wrong type.
        ValueError: If a setting is out of range or not one of its choices.

    Example:

    >>> model = MemoryNetworkConfig(50, dim=8).build()
    >>> story, question = ops.array([[[5, 6, 7], [8, 9, 0], [0, 0, 0]]]), ops.array([[3, 5]])
    >>> inputs = {"story_ids": story, "question_ids": question}
    >>> tuple(model(inputs).shape)
    (1, 50)
    >>> [weights.shape for weights in attention_maps(model, inputs).select(path="hop")]
    [(1, 1, 3), (1, 1, 3), (1, 1, 3)]
    """

    vocabulary_size: int = size("number of words")
    dim: int = setting(32, "width of the memories", at_least=1)
    num_hops: int = setting(3, "number of hops, in each of which the story is read", at_least=1)
    memory_size: int = setting(50, "maximum number of sentences remembered", at_least=1)
    attention: str = setting("dot", "how sentences are weighted", choices=MEMORY_ATTENTIONS)

    def build(self, dtype: DType = None, name: str = "memory_network") -> keras.Model:
        """Builds the Keras model that these settings describe, with random weights.

        Args:
            dtype: Dtype or policy of the layers, such as `"mixed_bfloat16"`.
            name: Name of the model.

        Returns:
            A functional model from `{"story_ids": (B, S, T), "question_ids": (B, Q)}`, 0 for
            padding, to logits `(B, V)`. The sentences are in the order of the story.
        """
        own: dict[str, Any] = {"dtype": dtype}
        story = keras.Input((None, None), dtype="int32", name="story_ids")
        question = keras.Input((None,), dtype="int32", name="question_ids")
        sentences = ops.any(ops.not_equal(story, 0), axis=-1)  # (B, S)
        count = ops.cast(sentences, "int32")
        ages = ops.sum(count, axis=1, keepdims=True) - ops.cumsum(count, axis=1)
        visible = ops.logical_and(sentences, ages < self.memory_size)
        ages = ops.minimum(ages, self.memory_size - 1)

        tables, memories = [], []
        normal = keras.initializers.RandomNormal(stddev=_DEVIATION)
        encode = PositionWeightedSum(name="sentence", **own)
        for k in range(self.num_hops + 1):
            table = TokenEmbedding(
                self.vocabulary_size,
                self.dim,
                scale=False,
                mask_zero=False,
                embeddings_initializer=normal.clone(),
                name=f"embedding_{k}",
                **own,
            )
            time = LearnedPositionalEncoding(
                self.memory_size, embeddings_initializer=normal.clone(), name=f"time_{k}", **own
            )
            memories.append(time(encode(table(story), story), positions=ages))
            tables.append(table)
        u = encode(tables[0](question), question)
        for k in range(1, self.num_hops + 1):
            if self.attention == "uniform":
                pool = MaskedAveragePooling(name=f"hop_{k}", **own)
                u = _sum(u, pool(memories[k], mask=visible))
                continue
            if self.attention == "linear":
                attend: Any = LinearMemory(name=f"hop_{k}", **own)
            else:
                attend = LuongAttention(score="dot", name=f"hop_{k}", **own)
            query = ops.expand_dims(u, 1)  # (B, 1, D)
            context = attend(query, value=memories[k], key=memories[k - 1], value_mask=visible)
            u = _sum(u, ops.squeeze(context, 1))
        logits = tables[-1](u, reverse=True)
        return keras.Model({"story_ids": story, "question_ids": question}, logits, name=name)


def _sum(a: Tensor, b: Tensor) -> Tensor:
    """`a + b`, which Keras cannot add on TensorFlow if both are a batch without rows."""
    return ops.sum(ops.stack([a, b]), axis=0)
