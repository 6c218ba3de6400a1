"""Encoder-decoder Transformers in folders of CTranslate2, as OpenNMT and Argos use them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_attn.interop.ctranslate2_files import MODEL, ModelFile, read_model_file
from keras_attn.interop.ctranslate2_vocabularies import Vocabularies, read_vocabularies
from keras_attn.interop.pretrained_model import Pretrained
from keras_attn.models import TransformerEncoderDecoderConfig
from keras_attn.ops import sinusoids

_HEADS = {"TransformerBase": 8, "TransformerBig": 16, "TransformerSpec": 8}
"""The specifications that are read, and their numbers of heads if the file has none."""
_REVISIONS = range(2, 8)
_ACTIVATIONS = ("relu", "gelu_tanh", "silu", "gelu", "quick_gelu", "tanh", "sigmoid")
_STACKS = ("encoder", "decoder")
# Settings of a stack that are variables, with their values in files without them.
_SETTINGS = {"pre_norm": 1, "activation": 0}
_ZERO = ("alibi", "with_relative_position", "sliding_window", "multi_query_attention")
"""Settings that must be 0, where a file has them."""
_IGNORED = (
    "alignment_layer", "alignment_heads", "embeddings_merge", "alibi_use_positive_positions",
    "scale_alibi", "start_from_zero_embedding", "with_source_bos", "with_source_eos",
    "with_target_bos", "num_heads", "scale_embeddings", *_SETTINGS, *_ZERO,
)  # fmt: skip
_SEARCH = {
    "beams": 2, "alpha": 1.0, "length_penalty_kind": "power", "early_stopping": True,
    "min_length": 2, "renormalize": True,  # the first token is not the end
}  # fmt: skip
"""The search of CTranslate2, whose folders have no settings of their own."""
_NEVER = -30000.0
"""The bias of tokens that CTranslate2 does not have."""


class _Part(NamedTuple):
    """A weight of ours, and the rows of variables that make it up."""

    ours: str
    theirs: tuple[str, ...]
    shape: tuple[int, ...]
    """Shape of each of theirs."""
    turned: bool = False
    """Whether they are matrices of `(outputs, inputs)`."""
    rows: slice = slice(None)
    """The rows of theirs that are ours."""
    optional: bool = False
    """Whether it is of zeros if the file has none."""


def is_ctranslate2(folder: Path) -> bool:
    """Returns whether a folder, or the folder `model` in it, has a `model.bin`."""
    return any((place / MODEL).is_file() for place in (folder, folder / "model"))


def read_ctranslate2(folder: Path) -> Pretrained:
    """Reads a translator that was converted for CTranslate2, or a package of Argos Translate.

    A variable or setting that would give other results here raises an error that names it.
    """
    if not (folder / MODEL).is_file():
        folder = folder / "model"
    file = read_model_file(folder / MODEL)
    if file.spec not in _HEADS or file.revision not in _REVISIONS:
        raise ValueError(
            f"{file.path} must be of the specification {' or '.join(_HEADS)}, of revision "
            f"{_REVISIONS[0]} to {_REVISIONS[-1]}. Received: {file.spec}, revision "
            f"{file.revision}. Such models cannot be loaded."
        )
    vocabularies = read_vocabularies(folder, file)
    config = _config(file, vocabularies)
    parts = list(_parts(file, config, vocabularies))
    used = {name for part in parts for name in part.theirs}
    _check_names(file, used)
    for part in parts:
        _check(file, part)
    tensors = {part.ours: _read(file, part) for part in parts}
    _fit_vocabularies(tensors, config, vocabularies)
    source, target = vocabularies.tokenizers(config.target_vocabulary_size is not None)
    search = {**_SEARCH, "suppressed_ids": vocabularies.added(config.pad_id)}
    ends = vocabularies.settings.source_end
    return Pretrained(config, source, tensors, (), None, [], target, search, ends)


def _config(file: ModelFile, vocabularies: Vocabularies) -> TransformerEncoderDecoderConfig:
    """Reads the settings of a model from its variables."""
    given = {name: _agreed(file, name, _SETTINGS[name]) for name in _SETTINGS}
    for stack in _STACKS:
        for name in _ZERO:
            if file.number(f"{stack}/{name}", name):
                raise ValueError(
                    f"{file.path}: `{stack}/{name}` must be 0. Received: another value. Such "
                    "models cannot be loaded."
                )
    tables = {stack: file.variables[_table(file, stack)] for stack in _STACKS}
    dim = _shape(file, _table(file, "decoder"))[1]
    activation = given["activation"]
    if activation not in range(len(_ACTIVATIONS)):
        raise ValueError(
            f"{file.path}: `activation` must be 0 to {len(_ACTIVATIONS) - 1}. Received: "
            f"{activation:g}."
        )
    tied = _same(file, _table(file, "decoder"), "decoder/projection/weight")
    shared = vocabularies.shared and _same(file, _table(file, "encoder"), _table(file, "decoder"))
    layers = {stack: _count(file, stack) for stack in _STACKS}
    gated = "encoder/layer_0/ffn/linear_0_noact/weight" in file.variables
    norm = "encoder/layer_0/ffn/layer_norm"
    rms = f"{norm}/gamma" in file.variables and f"{norm}/beta" not in file.variables
    settings: dict[str, Any] = {
        "num_layers": layers["encoder"],
        "num_decoder_layers": None if layers["decoder"] == layers["encoder"] else layers["decoder"],
        "dim": dim,
        "num_heads": int(_agreed(file, "num_heads", _HEADS[file.spec])),
        "intermediate_dim": _shape(file, "encoder/layer_0/ffn/linear_0/weight")[0],
        "activation": _ACTIVATIONS[int(activation)],
        "normalize_first": bool(given["pre_norm"]),
        "normalization": "rms_norm" if rms else "layer_norm",
        "gated": gated,
        "layer_norm_epsilon": vocabularies.settings.epsilon or (1e-6 if rms else 1e-5),
        "positions": _positions(file, dim),
        "tied_output": tied,
        "output_bias": True,
        "scale_embeddings": _is_scaled(file, dim),
        "pad_id": vocabularies.pad_id,
        "starts_with_padding": vocabularies.starts_with_padding,
        "source_vocabulary_size": vocabularies.sizes[0],
        "target_vocabulary_size": None if shared else vocabularies.sizes[1],
    }
    for stack, table in tables.items():
        count = len(vocabularies.rows[_STACKS.index(stack)])
        if table.shape != (count, dim):
            raise ValueError(
                f"{file.path}: {table.name} must have the shape {(count, dim)}, by the vocabulary "
                f"of {count:,} tokens. Received: {table.shape}."
            )
    try:
        return TransformerEncoderDecoderConfig(**settings)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{file.path}: {error}") from error


def _agreed(file: ModelFile, name: str, default: float) -> float:
    """Returns a setting that must be the same in both stacks."""
    values = []
    for stack in _STACKS:
        value = file.number(f"{stack}/{name}", name)
        values.append(default if value is None else value)
    if values[0] != values[1]:
        raise ValueError(
            f"{file.path}: `{name}` must be the same in encoder and decoder. Received: "
            f"{values[0]:g} and {values[1]:g}. Such models cannot be loaded."
        )
    return values[0]


def _is_scaled(file: ModelFile, dim: int) -> bool:
    """Whether embeddings are multiplied by the root of the width."""
    found: set[bool | None] = set()
    for stack in _STACKS:
        name = f"{stack}/scale_embeddings"
        value = file.number(name)
        if value is None or file.variables[name].dtype == "int8":  # a flag
            found.add(value != 0)
        elif math.isclose(value, math.sqrt(dim), rel_tol=1e-3) or value == 1:  # a factor
            found.add(value != 1)
        else:
            found.add(None)
    if len(found) > 1 or None in found:
        raise ValueError(
            f"{file.path}: `scale_embeddings` must be a flag, 1 or the root of {dim}, the width, "
            "and the same in encoder and decoder. Received: another value."
        )
    return bool(found.pop())


def _table(file: ModelFile, stack: str) -> str:
    """Returns the name of the embeddings of a stack."""
    names = f"{stack}/embeddings/weight", f"{stack}/embeddings_0/weight"
    found = [name for name in names if name in file.variables]
    if not found:
        raise ValueError(f"{file.path}: there is no variable {names[0]}.")
    return found[0]


def _shape(file: ModelFile, name: str) -> tuple[int, ...]:
    """Returns the shape of a matrix."""
    if name not in file.variables:
        raise ValueError(f"{file.path}: there is no variable {name}.")
    shape = file.variables[name].shape
    if len(shape) != 2 or not all(shape):
        raise ValueError(f"{file.path}: {name} must be a matrix. Received: shape {shape}.")
    return shape


def _same(file: ModelFile, *names: str) -> bool:
    """Whether variables are one, or equal."""
    first, second = (file.variables.get(name) for name in names)
    if first is None or second is None or first.shape != second.shape:
        return False
    if first == second:
        return True
    one, other = (file.weights(name) for name in names)
    return first.dtype == second.dtype and np.array_equal(one, other)


def _count(file: ModelFile, stack: str) -> int:
    """Returns the number of layers of a stack."""
    number = 1
    _shape(file, f"{stack}/layer_0/self_attention/linear_0/weight")
    while f"{stack}/layer_{number}/self_attention/linear_0/weight" in file.variables:
        number += 1
    return number


def _positions(file: ModelFile, dim: int) -> str:
    """Returns the kind of the positions: of tables those that are sinusoids are known."""
    kinds = {"sinusoidal": (False, 0), "sinusoidal_halves": (True, 0)}
    found = set()
    for stack in _STACKS:
        name = f"{stack}/position_encodings/encodings"
        if name not in file.variables:
            found.add("sinusoidal_from_one")
            continue
        shape = file.variables[name].shape
        if len(shape) != 2 or shape[1] != dim:
            raise ValueError(
                f"{file.path}: {name} must have {dim} columns. Received: shape {shape}."
            )
        table = file.weights(name)
        rows = np.arange(len(table), dtype="int32")
        for kind, (halves, first) in kinds.items():
            computed = keras.ops.convert_to_numpy(sinusoids(rows + first, dim, halves=halves))
            if np.abs(table - computed).max(initial=0) < 2e-3:  # of float16, too
                found.add(kind)
                break
        else:
            raise ValueError(
                f"{file.path}: {name} must have sinusoids. Received: other numbers. Learned "
                "positions are not supported."
            )
    if len(found) > 1:
        raise ValueError(f"{file.path}: encoder and decoder must have the same positions.")
    return found.pop()


def _parts(
    file: ModelFile, config: TransformerEncoderDecoderConfig, vocabularies: Vocabularies
) -> Iterator[_Part]:
    """Yields the weights of a model."""
    dim, rows = config.dim, [len(some) for some in vocabularies.rows]
    sides = dict(zip(("source", "target"), zip(_STACKS, rows, strict=True), strict=True))
    for side, (stack, count) in sides.items():
        table = _table(file, stack)
        yield _Part(f"{side}_embedding/embedding/embeddings", (table,), (count, dim))
    output = "decoder/projection"
    yield _Part("head/kernel", (f"{output}/weight",), (rows[1], dim), turned=True)
    yield _Part("head/bias", (f"{output}/bias",), (rows[1],), optional=True)
    counts = {"encoder": config.num_layers}
    counts["decoder"] = config.num_decoder_layers or config.num_layers
    for stack, count in counts.items():
        if config.normalize_first:
            yield from _norm(config, f"{stack}/norm", f"{stack}/layer_norm")
        for number in range(count):
            yield from _block(config, stack, number)


def _norm(config: TransformerEncoderDecoderConfig, ours: str, theirs: str) -> Iterator[_Part]:
    names = {"scale": "gamma"} if config.normalization == "rms_norm" else {"gamma": "gamma"}
    if config.normalization == "layer_norm":
        names["beta"] = "beta"
    for own, name in names.items():
        yield _Part(f"{ours}/{own}", (f"{theirs}/{name}",), (config.dim,))


def _block(config: TransformerEncoderDecoderConfig, stack: str, number: int) -> Iterator[_Part]:
    ours, theirs = f"{stack}/block_{number}", f"{stack}/layer_{number}"
    dim, hidden = config.dim, config.intermediate_dim
    gate = ("ffn/linear_0_noact",) if config.gated else ()
    whole = slice(None)
    dense = {
        "self_attention/qkv": (("self_attention/linear_0",), 3 * dim, dim, whole),
        "self_attention/output": (("self_attention/linear_1",), dim, dim, whole),
        "feed_forward/hidden": (("ffn/linear_0", *gate), hidden, dim, whole),
        "feed_forward/output": (("ffn/linear_1",), dim, hidden, whole),
    }
    norms = {"self_attention": "self_attention", "feed_forward": "ffn"}
    if stack == "decoder":
        dense |= {
            "cross_attention/query": (("attention/linear_0",), dim, dim, whole),
            "cross_attention/key": (("attention/linear_1",), 2 * dim, dim, slice(dim)),
            "cross_attention/value": (("attention/linear_1",), 2 * dim, dim, slice(dim, None)),
            "cross_attention/output": (("attention/linear_2",), dim, dim, whole),
        }
        norms["cross_attention"] = "attention"
    for part, (layers, units, inputs, rows) in dense.items():
        kernels, biases = (
            tuple(f"{theirs}/{layer}/{name}" for layer in layers) for name in ("weight", "bias")
        )
        yield _Part(f"{ours}/{part}/kernel", kernels, (units, inputs), True, rows)
        yield _Part(f"{ours}/{part}/bias", biases, (units,), False, rows, optional=True)
    for part, name in norms.items():
        yield from _norm(config, f"{ours}/{part}_norm", f"{theirs}/{name}/layer_norm")


def _check_names(file: ModelFile, used: set[str]) -> None:
    """Raises an error if a file has variables that our model does not use."""
    for name in file.variables:
        plain = name.rpartition("/")[2]
        if name in used or name.removesuffix("_scale") in used or plain == "encodings":
            continue
        if plain not in _IGNORED or name.count("/") > 1:
            raise ValueError(
                f"{file.path}: the variable {name} is not supported. Such models cannot be loaded."
            )


def _check(file: ModelFile, part: _Part) -> None:
    """Raises an error if a variable is missing or does not have the shape in the model."""
    for name in part.theirs:
        found = file.variables.get(name)
        if found is None:
            if part.optional:
                continue
            raise ValueError(f"{file.path}: there is no variable {name}.")
        if found.shape != part.shape or found.dtype == "int32":
            raise ValueError(
                f"{file.path}: {name} must have shape {part.shape} and a dtype other than int32. "
                f"Received: shape {found.shape}, dtype {found.dtype}."
            )


def _read(file: ModelFile, part: _Part) -> np.ndarray:
    """Reads a weight that was checked."""
    arrays = [
        file.weights(name) if name in file.variables else np.zeros(part.shape, np.float32)
        for name in part.theirs
    ]
    joined = np.concatenate([array[part.rows] for array in arrays])
    return np.ascontiguousarray(joined.T) if part.turned else joined


def _fit_vocabularies(
    tensors: dict[str, np.ndarray],
    config: TransformerEncoderDecoderConfig,
    vocabularies: Vocabularies,
) -> None:
    """Puts the rows of tokens in our order; tokens that the model lacks are never generated."""
    kernel, bias = tensors.pop("head/kernel"), tensors.pop("head/bias")
    sides = ("source", "target")
    for side, rows, size in zip(sides, vocabularies.rows, vocabularies.sizes, strict=True):
        table = tensors.pop(f"{side}_embedding/embedding/embeddings")
        if side == "source" or config.target_vocabulary_size is not None:
            tensors[f"{side}_embedding/embedding/embeddings"] = _placed(table, rows, size)
    rows, size = vocabularies.rows[1], vocabularies.sizes[1]
    side = "source" if config.target_vocabulary_size is None else "target"
    name = f"{side}_embedding/bias" if config.tied_output else "head/bias"
    tensors[name] = _placed(bias, rows, size, _NEVER)
    if not config.tied_output:
        tensors["head/kernel"] = np.ascontiguousarray(_placed(kernel.T, rows, size).T)


def _placed(array: np.ndarray, rows: tuple[int, ...], size: int, rest: float = 0.0) -> np.ndarray:
    """Moves each row to its place; other rows are `rest`."""
    found = np.full((size, *array.shape[1:]), rest, np.float32)
    found[list(rows)] = array
    return found
