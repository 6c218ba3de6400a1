"""A pretrained model as it was read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from keras_attn.interop.search_settings import OwnTask
from keras_attn.models import BertConfig, GptConfig, T5Config, TransformerEncoderDecoderConfig
from keras_attn.text import BytePairTokenizer, SentencePieceTokenizer, WordPieceTokenizer

PretrainedTokenizer = WordPieceTokenizer | BytePairTokenizer | SentencePieceTokenizer
"""The tokenizers that pretrained models have."""


class Pretrained(NamedTuple):
    """The contents of pretrained files: settings, tokenizer and weights.

    Example:

    >>> config = BertConfig(50, dim=16, num_layers=1, num_heads=2, intermediate_dim=32)
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "model"
    >>> save_pretrained(folder, config.build(), config)
    >>> found = read_pretrained(folder)
    >>> found.config == config, found.heads, found.tokenizer, len(found.tensors)
    (True, (), None, 19)
    """

    config: BertConfig | GptConfig | T5Config | TransformerEncoderDecoderConfig
    """Settings of the model."""
    tokenizer: PretrainedTokenizer | None
    """The tokenizer, or the tokenizer of the sources if there are two; None if there is none."""
    tensors: dict[str, np.ndarray]
    """The weights, keyed by the names of `keras_attn.models.tensors.load_tensors`."""
    heads: tuple[str, ...]
    """Names from `keras_attn.models.HEADS` of the heads whose weights the file has."""
    labels: list[str] | None
    """Names of the classes of the head; None if there are none."""
    unused: list[str]
    """Names of the file's tensors for which the model has no weight."""
    target_tokenizer: PretrainedTokenizer | None = None
    """The tokenizer of the targets, if an encoder-decoder has two tokenizers."""
    search: Mapping[str, Any] = {}
    """The search settings in the folder of an encoder-decoder, such as `beams`."""
    source_ends: bool = True
    """Whether the sources of an encoder-decoder end in the end token; False for most models of
    OpenNMT."""
    tasks: Mapping[str, OwnTask] = {}
    """The settings of each task of an encoder-decoder that learned several tasks, keyed by task."""
