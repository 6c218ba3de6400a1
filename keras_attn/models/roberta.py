"""RoBERTa: BERT's encoder with positions that skip padding (Liu et al., 2019)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from keras_attn.models.bert import BertConfig
from keras_attn.models.bert_classifier import BertClassifierConfig
from keras_attn.models.roles import ENCODERS, TEXT_CLASSIFIERS
from keras_attn.settings import setting, size


@ENCODERS.register("roberta")
@dataclass(frozen=True)
class RobertaConfig(BertConfig):
    """Settings of RoBERTa, a text encoder (Liu et al., 2019).

        x         = dropout(norm(E[ids] + S[0] + P[positions]))                    (B, T, D)
        positions = F - 1 + mask * cumsum(mask)     F, F + 1, ... for tokens, F - 1 for padding
        sequence  = block_N(... block_1(x))                                        (B, T, D)
        pooled    = activation(sequence[:, 0] W + b)                               (B, D)

    E, S and P are the tables of tokens, segments and positions, N is the number of blocks, and W
    and b are the weights of the pooler. The blocks are the same as in `BertConfig`. All tokens have
    the same segment. A pair of texts has two end tokens between its texts, `<s> first </s></s>
    second </s>`. The head for masked words always has the activation `"gelu"`, even if the blocks
    have another activation.

    Args:
        vocabulary_size: Number V of tokens.
        num_segments: Number of rows of the table S, of which only the first is used; None for no
            table.
        first_position: Position F of the first token, which is the id of padding plus 1.
        **kwargs: All other arguments of `BertConfig`.

    Raises:
        TypeError: If a setting is unknown or has the wrong type.
        ValueError: If a setting is out of range or not one of its choices, or the heads do not
            divide the width.

    References:
        - [Liu et al., 2019](https://arxiv.org/abs/1907.11692): RoBERTa.

    Example:

    >>> model = RobertaConfig(50, dim=16, num_layers=1, num_heads=2, intermediate_dim=32).build()
    >>> ids = keras.ops.array([[1, 0, 9, 2]])
    >>> found = model({"token_ids": ids, "padding_mask": ids != 1})
    >>> {name: tuple(x.shape) for name, x in found.items()}
    {'sequence': (1, 4, 16), 'pooled': (1, 16)}
    """

    _: KW_ONLY
    layer_norm_epsilon: float = setting(1e-5, "epsilon of the norms", above=0)
    num_segments: int | None = size("number of segments", default=1, optional=True)
    first_position: int = size("position of the first token", default=2)

    ends_between = 2
    reads_segments = False
    head_activation = "gelu"


@TEXT_CLASSIFIERS.register("roberta")
@dataclass(frozen=True)
class RobertaClassifierConfig(RobertaConfig, BertClassifierConfig):
    """Settings of a text classifier with RoBERTa as its encoder (Liu et al., 2019).

        sequence = encoder(<s> text </s>)                          (B, T, D)
        sequence = encoder(<s> text </s></s> second </s>)          of pairs
        logits   = dropout(pool(sequence)) W + b                   (B, C)

    W and b are the weights of the output layer. The layers have the same names as in
    `RobertaConfig`, so that the weights of an encoder can be loaded.

    Args:
        vocabulary_size: Number V of tokens.
        num_classes: Number C of classes.
        first_position: Position of the first token, which is the id of padding plus 1.
        **kwargs: All other arguments of `RobertaConfig` and of `BertClassifierConfig`, except
            `separator_id`.

    Raises:
        TypeError: If a setting is unknown or has the wrong type.
        ValueError: If a setting is out of range or not one of its choices, the heads do not divide
            the width, or `separator_id` is given.

    Example:

    >>> config = RobertaClassifierConfig(50, 3, dim=16, num_heads=2, intermediate_dim=32)
    >>> tuple(config.build()(keras.ops.array([[0, 9, 2, 1]])).shape)
    (1, 3)
    """
