"""GPT-2 and Llama from folders in the form of Hugging Face."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from keras_attn.interop.byte_pair_files import read_byte_pairs
from keras_attn.interop.gpt_settings import read_gpt_config
from keras_attn.interop.gpt_weights import (
    EMBEDDINGS,
    HEAD,
    decoder_weights,
    head_weight,
    is_ignored,
    plain_name,
)
from keras_attn.interop.pretrained_model import Pretrained
from keras_attn.interop.sentence_piece_files import has_sentence_pieces, read_sentence_pieces
from keras_attn.interop.tensor_files import StoredTensor, stored_tensors
from keras_attn.interop.weights import check_stored, read_weights


def read_decoder(folder: Path, settings: dict[str, Any]) -> Pretrained:
    """Reads a decoder from a folder in the format of Hugging Face."""
    kind, config = read_gpt_config(settings, str(folder / "config.json"))
    stored: dict[str, StoredTensor] = {}
    for name, tensor in stored_tensors(folder).items():
        plain = plain_name(kind, name)
        if plain in stored:
            raise ValueError(f"{tensor.file}: {name} is also stored as {stored[plain].name}.")
        stored[plain] = tensor
    weights = []
    for weight in decoder_weights(config, kind):
        check_stored(weight, stored, folder)  # one after the other: `num_layers` may be anything
        weights.append(weight)
    used = {name for weight in weights for name in weight.theirs}
    if HEAD in stored:
        head = head_weight(config)
        check_stored(head, stored, folder)
        used.add(HEAD)
        equal = config.tie_embeddings and np.array_equal(
            stored[HEAD].read(), stored[EMBEDDINGS[kind]].read()
        )
        if not equal:
            config = dataclasses.replace(config, tie_embeddings=False)
            weights.append(head)
    pieces = has_sentence_pieces(folder)
    tokenizer = (read_sentence_pieces if pieces else read_byte_pairs)(folder, settings)
    if tokenizer is not None and tokenizer.vocabulary_size > config.vocabulary_size:
        raise ValueError(
            f"{folder}: the tokenizer has {tokenizer.vocabulary_size} tokens, but the model "
            f"has {config.vocabulary_size}. They do not belong together."
        )
    unused = [t.name for name, t in stored.items() if name not in used and not is_ignored(name)]
    return Pretrained(config, tokenizer, read_weights(weights, stored), (), None, unused)
