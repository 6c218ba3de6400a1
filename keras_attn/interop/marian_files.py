"""Marian translators, such as OPUS-MT's: their folders, read and written."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_attn.files import atomic_folder
from keras_attn.interop.h5_files import stored_anyhow
from keras_attn.interop.json_files import to_json
from keras_attn.interop.marian_settings import marian_config_file, read_marian_config, target_size
from keras_attn.interop.marian_tokenizers import marian_tokenizer_files, read_marian_tokenizers
from keras_attn.interop.matching import checked_tensors
from keras_attn.interop.pretrained_model import Pretrained
from keras_attn.interop.search_settings import read_search, search_file
from keras_attn.interop.tensor_files import WEIGHTS, StoredTensor
from keras_attn.interop.weights import Weight, check_shapes, check_stored, read_weights
from keras_attn.models import TransformerEncoderDecoderConfig
from keras_attn.models.tensors import to_bytes
from keras_attn.ops import sinusoids
from keras_attn.text import SentencePieceTokenizer

_SHARED, _HEAD, _BIAS = "shared.weight", "lm_head.weight", "final_logits_bias"
_TABLES = {"source": "encoder.embed_tokens.weight", "target": "decoder.embed_tokens.weight"}
_IDS_OF_SEARCH = (
    "bos_token_id", "eos_token_id", "forced_eos_token_id", "decoder_start_token_id", "pad_token_id",
)  # fmt: skip
_POSITIONS = ("encoder.embed_positions.weight", "decoder.embed_positions.weight")


def marian_weights(config: TransformerEncoderDecoderConfig) -> Iterator[Weight]:
    """Yields the weights of a Marian model, each with its Hugging Face names."""
    dim, target = config.dim, config.target_vocabulary_size
    tables = {"source": config.source_vocabulary_size, "target": target}
    for side, size in tables.items():
        if size is not None:
            name = _SHARED if target is None else _TABLES[side]
            yield Weight(f"{side}_embedding/embedding/embeddings", (name,), (size, dim))
    size = target_size(config)
    if not config.tied_output:
        yield Weight("head/kernel", (_HEAD,), (size, dim), turned=True)
    if config.output_bias:
        yield Weight(_output_bias(config), (_BIAS,), (1, size))
    blocks = {"encoder": config.num_layers}
    blocks["decoder"] = config.num_decoder_layers or config.num_layers
    for stack, count in blocks.items():
        for number in range(count):
            yield from _block(config, stack, number)


def _output_bias(config: TransformerEncoderDecoderConfig) -> str:
    """Our name of the bias of the logits."""
    if not config.tied_output:
        return "head/bias"
    side = "source" if config.target_vocabulary_size is None else "target"
    return f"{side}_embedding/bias"


def _block(config: TransformerEncoderDecoderConfig, stack: str, number: int) -> Iterator[Weight]:
    ours, theirs = f"{stack}/block_{number}", f"{stack}.layers.{number}"
    dim, hidden = config.dim, config.intermediate_dim
    dense: dict[str, tuple[tuple[str, ...], int, int]] = {
        "self_attention/qkv": (
            ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), dim, dim,
        ),
        "self_attention/output": (("self_attn.out_proj",), dim, dim),
        "feed_forward/hidden": (("fc1",), hidden, dim),
        "feed_forward/output": (("fc2",), dim, hidden),
    }  # fmt: skip
    norms = {"self_attention": "self_attn_layer_norm", "feed_forward": "final_layer_norm"}
    if stack == "decoder":
        names = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
        for part, name in names.items():
            dense[f"cross_attention/{part}"] = ((f"encoder_attn.{name}",), dim, dim)
        norms["cross_attention"] = "encoder_attn_layer_norm"
    for part, (layers, units, inputs) in dense.items():
        kernels, biases = (
            tuple(f"{theirs}.{layer}.{name}" for layer in layers) for name in ("weight", "bias")
        )
        yield Weight(f"{ours}/{part}/kernel", kernels, (units, inputs), turned=True)
        yield Weight(f"{ours}/{part}/bias", biases, (units,))
    for part, name in norms.items():
        yield Weight(f"{ours}/{part}_norm/gamma", (f"{theirs}.{name}.weight",), (dim,))
        yield Weight(f"{ours}/{part}_norm/beta", (f"{theirs}.{name}.bias",), (dim,))


def read_marian(folder: Path, settings: dict[str, Any]) -> Pretrained:
    """Reads a Marian translator from a folder in the format of Hugging Face."""
    config = read_marian_config(settings, str(folder / "config.json"))
    stored = _plain(stored_anyhow(folder))
    if not config.tied_output and _are_two(stored, config, folder):
        config = dataclasses.replace(config, target_vocabulary_size=config.source_vocabulary_size)
    copies = _copies(config)
    for name, others in copies.items():
        known = [other for other in (name, *others) if other in stored]
        if known:
            stored[name] = stored[known[0]]
    unbiased = _BIAS not in stored
    weights = []
    for weight in marian_weights(config):
        if weight.theirs == (_BIAS,) and unbiased:
            continue
        check_stored(weight, stored, folder)  # one after the other: `num_layers` may be anything
        weights.append(weight)
    for name, others in copies.items():
        _check_copies(name, others, stored, folder)
    used = {name for weight in weights for name in weight.theirs}
    used |= {_SHARED, _HEAD, *_TABLES.values(), *_check_positions(config, stored, folder)}
    tensors = read_weights(weights, stored)
    size, bias = target_size(config), _output_bias(config)
    tensors[bias] = np.zeros(size, np.float32) if unbiased else tensors[bias].reshape(size)
    if unbiased:
        warnings.warn(
            f"{folder} has no `{_BIAS}`, which old versions of transformers did not save. "
            "Zeros are used instead. If the model also has a pytorch_model.bin, load it with "
            "transformers and save it again to get its bias.",
            stacklevel=4,
        )
    unused = [tensor.name for name, tensor in stored.items() if name not in used]
    found = read_marian_tokenizers(
        folder,
        {"source": config.source_vocabulary_size, "target": target_size(config)},
        {
            "pad": config.pad_id,
            "start": settings.get("decoder_start_token_id", config.pad_id),
            "end": settings.get("eos_token_id", 0),
        },
    )
    search = read_search(folder, settings)
    return Pretrained(config, found.source, tensors, (), None, unused, found.target, search)


def _plain(stored: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
    """The tensors by their names without the prefix of the model."""
    found: dict[str, StoredTensor] = {}
    for name, tensor in stored.items():
        plain = name.removeprefix("model.")
        if plain in found:
            raise ValueError(f"{tensor.file}: {name} is also stored as {found[plain].name}.")
        found[plain] = tensor
    return found


def _are_two(
    stored: Mapping[str, StoredTensor], config: TransformerEncoderDecoderConfig, folder: Path
) -> bool:
    """Whether a file has an embedding for each side, though they have one vocabulary.

    transformers since version 5 ties none of them if the output is not tied.
    """
    if config.target_vocabulary_size is not None or not stored.keys() >= set(_TABLES.values()):
        return False
    shape = config.source_vocabulary_size, config.dim
    for name in _TABLES.values():
        check_stored(Weight("", (name,), shape), stored, folder)
    source, target = (stored[name].read() for name in _TABLES.values())
    return not np.array_equal(source, target)


def _copies(config: TransformerEncoderDecoderConfig) -> dict[str, tuple[str, ...]]:
    """The embeddings, each with the names of others in a file that must equal it."""
    head = (_HEAD,) if config.tied_output else ()
    if config.target_vocabulary_size is None:
        return {_SHARED: (*_TABLES.values(), *head)}
    return {_TABLES["source"]: (), _TABLES["target"]: head}


def _check_copies(
    name: str, others: tuple[str, ...], stored: Mapping[str, StoredTensor], folder: Path
) -> None:
    for other in others:
        if other not in stored or stored[other] == stored[name]:
            continue
        check_stored(Weight("", (other,), stored[name].shape), stored, folder)
        if not np.array_equal(stored[other].read(), stored[name].read()):
            raise ValueError(
                f"{stored[other].file}: {stored[other].name} must equal {stored[name].name}, "
                "as config.json says that they are one matrix. Received: different numbers."
            )


def _check_positions(
    config: TransformerEncoderDecoderConfig, stored: Mapping[str, StoredTensor], folder: Path
) -> tuple[str, ...]:
    """Checks tables of positions, which are computed here; returns their names."""
    for name in _POSITIONS:
        if name not in stored:
            continue
        rows = stored[name].shape[:1]
        check_stored(Weight("", (name,), (*rows, config.dim)), stored, folder)
        table = stored[name].read()
        computed = sinusoids(np.arange(len(table), dtype="int32"), config.dim, halves=True)
        difference = np.abs(table - keras.ops.convert_to_numpy(computed)).max(initial=0)
        if difference > 1e-3:
            raise ValueError(
                f"{stored[name].file}: {stored[name].name} must have sinusoids, the sines in the "
                f"first half. Received: other numbers, which differ by {difference:.3g}."
            )
    return _POSITIONS


def save_marian(
    folder: str | os.PathLike[str],
    model: keras.Model,
    config: TransformerEncoderDecoderConfig,
    tokenizer: object = None,
    target_tokenizer: object = None,
    search: Mapping[str, Any] | None = None,
) -> None:
    """Writes a translator for `MarianMTModel` and `MarianTokenizer` of transformers."""
    files: dict[str, bytes] = {}
    start, end = None, 0
    if tokenizer is not None:
        source = _sentence_pieces(tokenizer)
        target = source if target_tokenizer is None else _sentence_pieces(target_tokenizer)
        _check_sizes(config, source, target)
        files = marian_tokenizer_files(source, target)
        start, end = target.start_id, target.end_id
    settings = marian_config_file(config, start, end)
    tensors = marian_tensors(model, config)
    ids = {name: settings[name] for name in _IDS_OF_SEARCH}
    files |= {
        "config.json": to_json(settings),
        "generation_config.json": to_json({**ids, **search_file(search or {}, config.pad_id)}),
    }
    with atomic_folder(folder) as partial:
        for name, content in files.items():
            (partial / name).write_bytes(content)
        (partial / WEIGHTS).write_bytes(to_bytes(tensors, format="pt"))


def _sentence_pieces(tokenizer: object) -> SentencePieceTokenizer:
    if not isinstance(tokenizer, SentencePieceTokenizer):
        raise TypeError(
            "The tokenizer of a Marian model must be a SentencePieceTokenizer. Received: "
            f"{type(tokenizer).__name__}."
        )
    return tokenizer


def _check_sizes(
    config: TransformerEncoderDecoderConfig,
    source: SentencePieceTokenizer,
    target: SentencePieceTokenizer,
) -> None:
    sizes = config.source_vocabulary_size, target_size(config)
    received = source.vocabulary_size, target.vocabulary_size
    if sizes != received or (source.pad_id, target.pad_id) != (config.pad_id,) * 2:
        raise ValueError(
            f"The source and target tokenizers must have {sizes[0]:,} and {sizes[1]:,} tokens and "
            f"the padding id {config.pad_id}, as the model does. Received: {received[0]:,} and "
            f"{received[1]:,} tokens, and the padding ids {source.pad_id} and {target.pad_id}."
        )


def marian_tensors(
    model: keras.Model, config: TransformerEncoderDecoderConfig
) -> dict[str, np.ndarray]:
    """Returns the tensors of a Marian model, keyed by their Hugging Face names."""
    tensors = checked_tensors(model, config, TransformerEncoderDecoderConfig)
    bias = _output_bias(config)
    size = target_size(config)
    if config.output_bias:
        tensors[bias] = tensors[bias][None]
    weights = list(marian_weights(config))
    check_shapes(weights, tensors, "MarianMTModel")
    outside = (_HEAD, _BIAS)
    written = {_BIAS: np.zeros((1, size), np.float32)}
    for weight in weights:
        for name, array in zip(weight.theirs, weight.split(tensors[weight.ours]), strict=True):
            written[name if name in outside else f"model.{name}"] = array
    if not config.tied_output and config.target_vocabulary_size is None:
        for name in _TABLES.values():  # transformers since version 5 does not tie them then
            written[f"model.{name}"] = written[f"model.{_SHARED}"]
    return written
