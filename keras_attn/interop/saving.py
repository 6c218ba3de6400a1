"""Writing models to folders that `transformers` loads."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, cast

import keras
import numpy as np

from keras_attn.files import atomic_folder
from keras_attn.interop.bert_settings import DISTILBERT_EPSILON, bert_config_file, encoder_kind
from keras_attn.interop.bert_weights import NAMES, encoder_weights, part_weights, pooler_part
from keras_attn.interop.byte_pair_files import write_byte_pairs
from keras_attn.interop.gpt_settings import gpt_config_file, gpt_kind
from keras_attn.interop.gpt_weights import HEAD, PREFIXES, decoder_weights, head_weight
from keras_attn.interop.marian_files import save_marian
from keras_attn.interop.matching import decoder_tensors, encoder_tensors
from keras_attn.interop.modern_bert_settings import KIND as MODERN_BERT
from keras_attn.interop.pretrained_model import PretrainedTokenizer
from keras_attn.interop.sentence_folders import SentenceSettings, write_sentence_settings
from keras_attn.interop.sentence_piece_files import write_sentence_pieces
from keras_attn.interop.t5_files import save_t5
from keras_attn.interop.tensor_files import WEIGHTS
from keras_attn.interop.tokenizer_files import write_tokenizer
from keras_attn.interop.weights import check_shapes
from keras_attn.models import (
    HEADS,
    BertConfig,
    GptConfig,
    ModernBertConfig,
    T5Config,
    TransformerEncoderDecoderConfig,
)
from keras_attn.models.tensors import to_bytes
from keras_attn.text import BytePairTokenizer, SentencePieceTokenizer, WordPieceTokenizer
from keras_attn.text.registry import PieceTokenizer
from keras_attn.text.tokenizer import Tokenizer
from keras_attn.text.words import WordTokenizer

_ENDS = {
    (): "Model",
    ("classes",): "ForSequenceClassification",
    ("tags",): "ForTokenClassification",
    ("spans",): "ForQuestionAnswering",
    ("masked_words",): "ForMaskedLM",
    ("next_sentence",): "ForNextSentencePrediction",
    ("masked_words", "next_sentence"): "ForPreTraining",
}
_TOKENIZERS = {"roberta": BytePairTokenizer, MODERN_BERT: BytePairTokenizer}
_STARTS = {
    "bert": "Bert", "distilbert": "DistilBert", "roberta": "Roberta", MODERN_BERT: "ModernBert",
}  # fmt: skip


def save_pretrained(
    folder: str | os.PathLike[str],
    model: keras.Model,
    config: BertConfig | GptConfig | T5Config | TransformerEncoderDecoderConfig,
    tokenizer: PretrainedTokenizer | WordTokenizer | None = None,
    labels: Sequence[str] | None = None,
    sentences: SentenceSettings | None = None,
) -> None:
    """Writes a model to a folder, for `from_pretrained` of transformers and `load_pretrained`.

    The class of transformers depends on the heads. Without heads, it is `BertModel`; with heads, it
    is `BertForSequenceClassification`, `BertForTokenClassification`, `BertForQuestionAnswering`,
    `BertForMaskedLM`, `BertForNextSentencePrediction`, or, for masked words and next sentences,
    `BertForPreTraining`. An encoder without segments is saved as DistilBERT (`DistilBertModel` and
    so on), a `RobertaConfig` as RoBERTa (as XLM-RoBERTa with a `SentencePieceTokenizer`), and a
    `ModernBertConfig` as ModernBERT. A decoder with learned positions is saved as
    `GPT2LMHeadModel`. A decoder with rotary positions is saved as `LlamaForCausalLM`,
    `Qwen3ForCausalLM`, `Gemma2ForCausalLM` or `Gemma3ForCausalLM`, depending on its norms. A T5 is
    saved as `T5ForConditionalGeneration`, and an encoder-decoder with the settings of Marian as
    `MarianMTModel`. Weights are written as float32. The folder is written atomically.

    Args:
        folder: The folder, which must be new or empty.
        model: A model built by `config.build`, `keras_attn.models.with_heads` or
            `keras_attn.models.BertClassifierConfig` with `pooling="first"`.
        config: The settings of the model.
        tokenizer: The tokenizer of the model; None to write no tokenizer. A `WordTokenizer` cannot
            be saved.
        labels: Names of the classes of the head `"classes"` or `"tags"`; `LABEL_0` and so on if
            None. Only for encoders.
        sentences: Pooling and other settings of text vectors, if sentence-transformers should also
            be able to load the folder; only for encoders.

    Raises:
        FileExistsError: If the folder is not empty.
        ImportError: If `tokenizer` is a `BytePairTokenizer`, and `tokenizers` is not installed.
        TypeError: If `model` is not a Keras model, `config` is not a supported config, or
            `tokenizer` has the wrong class for it.
        ValueError: If transformers has no class for the model, the model does not have the settings
            of `config`, or `labels`, `sentences` or `tokenizer` do not match the model.

    Example:

    >>> config = BertConfig(50, dim=16, num_layers=1, num_heads=2, intermediate_dim=32)
    >>> model = with_heads(config, ("classes",), num_classes=2)
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "model"
    >>> save_pretrained(folder, model, config, labels=["bad", "good"])
    >>> sorted(file.name for file in folder.iterdir()), read_pretrained(folder).labels
    (['config.json', 'model.safetensors'], ['bad', 'good'])
    """
    if sentences is not None and not isinstance(config, BertConfig):
        raise ValueError(f"`sentences` are only for encoders. Received: a {type(config).__name__}.")
    if labels is not None and isinstance(
        config, GptConfig | T5Config | TransformerEncoderDecoderConfig
    ):
        raise ValueError(
            "`labels` are only used with the heads 'classes' and 'tags'. Received: `labels` "
            f"for a {type(config).__name__}, which has no such head."
        )
    if isinstance(tokenizer, WordTokenizer):
        raise TypeError(
            "`tokenizer` must be a WordPieceTokenizer, a BytePairTokenizer or a "
            "SentencePieceTokenizer. Received: WordTokenizer."
        )
    if isinstance(config, T5Config):
        save_t5(folder, model, config, tokenizer)
        return
    if isinstance(config, TransformerEncoderDecoderConfig):
        save_marian(folder, model, config, tokenizer)
        return
    if isinstance(config, GptConfig):
        settings, tensors = _decoder(model, config, tokenizer)
    else:
        settings, tensors = _encoder(model, config, tokenizer, labels)
    length = getattr(config, "sequence_length", 512)
    with atomic_folder(folder) as partial:
        text = json.dumps(settings, indent=2) + "\n"
        (partial / "config.json").write_text(text, encoding="utf-8")
        (partial / WEIGHTS).write_bytes(to_bytes(tensors, format="pt"))
        if isinstance(tokenizer, WordPieceTokenizer):
            kind = settings["model_type"]
            write_tokenizer(partial, tokenizer, kind, length)
        elif isinstance(tokenizer, SentencePieceTokenizer):
            write_sentence_pieces(partial, tokenizer, settings["model_type"], length)
        elif tokenizer is not None:
            kind = settings["model_type"]
            write_byte_pairs(partial, tokenizer, length, kind)
        if sentences is not None and isinstance(config, BertConfig):
            write_sentence_settings(partial, sentences, config.dim)


def _encoder(
    model: keras.Model,
    config: BertConfig,
    tokenizer: PretrainedTokenizer | None,
    labels: Sequence[str] | None,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Returns the `config.json` of an encoder and its tensors."""
    tensors = encoder_tensors(model, config)
    kind = encoder_kind(config)
    heads = tuple(head for head in HEADS if f"{head}/kernel" in tensors)
    pooler = "pooler/kernel" in tensors
    _check(config, kind, heads, pooler)
    classifier = next((head for head in heads if head in ("classes", "tags")), None)
    num_classes = tensors[f"{classifier}/bias"].shape[0] if classifier else None
    labels = _checked_labels(labels, num_classes)
    fairseq = kind == "roberta" and isinstance(tokenizer, SentencePieceTokenizer)
    wanted = SentencePieceTokenizer if fairseq else _TOKENIZERS.get(kind, WordPieceTokenizer)
    _check_tokenizer(tokenizer, config, wanted)
    if isinstance(config, ModernBertConfig) and tokenizer and tokenizer.pad_id != config.pad_id:
        raise ValueError(
            f"Expected a tokenizer whose `pad_id` is {config.pad_id}, the padding id of the "
            f"model. Received: {tokenizer.pad_id}."
        )
    if (
        config.first_position is not None
        and kind == "roberta"
        and tokenizer is not None
        and tokenizer.pad_id != config.first_position - 1
    ):
        raise ValueError(
            "RoBERTa counts positions from the id of its padding: expected a tokenizer whose "
            f"`pad_id` is {config.first_position - 1}, one below the `first_position` of the "
            f"model. Received: {tokenizer.pad_id}."
        )
    weights = list(encoder_weights(config, kind))
    own = [pooler_part(kind, "classes" in heads)] if pooler else []
    for part in (*own, *heads):
        weights += part_weights(config, kind, part, num_classes)
    check_shapes(weights, tensors, f"{_STARTS[kind]}{_ENDS[heads]}")
    prefix = NAMES[kind].prefix if heads else ""
    inside = own == ["pooler"] and kind not in ("distilbert", MODERN_BERT)
    encoder = ("embedding/", "encoder/", *(["pooler/"] if inside else []))
    written = {}
    for weight in weights:
        inside = weight.ours.startswith(encoder) and weight.theirs[0] != NAMES[kind].bias
        for name, array in zip(weight.theirs, weight.split(tensors[weight.ours]), strict=True):
            written[f"{prefix if inside else ''}{name}"] = array
    settings = bert_config_file(config, kind, f"{_STARTS[kind]}{_ENDS[heads]}", labels)
    if fairseq:
        settings["model_type"] = "xlm-roberta"
        settings["architectures"] = [f"XLM{name}" for name in settings["architectures"]]
    return settings, written


def _decoder(
    model: keras.Model, config: GptConfig, tokenizer: PretrainedTokenizer | None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Returns the `config.json` of a decoder and its tensors."""
    kind = gpt_kind(config)
    tensors = decoder_tensors(model, config)
    pieces = isinstance(tokenizer, SentencePieceTokenizer) and kind == "llama"
    _check_tokenizer(tokenizer, config, SentencePieceTokenizer if pieces else BytePairTokenizer)
    ids: tuple[Any, ...] = ()
    if isinstance(tokenizer, PieceTokenizer):
        end, *others = tokenizer.end_ids
        ids = tokenizer.start_id, [end, *others] if others else end
    settings = gpt_config_file(config, *ids)
    weights = list(decoder_weights(config, kind))
    if not config.tie_embeddings:
        weights.append(head_weight(config))
    check_shapes(weights, tensors, settings["architectures"][0])
    written = {}
    for weight in weights:
        for name, array in zip(weight.theirs, weight.split(tensors[weight.ours]), strict=True):
            written[name if name == HEAD else f"{PREFIXES[kind]}{name}"] = array
    return settings, written


def _check(config: BertConfig, kind: str, heads: tuple[str, ...], pooler: bool) -> None:
    """Refuses what transformers has no class for."""
    if heads not in _ENDS or (kind != "bert" and "next_sentence" in heads):
        raise ValueError(
            f"transformers has no {_STARTS[kind]} with these heads. Received: {list(heads)}. "
            f"Expected one of {[list(known) for known in _ENDS]}"
            + (", without 'next_sentence'." if kind != "bert" else ".")
        )
    if kind == MODERN_BERT:
        wanted = "gelu" if {"classes", "tags", "spans"} & set(heads) else None
        received = config.pooler_activation if pooler else None
        if received != wanted:
            raise ValueError(
                "A ModernBert has a pooler only under the heads 'classes', 'tags' and 'spans', and "
                f"its activation is 'gelu'. Received: pooler_activation={received!r} with heads="
                f"{list(heads)}. Build the model with pooler_activation={wanted!r}."
            )
        return
    if kind != "distilbert" and pooler and config.pooler_activation != "tanh":
        raise ValueError(
            f"The pooler of a {_STARTS[kind]} has the activation 'tanh'. Received: "
            f"pooler_activation={config.pooler_activation!r}."
        )
    if kind == "roberta" and config.num_segments is None:
        raise ValueError(
            "RoBERTa has segment embeddings. Received: num_segments=None. Build the model "
            "with num_segments=1."
        )
    if kind != "distilbert":
        if "classes" in heads and not pooler:
            raise ValueError("BERT's classifier has a pooler. Received: a model without a pooler.")
        return
    if config.layer_norm_epsilon != DISTILBERT_EPSILON:
        raise ValueError(
            f"`layer_norm_epsilon` of an encoder without segments (DistilBERT) must be "
            f"{DISTILBERT_EPSILON}. Received: {config.layer_norm_epsilon}."
        )
    wanted = "relu" if "classes" in heads else None
    received = config.pooler_activation if pooler else None
    if received != wanted:
        raise ValueError(
            "A DistilBERT, an encoder without segments, has a pooler only under the head 'classes',"
            f" and its activation is 'relu'. Received: pooler_activation={received!r} with heads="
            f"{list(heads)}. Build the model with pooler_activation={wanted!r}."
        )


def _checked_labels(labels: Sequence[str] | None, num_classes: int | None) -> list[str] | None:
    if num_classes is None:
        if labels is not None:
            raise ValueError(
                "`labels` are only used with the heads 'classes' and 'tags'. Received: "
                "`labels` for a model without them."
            )
        return None
    found = [f"LABEL_{number}" for number in range(num_classes)] if labels is None else list(labels)
    if len(set(found)) != num_classes or not all(isinstance(label, str) for label in found):
        raise ValueError(
            f"`labels` must be {num_classes} different strings. Received: {str(labels)[:80]}."
        )
    return found


def _check_tokenizer(tokenizer: object, config: BertConfig | GptConfig, kind: type) -> None:
    if tokenizer is None:
        return
    if not isinstance(tokenizer, kind):
        raise TypeError(
            f"`tokenizer` must be a {kind.__name__}. Received: {type(tokenizer).__name__}."
        )
    size = cast(Tokenizer, tokenizer).vocabulary_size
    if size > config.vocabulary_size:
        raise ValueError(
            "The tokenizer must not have more tokens than the model. Received: a tokenizer "
            f"with {size} tokens for a model with {config.vocabulary_size}."
        )
