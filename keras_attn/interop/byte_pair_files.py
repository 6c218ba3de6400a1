"""The files of byte-pair tokenizers, of GPT-2, Llama 3, RoBERTa and ModernBERT."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from keras_attn.interop.json_files import read_object
from keras_attn.interop.modern_bert_settings import KIND as MODERN_BERT
from keras_attn.packages import needed
from keras_attn.text import BytePairTokenizer
from keras_attn.text.byte_pair_patterns import PATTERNS, pre_tokenizer

VOCABULARY, MERGES = "vocab.json", "merges.txt"
FAST = "tokenizer.json"
SETTINGS = "tokenizer_config.json"
GENERATION = "generation_config.json"
SENTENCE_PIECE = "tokenizer.model"
GPT2_END = "<|endoftext|>"
_ROBERTA = {"pad": "<pad>", "start": "<s>", "end": "</s>", "unknown": "<unk>", "mask": "<mask>"}
"""Special tokens of RoBERTa."""
_MODERN_BERT = {
    "pad": "[PAD]", "start": "[CLS]", "end": "[SEP]", "unknown": "[UNK]", "mask": "[MASK]",
}  # fmt: skip
_OF_ROWS = {"roberta": _ROBERTA, MODERN_BERT: _MODERN_BERT}
"""Special tokens of encoders, whose rows have a start and an end."""
_CLASSES = {"gpt2": "GPT2Tokenizer", "roberta": "RobertaTokenizer"}
"""Tokenizers of transformers that read `vocab.json` and `merges.txt`, by the kind of model."""
_LEAVE_OUT = "Load the model from a folder without the files of its tokenizer, and use your own."
# What changes ids, with the values that are supported.
_MODEL = {
    "type": ("BPE",),
    "byte_fallback": (False, None),
    "dropout": (None,),
    "continuing_subword_prefix": ("", None),
    "end_of_word_suffix": ("", None),
}
_CUT = {"add_prefix_space": (False,), "use_regex": (True, None)}


def read_byte_pairs(folder: Path, settings: dict[str, Any]) -> BytePairTokenizer | None:
    """Reads the byte-pair tokenizer in a folder; None if there is none."""
    fast, vocabulary, merges = (folder / name for name in (FAST, VOCABULARY, MERGES))
    if not fast.is_file() and not vocabulary.is_file():
        return None
    of_rows = _OF_ROWS.get(settings.get("model_type", ""))
    roberta = of_rows is _ROBERTA
    own = read_object(folder / SETTINGS) if (folder / SETTINGS).is_file() else {}
    if own.get("add_prefix_space") not in (False, None):
        raise ValueError(f"{folder / SETTINGS}: `add_prefix_space` must be False. {_LEAVE_OUT}")
    if fast.is_file():
        found = _read_fast(fast)
    else:
        kind, wanted = own.get("tokenizer_class"), _CLASSES["roberta" if roberta else "gpt2"]
        if kind not in (wanted, f"{wanted}Fast", None):
            raise ValueError(
                f"{folder / SETTINGS}: a {VOCABULARY} must belong to a {wanted!r}. Received: "
                f"{kind!r}. {_LEAVE_OUT}"
            )
        ids_of, pairs = read_object(vocabulary), _read_merges(merges)
        found = {"pattern": "gpt2", "vocabulary": ids_of, "merges": pairs, "special": []}
    tokens = _in_order(found["vocabulary"], folder)
    usual = of_rows or {"end": GPT2_END}
    # The `sep_token` and `cls_token` of an encoder are those of its rows.
    end = named_token(own, *(["sep_token"] if of_rows else []), "eos_token")
    ends = numbered_tokens(end_ids_of(folder, settings), tokens)
    end = end or next(iter(ends), usual["end"])
    start = named_token(own, *(["cls_token"] if of_rows else []), "bos_token")
    first = numbered_tokens(settings.get("bos_token_id"), tokens)
    start = start or next(iter(first), usual.get("start", end))
    filling = numbered_tokens(settings.get("pad_token_id"), tokens)
    pad = named_token(own, "pad_token") or next(iter(filling), usual.get("pad", end))
    others = [*found["special"], *filter(None, [named_token(own, "unk_token")])]
    if of_rows:
        names = named_token(own, "mask_token"), *of_rows.values()
        others += [token for token in names if token in found["vocabulary"]]
    special = [pad, start, end, *dict.fromkeys(t for t in others if t not in (pad, start, end))]
    try:
        return BytePairTokenizer(
            tokens,
            found["merges"],
            normalize=False,
            pattern=found["pattern"],
            special_tokens=special,
            ignore_merges=found.get("ignore_merges", False),
            end_tokens=[token for token in ends if token in special and token != end],
            compose=found.get("compose", False),
            whole_tokens=[t for t in found.get("whole", []) if t not in special],
        )
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from error


def write_byte_pairs(
    folder: Path, tokenizer: BytePairTokenizer, sequence_length: int, kind: str = "gpt2"
) -> None:
    """Writes a byte-pair tokenizer to a folder in the format of transformers."""
    if tokenizer.normalize:
        raise ValueError(
            "transformers does not support the normalization of this tokenizer. Received: a "
            "BytePairTokenizer with normalize=True. Train one with normalize=False."
        )
    with needed("A byte-pair tokenizer"):
        from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors

    ids_of = {token: index for index, token in enumerate(tokenizer.vocabulary)}
    pairs = list(tokenizer.merges)
    engine = Tokenizer(models.BPE(ids_of, pairs, ignore_merges=tokenizer.ignore_merges))
    engine.pre_tokenizer = pre_tokenizer(tokenizer.pattern)
    engine.decoder = decoders.ByteLevel()
    if tokenizer.compose:
        engine.normalizer = normalizers.NFC()
    engine.add_tokens([AddedToken(token, normalized=True) for token in tokenizer.whole_tokens])
    special = dict.fromkeys(tokenizer.special_tokens)
    engine.add_special_tokens([AddedToken(token, normalized=False) for token in special])
    pad, start, end = tokenizer.special_tokens[:3]
    of_rows = _OF_ROWS.get(kind)
    more: dict[str, str | None] = {}
    if of_rows is not None:
        around = ((end, ids_of[end]), (start, ids_of[start]))
        if of_rows is _ROBERTA:
            engine.post_processor = processors.RobertaProcessing(*around, True, False)
        else:
            engine.post_processor = processors.TemplateProcessing(
                single=[start, "$A", end],
                pair=[start, "$A", end, "$B:1", f"{end}:1"],
                special_tokens=list(around),
            )
        unknown, mask = (of_rows[name] for name in ("unknown", "mask"))
        more = {"cls_token": start, "sep_token": end, "pad_token": pad}
        more["unk_token"] = unknown if unknown in special else end
        more["mask_token"] = mask if mask in special else None
    engine.save(str(folder / FAST))
    plain = not (tokenizer.ignore_merges or tokenizer.compose or tokenizer.whole_tokens)
    of_gpt2 = tokenizer.pattern == "gpt2" and plain and kind != MODERN_BERT
    named = _CLASSES["roberta" if kind == "roberta" else "gpt2"]
    settings = {
        "tokenizer_class": named if of_gpt2 else "PreTrainedTokenizerFast",
        "bos_token": start,
        "eos_token": end,
        "unk_token": end,
        **({} if pad == end else {"pad_token": pad}),
        "add_prefix_space": False,
        "model_max_length": sequence_length,
        **more,
    }
    _write_json(folder / SETTINGS, settings)
    if of_gpt2:
        _write_json(folder / VOCABULARY, ids_of, indent=None)
        lines = "".join(f"{left} {right}\n" for left, right in pairs)
        (folder / MERGES).write_text(f"#version: 0.2\n{lines}", encoding="utf-8", newline="\n")


def _read_merges(path: Path) -> list[list[str]]:
    """The pairs of a `merges.txt`."""
    if not path.is_file():
        raise ValueError(
            f"{path.parent / VOCABULARY} requires a {path.name} in the same folder. {_LEAVE_OUT}"
        )
    pairs = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if not line.strip() or (number == 1 and line.startswith("#version")):
            continue
        pair = line.rstrip("\r").split(" ")
        if len(pair) != 2:
            raise ValueError(
                f"{path}, line {number}: expected two tokens with a space between them. Received: "
                f"{line[:60]!r}."
            )
        pairs.append(pair)
    return pairs


def _read_fast(path: Path) -> dict[str, Any]:
    """The vocabulary, merges, pattern and special tokens of a `tokenizer.json`."""
    content = read_object(path)
    model = cast(dict[str, Any], content.get("model"))
    _check(model, _MODEL, "model", path)
    normalizer = content.get("normalizer")
    if normalizer not in (None, {"type": "NFC"}):
        raise ValueError(f"{path}: the `normalizer` must be NFC or none. {_LEAVE_OUT}")
    added = content.get("added_tokens") or []
    if not isinstance(added, list) or not all(isinstance(token, dict) for token in added):
        raise ValueError(f"{path}: `added_tokens` must be a list of objects. {_LEAVE_OUT}")
    whole = [token for token in added if not token.get("special")]
    odd = [t for t in whole if any(t.get(name) for name in ("single_word", "lstrip", "rstrip"))]
    if odd:
        raise ValueError(
            f"{path}: added tokens must not absorb or require adjacent blanks. Received: "
            f"{[token.get('content') for token in odd[:5]]}. {_LEAVE_OUT}"
        )
    ids_of, merges = model.get("vocab"), model.get("merges")
    if not isinstance(ids_of, dict) or not isinstance(merges, list):
        raise ValueError(f"{path}: the model must have a `vocab` and `merges`. {_LEAVE_OUT}")
    wrong = [t.get("content") for t in added if not isinstance(t.get("content"), str)]
    if wrong:
        raise ValueError(
            f"{path}: the `content` of added tokens must be strings. Received: {wrong[0]!r}. "
            f"{_LEAVE_OUT}"
        )
    special = {token["content"]: token.get("id") for token in added}
    for token, index in special.items():
        if ids_of.get(token, index) != index:
            raise ValueError(f"{path}: the added token {token!r} has another id in the vocabulary.")
    return {
        "pattern": _pattern(content.get("pre_tokenizer"), path),
        "vocabulary": {**ids_of, **special},
        "merges": [pair.split(" ") if isinstance(pair, str) else pair for pair in merges],
        "special": [token.get("content") for token in added if token.get("special")],
        "whole": [token.get("content") for token in whole],
        "compose": normalizer is not None,
        "ignore_merges": model.get("ignore_merges") is True,
    }


def _pattern(cut: object, path: Path) -> str:
    """The name of the pattern by which a `tokenizer.json` cuts texts."""
    parts = cut.get("pretokenizers") if isinstance(cut, dict) else None
    if parts is None:
        _check(cut, {"type": ("ByteLevel",), **_CUT}, "pre_tokenizer", path)
        return "gpt2"
    names = {pattern: name for name, pattern in PATTERNS.items()}
    split, level = parts if isinstance(parts, list) and len(parts) == 2 else (None, None)
    received = split.get("pattern", {}) if isinstance(split, dict) else None
    received = received.get("Regex") if isinstance(received, dict) else None
    if received not in names:
        raise ValueError(
            f"{path}: `pre_tokenizer` must be GPT-2's, or use the pattern of Llama 3. Received: "
            f"{str(received or cut)[:200]!r}. {_LEAVE_OUT}"
        )
    split = cast(dict[str, Any], split)  # it has a pattern
    split = {**split, "behavior": str(split.get("behavior")).lower()}
    _check(split, {"behavior": ("isolated",), "invert": (False, None)}, "pre_tokenizer", path)
    only = {"type": ("ByteLevel",), "add_prefix_space": (False,), "use_regex": (False,)}
    _check(level, only, "pre_tokenizer", path)
    return names[received]


def _check(part: object, supported: dict[str, tuple[Any, ...]], name: str, path: Path) -> None:
    for key, values in supported.items():
        value = part.get(key) if isinstance(part, dict) else part
        if not isinstance(part, dict) or value not in values:
            raise ValueError(
                f"{path}: `{key}` of `{name}` must be {values[0]!r}. Received: {str(value)[:80]!r}."
                f" {_LEAVE_OUT}"
            )


def _in_order(ids_of: dict[str, Any], folder: Path) -> list[str]:
    """The tokens in the order of their ids."""
    numbers = list(ids_of.values())
    if not all(type(n) is int for n in numbers) or sorted(numbers) != list(range(len(numbers))):
        raise ValueError(
            f"{folder}: the ids of the tokenizer's vocabulary must be 0, 1, 2 and so on, each once."
            f" {_LEAVE_OUT}"
        )
    return sorted(ids_of, key=ids_of.__getitem__)


def named_token(settings: dict[str, Any], *names: str) -> str | None:
    """Returns the first of several special tokens that a `tokenizer_config.json` contains."""
    for name in names:
        value = settings.get(name)
        value = value.get("content") if isinstance(value, dict) else value
        if isinstance(value, str) and value:
            return value
    return None


def end_ids_of(folder: Path, settings: Mapping[str, Any]) -> Any:
    """Returns the id or ids at which transformers ends a generated text."""
    path = folder / GENERATION
    own = read_object(path) if path.is_file() else {}
    return own.get("eos_token_id", settings.get("eos_token_id"))


def numbered_tokens(ids: object, tokens: list[str]) -> list[str]:
    """Returns the special tokens for an id, or a list of ids, in a `config.json`."""
    ids = ids if isinstance(ids, list) else [ids]
    return [tokens[i] for i in ids if type(i) is int and 0 <= i < len(tokens)]


def _write_json(path: Path, content: object, indent: int | None = 2) -> None:
    text = json.dumps(content, indent=indent, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8")
