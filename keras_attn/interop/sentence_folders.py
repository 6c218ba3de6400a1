"""Settings of sentence-transformers folders: pooling, normalization, lengths of texts, prompts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from keras_attn.input_files import is_plain_name, read_input
from keras_attn.interop.json_files import parse_list, read_object

MODULES = "modules.json"
PROMPTS = "config_sentence_transformers.json"
LENGTHS = "sentence_bert_config.json"
_POOLING = "1_Pooling"
_POOLINGS = {"mean": "average", "cls": "first", "max": "max"}
_OLD = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""The settings of the pooling before they became one, `pooling_mode`."""
_FORWARD = {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}
# Settings that change vectors, with the values that are supported.
_OF_TRANSFORMER: dict[str, Sequence[Any]] = {
    "transformer_task": (None, "feature-extraction"),
    "modality_config": (None, _FORWARD),
    "module_output_name": (None, "token_embeddings"),
}
_OF_NORMALIZE: dict[str, Sequence[Any]] = {
    "module_input_name": (None, "sentence_embedding"),
    "module_output_name": (None, "sentence_embedding"),
}
_NO_LENGTH = 10**9  # transformers writes 10**30 for "no limit"


class SentenceSettings(NamedTuple):
    """Pooling, normalization, length and prompts of a sentence-transformers folder.

    Example:

    >>> SentenceSettings(pooling="first", query_prompt="query: ").unit_length
    False
    """

    pooling: str = "average"
    """`"average"`, `"first"` or `"max"`, see `keras_attn.models.sentence_encoder`."""
    unit_length: bool = False
    """Whether the vectors are scaled to length 1."""
    max_length: int | None = None
    """Maximum number of tokens of a text; None for the number of positions of the encoder."""
    prompt: str = ""
    """Text that is put before each input text by default."""
    query_prompt: str = ""
    """Text that is put before each query."""
    passage_prompt: str = ""
    """Text that is put before each searched text."""


def transformer_folder(folder: Path) -> Path:
    """Returns the folder of the encoder, which older models have in a subfolder."""
    if (folder / "config.json").is_file() or not (folder / MODULES).is_file():
        return folder
    return _paths(folder)[0]


def read_sentence_settings(folder: Path) -> SentenceSettings | None:
    """Reads the settings of a sentence-transformers folder; None if it has no `modules.json`.

    A module or setting that this package does not support raises an error.
    """
    if not (folder / MODULES).is_file():
        return None
    encoder, pooling, *normalize = _paths(folder)
    width, positions = _sizes(encoder)
    for place in normalize:
        if (place / "config.json").is_file():
            _check_only(place / "config.json", _OF_NORMALIZE)
    path = folder / PROMPTS
    found = read_object(path) if path.is_file() else {}
    _refuse_other(path, found, {"model_type": (None, "SentenceTransformer")})
    # The product of vectors of length 1 is their cosine.
    _refuse_other(
        path, found, {"similarity_fn_name": (None, "cosine", *(["dot"] if normalize else []))}
    )
    prompts = found.get("prompts") or {}
    default = found.get("default_prompt_name")
    strings = isinstance(prompts, dict) and all(isinstance(x, str) for x in prompts.values())
    if not strings or not (default is None or (isinstance(default, str) and default in prompts)):
        raise ValueError(
            f"{path}: `prompts` must be strings by their names, and `default_prompt_name` one of "
            f"these names or null. Received: {str(prompts)[:80]} and {str(default)[:40]!r}."
        )
    return SentenceSettings(
        _read_pooling(pooling, width),
        bool(normalize),
        _read_length(encoder, positions),
        prompts.get(default, "") if default is not None else "",
        prompts.get("query", ""),
        next((prompts[x] for x in ("document", "passage", "corpus") if prompts.get(x)), ""),
    )


def write_sentence_settings(folder: Path, settings: SentenceSettings, dim: int) -> None:
    """Writes the settings to the folder of an encoder of width `dim`, for sentence-transformers."""
    kinds = ["Transformer", "Pooling", *(["Normalize"] if settings.unit_length else [])]
    paths = ["", *(f"{i}_{kind}" for i, kind in enumerate(kinds) if i)]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(zip(paths, kinds, strict=True))
    ]
    theirs = {ours: name for name, ours in _POOLINGS.items()}[settings.pooling]
    modes = {name: mode == theirs for name, mode in _OLD.items()}
    prompts = {"query": settings.query_prompt, "document": settings.passage_prompt}
    default = None
    if settings.prompt:
        default = "query" if settings.prompt == settings.query_prompt else "text"
        prompts[default] = settings.prompt
    files: dict[str, Any] = {
        MODULES: modules,
        f"{_POOLING}/config.json": {"word_embedding_dimension": dim, **modes},
        LENGTHS: {"max_seq_length": settings.max_length, "do_lower_case": False},
        PROMPTS: {
            "prompts": prompts,
            "default_prompt_name": default,
            "similarity_fn_name": "cosine",
        },
    }
    for path in paths:
        (folder / path).mkdir(exist_ok=True)
    for name, content in files.items():
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        (folder / name).write_text(text, encoding="utf-8")


def _paths(folder: Path) -> list[Path]:
    """Returns the folders of the modules, which must be an encoder, a pooling and perhaps norms."""
    path = folder / MODULES
    modules = parse_list(read_input(path, "a JSON file"), str(path))
    kinds, places = [], []
    for module in modules:
        kind, place = (
            module.get(x) if isinstance(module, dict) else None for x in ("type", "path")
        )
        if not isinstance(kind, str) or not isinstance(place, str):
            raise ValueError(f"{path}: a module must have a type and a path, which are strings.")
        if place and not is_plain_name(place):
            raise ValueError(
                f"{path} must name folders inside its own folder. Received: {place[:80]!r}."
            )
        own = kind.startswith("sentence_transformers.")
        kinds.append(kind.rpartition(".")[2] if own else kind)
        places.append(folder / place)
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise ValueError(
            f"{path}: expected the modules Transformer, Pooling and perhaps Normalize, in this "
            f"order. Received: {str(kinds)[:200]}. Other modules, such as Dense, are not supported."
        )
    return places


def _read_pooling(place: Path, width: int) -> str:
    """Returns our name of the pooling; `width` is the width of the states."""
    path = place / "config.json"
    settings = read_object(path)
    known = {"pooling_mode", "include_prompt", "word_embedding_dimension", "embedding_dimension"}
    _refuse_other(path, settings, {"include_prompt": (None, True)})
    _check_names(path, settings, {*known, *_OLD})
    modes = settings.get("pooling_mode")
    if modes is None:
        modes = [mode for name, mode in _OLD.items() if settings.get(name)] or ["mean"]
    modes = [modes] if isinstance(modes, str) else modes
    if not isinstance(modes, list) or len(modes) != 1 or modes[0] not in _POOLINGS:
        raise ValueError(
            f"{path}: the pooling must be one of {list(_POOLINGS)}. Received: {str(modes)[:80]}."
        )
    dim = settings.get("embedding_dimension", settings.get("word_embedding_dimension"))
    if dim != width:
        raise ValueError(
            f"{path}: the width of the states must be {width} by the config.json of the encoder. "
            f"Received: {str(dim)[:40]}."
        )
    return _POOLINGS[modes[0]]


def _read_length(folder: Path, positions: int) -> int:
    """Returns the largest number of tokens of a text, `positions` if the folder names none."""
    path = next(iter(sorted(folder.glob("sentence_*_config.json"))), folder / LENGTHS)
    tokenizer = folder / "tokenizer_config.json"
    settings, of_tokenizer = (read_object(x) if x.is_file() else {} for x in (path, tokenizer))
    length = settings.get("max_seq_length")
    lowercases = of_tokenizer.get("do_lower_case") is True
    lowercase = (None, False, *([True] if lowercases else []))
    _refuse_other(path, settings, {**_OF_TRANSFORMER, "do_lower_case": lowercase})
    _check_names(path, settings, {*_OF_TRANSFORMER, "do_lower_case", "max_seq_length"})
    if length is None:
        path, length = tokenizer, of_tokenizer.get("model_max_length")
        if isinstance(length, int | float) and length > _NO_LENGTH:
            length = None
    if length is not None and (type(length) is not int or length < 1):
        raise ValueError(
            f"{path}: the largest number of tokens must be an integer of at least 1. Received: "
            f"{str(length)[:40]}."
        )
    return positions if length is None else min(length, positions)


def _sizes(encoder: Path) -> tuple[int, int]:
    """Returns width and positions of an encoder."""
    path = encoder / "config.json"
    own = read_object(path) if path.is_file() else {}
    width, positions = own.get("hidden_size", own.get("dim")), own.get("max_position_embeddings")
    padding = -1
    if "roberta" in str(own.get("model_type")):  # the first positions are of padding
        padding = own.get("pad_token_id", 1)
    if not (type(width) is int and type(positions) is int and type(padding) is int):
        raise ValueError(
            f"{path} must give the width, the number of positions and the padding of the encoder, "
            f"as integers. Received: {', '.join(str(x)[:40] for x in (width, positions, padding))}."
        )
    return width, positions - padding - 1


def _check_only(path: Path, supported: dict[str, Sequence[Any]]) -> None:
    """Refuses other settings of a file, and other values of these."""
    settings = read_object(path)
    _refuse_other(path, settings, supported)
    _check_names(path, settings, set(supported))


def _refuse_other(
    path: Path, settings: dict[str, Any], supported: dict[str, Sequence[Any]]
) -> None:
    for name, values in supported.items():
        if settings.get(name) not in values:
            expected = next(x for x in values if x is not None)
            raise ValueError(
                f"{path}: `{name}` must be {expected!r}. Received: "
                f"{str(settings.get(name))[:80]!r}, which would change the vectors or scores."
            )


def _check_names(path: Path, settings: dict[str, Any], known: set[str]) -> None:
    unknown = [name for name, value in settings.items() if value and name not in known]
    if unknown:
        raise ValueError(
            f"{path}: the setting `{unknown[0][:40]}` is not supported. Received: "
            f"{str(settings[unknown[0]])[:80]!r}."
        )
