"""BERT, DistilBERT, RoBERTa, XLM-RoBERTa and ModernBERT from folders of Hugging Face."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from keras_attn.interop.bert_settings import read_bert_config, read_labels
from keras_attn.interop.bert_weights import (
    IGNORED,
    NAMES,
    WORDS,
    encoder_weights,
    part_weights,
    plain_name,
    pooler_part,
)
from keras_attn.interop.byte_pair_files import read_byte_pairs
from keras_attn.interop.modern_bert_settings import KIND as MODERN_BERT
from keras_attn.interop.pretrained_model import Pretrained, PretrainedTokenizer
from keras_attn.interop.sentence_piece_files import XLM_ROBERTA, read_fairseq_pieces
from keras_attn.interop.tensor_files import StoredTensor, stored_tensors
from keras_attn.interop.tokenizer_files import read_tokenizer
from keras_attn.interop.weights import Weight, check_stored, read_weights
from keras_attn.models import HEADS, BertConfig

POOLERS = {"bert": "tanh", "distilbert": "relu", "roberta": "tanh", MODERN_BERT: "gelu"}
"""The activation of the pooler of each kind of model."""
_CLASSIFIERS = {
    "ForSequenceClassification": "classes",
    "ForTokenClassification": "tags",
    "ForQuestionAnswering": "spans",
}


def read_encoder(folder: Path, settings: dict[str, Any]) -> Pretrained:
    """Reads an encoder from a folder in the format of Hugging Face."""
    path = folder / "config.json"
    fairseq = settings.get("model_type") == XLM_ROBERTA
    if fairseq:  # a RoBERTa with another tokenizer
        settings = {**settings, "model_type": "roberta"}
    kind, config = read_bert_config(settings, str(path))
    stored: dict[str, StoredTensor] = {}
    for name, tensor in stored_tensors(folder).items():
        plain = plain_name(kind, name)
        if plain in stored:
            raise ValueError(f"{tensor.file}: {name} is also stored as {stored[plain].name}.")
        stored[plain] = tensor
    pooler = pooler_part(kind, f"{NAMES[kind].parts['classes']}.weight" in stored)
    pools = any(name.startswith(f"{NAMES[kind].parts[pooler]}.") for name in stored)
    if pools:
        config = dataclasses.replace(config, pooler_activation=POOLERS[kind])
    heads, num_classes = _heads(kind, config, settings, stored, path)
    if kind == MODERN_BERT and set(heads) <= {"masked_words"}:  # another head may take its layer
        config = dataclasses.replace(config, pooler_activation=None)
    weights = []
    for weight in encoder_weights(config, kind):
        check_stored(weight, stored, folder)  # one after the other: `num_layers` may be anything
        weights.append(weight)
    if pools:
        weights += part_weights(config, kind, pooler)
    for head in heads:
        weights += part_weights(config, kind, head, num_classes)
    for weight in weights:
        check_stored(weight, stored, folder)
    decoder = [f"{NAMES[kind].decoder}.weight"]
    if NAMES[kind].bias != f"{NAMES[kind].decoder}.bias":
        decoder.append(f"{NAMES[kind].decoder}.bias")
    tied = "masked_words" in heads and _tied(kind, config, settings, stored, folder)
    if not tied and "masked_words" in heads:
        heads = tuple(head for head in heads if head != "masked_words")
        own = part_weights(config, kind, "masked_words")
        weights = [weight for weight in weights if weight not in own]
    used = {name for weight in weights for name in weight.theirs}
    used |= set(decoder) if tied else set()
    tokenizer: PretrainedTokenizer | None
    if fairseq:
        tokenizer = read_fairseq_pieces(folder)
    else:
        pairs = kind in ("roberta", MODERN_BERT)
        tokenizer = read_byte_pairs(folder, settings) if pairs else read_tokenizer(folder)
    if tokenizer is not None:
        _check_tokenizer(tokenizer, config, settings, folder)
    tensors = read_weights(weights, stored)
    labels = read_labels(settings, str(path)) if num_classes is not None else None
    if labels is not None and len(labels) != num_classes:
        raise ValueError(
            f"{path}: `id2label` must have a name for each of {num_classes} classes. "
            f"Received: {len(labels)} names."
        )
    unused = [t.name for name, t in stored.items() if name not in used and name != IGNORED]
    return Pretrained(config, tokenizer, tensors, heads, labels, unused)


def _heads(
    kind: str,
    config: BertConfig,
    settings: dict[str, Any],
    stored: dict[str, StoredTensor],
    path: Path,
) -> tuple[tuple[str, ...], int | None]:
    """Returns the heads that a file has, and the number of classes."""
    architectures = settings.get("architectures") or []
    if not isinstance(architectures, list):
        raise ValueError(
            f"{path}: `architectures` must be a list of names. Received: {architectures!r}."
        )
    classifier = [
        head
        for end, head in _CLASSIFIERS.items()
        if any(isinstance(name, str) and name.endswith(end) for name in architectures)
    ]
    heads = []
    for head in HEADS:
        name = NAMES[kind].parts.get(head)
        if head == "masked_words" and kind == MODERN_BERT:  # its classifiers have that layer too
            if NAMES[kind].bias in stored:
                heads.append(head)
        elif f"{name}.weight" in stored and (name != "classifier" or head in classifier):
            heads.append(head)
    num_classes = None
    if {"classes", "tags"} & set(heads):
        name = next(NAMES[kind].parts[h] for h in ("classes", "tags") if h in heads)
        shape = stored[f"{name}.weight"].shape
        num_classes = shape[0] if len(shape) == 2 and shape[0] else None
        if num_classes is None or len(classifier) > 1:
            raise ValueError(
                f"{path}: expected one classifier, of shape (classes, {config.dim}). Received: "
                f"{architectures} with shape {shape}."
            )
    part = pooler_part(kind, "classes" in heads)
    unpooled = {"masked_words"} if kind == MODERN_BERT else {"masked_words", "tags", "spans"}
    if set(heads) - unpooled and config.pooler_activation is None:
        raise ValueError(
            f"{path.parent}: the heads {heads} need {NAMES[kind].parts[part]}.weight, which is "
            "not in the file."
        )
    return tuple(heads), num_classes


def _tied(
    kind: str,
    config: BertConfig,
    settings: dict[str, Any],
    stored: dict[str, StoredTensor],
    folder: Path,
) -> bool:
    """Whether the logits of tokens are computed with the embeddings of tokens."""
    names = NAMES[kind]
    matrix = Weight("", (f"{names.decoder}.weight",), (config.vocabulary_size, config.dim))
    bias = Weight("", (f"{names.decoder}.bias",), (config.vocabulary_size,))
    if matrix.theirs[0] not in stored:
        return settings.get("tie_word_embeddings", True) is not False
    for weight, other in ((matrix, WORDS[kind]), (bias, names.bias)):
        if weight.theirs[0] in stored:
            check_stored(weight, stored, folder)
            own, shared = stored[weight.theirs[0]], stored[other]
            if not np.array_equal(own.read(), shared.read()):
                return False
    return True


def _check_tokenizer(
    tokenizer: PretrainedTokenizer,
    config: BertConfig,
    settings: dict[str, Any],
    folder: Path,
) -> None:
    """Raises an error if a tokenizer gives ids that the model does not have."""
    if tokenizer.vocabulary_size > config.vocabulary_size:
        raise ValueError(
            f"{folder}: the tokenizer has {tokenizer.vocabulary_size} tokens, but the model "
            f"has {config.vocabulary_size}. They do not belong together."
        )
    if settings.get("pad_token_id") not in (tokenizer.pad_id, None):
        raise ValueError(
            f"{folder / 'config.json'}: `pad_token_id` must be {tokenizer.pad_id}, the id of "
            f"padding in the tokenizer. Received: {settings['pad_token_id']!r}."
        )
