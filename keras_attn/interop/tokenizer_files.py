"""The files of BERT's tokenizer, read and written."""

from __future__ import annotations

import json
from collections.abc import ValuesView
from pathlib import Path
from typing import Any, cast

from keras_attn.interop.json_files import read_object
from keras_attn.text import WordPieceTokenizer

VOCABULARY = "vocab.txt"
FAST = "tokenizer.json"
SETTINGS = "tokenizer_config.json"
ADDED = "added_tokens.json"
SPECIAL_TOKENS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
_CLASSES = (
    "BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "DistilBertTokenizerFast",
    "PreTrainedTokenizerFast", "TokenizersBackend",
)  # fmt: skip
# Settings of `tokenizer_config.json` that change ids, with the values that are supported.
_ONLY: dict[str, tuple[Any, ...]] = {
    "tokenizer_class": (*_CLASSES, None),
    "tokenize_chinese_chars": (True, None),
    "do_basic_tokenize": (True, None),
    "clean_text": (True, None),
    "never_split": (None, []),
    "wordpieces_prefix": ("##", None),
    "additional_special_tokens": (None, []),
    "extra_special_tokens": (None, [], {}),
    "split_special_tokens": (False, None),
}
_LEAVE_OUT = "Load the model from a folder without the files of its tokenizer, and use your own."


def read_tokenizer(folder: Path) -> WordPieceTokenizer | None:
    """Reads the WordPiece tokenizer in a folder; None if there is none."""
    vocabulary, fast = folder / VOCABULARY, folder / FAST
    if not vocabulary.is_file() and not fast.is_file():
        return None
    settings = read_object(folder / SETTINGS) if (folder / SETTINGS).is_file() else {}
    _check_settings(settings, folder / SETTINGS)
    if (folder / ADDED).is_file():
        _check_added(list(read_object(folder / ADDED)), folder / ADDED)
    found = {
        name: settings[theirs]
        for name, theirs in (("lowercase", "do_lower_case"), ("strip_accents", "strip_accents"))
        if theirs in settings
    }
    tokens = None
    if fast.is_file():
        tokens, normalizer = _read_fast(fast)
        for name, value in normalizer.items():
            if found.setdefault(name, value) != value:
                raise ValueError(
                    f"{folder / SETTINGS} and {fast} must agree. Received: {name}={found[name]!r} "
                    f"in the first and {value!r} in the second. {_LEAVE_OUT}"
                )
    for name, value in found.items():
        if not isinstance(value, bool) and (value is not None or name == "lowercase"):
            raise ValueError(f"{folder}: `{name}` must be true or false. Received: {value!r}.")
    if vocabulary.is_file():
        lines = WordPieceTokenizer.from_vocabulary_file(vocabulary).vocabulary
        if tokens is not None and tuple(tokens) != lines:
            raise ValueError(
                f"{vocabulary} and {fast} must have the same tokens. Received: {len(lines)} "
                f"and {len(tokens)} tokens, some of which differ. Remove the wrong file."
            )
        tokens = list(lines)
    try:
        tokens = tokens or []
        return WordPieceTokenizer(tokens, **found, mask_in_text="[MASK]" in tokens)
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from error


def write_tokenizer(
    folder: Path, tokenizer: WordPieceTokenizer, kind: str, sequence_length: int
) -> None:
    """Writes a WordPiece tokenizer to a folder in the format of transformers."""
    broken = [token for token in tokenizer.vocabulary if "\n" in token or "\r" in token]
    if broken:
        raise ValueError(
            f"{VOCABULARY} must have one token on each line. Received: the token {broken[0]!r}."
        )
    special = {
        name: token if token in tokenizer.vocabulary else None
        for name, token in SPECIAL_TOKENS.items()
    }
    settings = {
        **special,
        "tokenizer_class": "DistilBertTokenizer" if kind == "distilbert" else "BertTokenizer",
        "do_lower_case": tokenizer.lowercase,
        "strip_accents": tokenizer.strip_accents,
        "tokenize_chinese_chars": True,
        "model_max_length": sequence_length,
    }
    (folder / VOCABULARY).write_text(
        "".join(f"{token}\n" for token in tokenizer.vocabulary), encoding="utf-8", newline="\n"
    )
    (folder / SETTINGS).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    tokens = {name: token for name, token in special.items() if token}
    text = json.dumps(tokens, indent=2) + "\n"
    (folder / "special_tokens_map.json").write_text(text, encoding="utf-8")


def _check_settings(settings: dict[str, Any], path: Path) -> None:
    """Refuses settings that would give other ids."""
    for name, supported in _ONLY.items():
        value = settings.get(name)
        if not any(value is s or (type(value) is type(s) and value == s) for s in supported):
            raise ValueError(
                f"{path}: `{name}` must be {supported[0]!r}. Received: {value!r}. {_LEAVE_OUT}"
            )
    for name, token in SPECIAL_TOKENS.items():
        value = settings.get(name)
        value = value.get("content") if isinstance(value, dict) else value
        if value not in (token, None):
            raise ValueError(
                f"{path}: `{name}` must be {token!r}. Received: {value!r}. {_LEAVE_OUT}"
            )
    added = settings.get("added_tokens_decoder") or {}
    if not isinstance(added, dict):
        raise ValueError(f"{path}: `added_tokens_decoder` must be an object. {_LEAVE_OUT}")
    _check_added([entry.get("content") for entry in _objects(added.values())], path)


def _check_added(tokens: list[Any], path: Path) -> None:
    """Refuses tokens that are looked for in texts before anything else."""
    others = [token for token in tokens if token not in SPECIAL_TOKENS.values()]
    if others:
        raise ValueError(
            f"{path}: added tokens other than {list(SPECIAL_TOKENS.values())} are not "
            f"supported. Received: {others[:5]}. {_LEAVE_OUT}"
        )


def _objects(values: object) -> list[dict[str, Any]]:
    values = values if isinstance(values, list | ValuesView) else [values]
    return [value if isinstance(value, dict) else {} for value in values]


def _read_fast(path: Path) -> tuple[list[str], dict[str, Any]]:
    """Returns the vocabulary and the settings of the normalizer of a `tokenizer.json`."""
    content = read_object(path)

    def check(part: str, supported: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
        found = content.get(part)
        for name, values in supported.items():
            value = found.get(name) if isinstance(found, dict) else found
            if value not in values:
                raise ValueError(
                    f"{path}: `{name}` of `{part}` must be {values[0]!r}. Received: "
                    f"{str(value)[:80]!r}. {_LEAVE_OUT}"
                )
        return cast(dict[str, Any], found)

    model = check(
        "model",
        {
            "type": ("WordPiece",),
            "unk_token": ("[UNK]",),
            "continuing_subword_prefix": ("##",),
            "max_input_chars_per_word": (100,),
        },
    )
    normalizer = check(
        "normalizer",
        {"type": ("BertNormalizer",), "clean_text": (True,), "handle_chinese_chars": (True,)},
    )
    check("pre_tokenizer", {"type": ("BertPreTokenizer",)})
    if content.get("post_processor") is not None:
        check("post_processor", {"type": ("TemplateProcessing", "BertProcessing")})
    added = _objects(content.get("added_tokens") or [])
    _check_added([token.get("content") for token in added], path)
    ids_of = model.get("vocab")
    if not isinstance(ids_of, dict) or not all(type(n) is int for n in ids_of.values()):
        raise ValueError(
            f"{path}: `vocab` must be an object that gives each token an integer id. Received: "
            f"{str(ids_of)[:80]}."
        )
    if sorted(ids_of.values()) != list(range(len(ids_of))):
        raise ValueError(f"{path}: the ids of `vocab` must be 0, 1, 2 and so on, each once.")
    settings = {name: normalizer.get(name) for name in ("lowercase", "strip_accents")}
    return sorted(ids_of, key=ids_of.__getitem__), settings
