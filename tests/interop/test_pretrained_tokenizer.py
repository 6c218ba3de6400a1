"""The tokenizer of a folder, beside that of transformers."""

import json
import random

import pytest

from keras_attn.interop.tokenizer_files import read_tokenizer
from keras_attn.text import WordPieceTokenizer

transformers = pytest.importorskip("transformers", reason="transformers is of the extra `test`")

RANGES = [
    (0x00, 0x7F), (0x41, 0x5A), (0x61, 0x7A), (0x61, 0x7A), (0x20, 0x40), (0x80, 0x24F),
    (0x250, 0x36F), (0x370, 0x3FF), (0x400, 0x4FF), (0x530, 0x6FF), (0x900, 0x97F),
    (0xE00, 0xE7F), (0x1100, 0x11FF), (0x1E00, 0x1EFF), (0x2000, 0x20CF), (0x2E80, 0x30FF),
    (0x3400, 0x3420), (0x4E00, 0x4E80), (0xAC00, 0xACFF), (0xE000, 0xE010), (0xF900, 0xF920),
    (0xFE00, 0xFFFD), (0x1F300, 0x1F64F), (0x20000, 0x20020), (0xE0100, 0xE0110),
]  # fmt: skip


def mixed_lines(count):
    """Words of one script each, with marks, spaces and "[MASK]" in between."""
    draw = random.Random(0)
    lines = []
    for _ in range(count):
        parts = []
        for _ in range(draw.randint(0, 8)):
            low, high = draw.choice(RANGES)
            parts.append("".join(chr(draw.randint(low, high)) for _ in range(draw.randint(1, 6))))
            parts.append(draw.choice([" ", " ", " ", "", "\t", "\u00a0", "\u3000", "'", "\u0301"]))
            if draw.random() < 0.05:
                parts.append("[MASK]")
        lines.append("".join(parts))
    lines += ["", " ", "a" * 100, "a" * 101, "é" * 100 + " e\u0301" * 3, "[mask] [ MASK ]", "[MASK"]
    return lines


LINES = mixed_lines(10_000)


def vocabulary():
    """Most characters of the lines, alone and inside a word, and some longer pieces."""
    draw = random.Random(1)
    characters = sorted({c.lower() for line in LINES for c in line} | {c for x in LINES for c in x})
    kept = [c for c in characters if len(c) == 1 and not c.isspace() and draw.random() < 0.8]
    kept = [c for c in kept if c.isprintable()]
    pairs = {f"{draw.choice(kept)}{draw.choice(kept)}" for _ in range(300)}
    pairs |= {a + b for a in "aeiost" for b in "aeiost"}
    pieces = [*kept, *(f"##{c}" for c in kept), *sorted(pairs), *sorted(f"##{p}" for p in pairs)]
    return list(dict.fromkeys(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *pieces]))


@pytest.mark.quick("{'do_lower_case': False}")
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"do_lower_case": False},
        pytest.param({"do_lower_case": True, "strip_accents": False}, marks=pytest.mark.slow),
        pytest.param({"do_lower_case": False, "strip_accents": True}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_ids_are_those_of_transformers(settings, tmp_path):
    """Of 10,000 lines in many scripts."""
    tokens = vocabulary()
    (tmp_path / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8", newline="\n")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    theirs = transformers.BertTokenizer(str(tmp_path / "vocab.txt"), **settings)
    if len(theirs) != len(tokens):
        theirs = transformers.BertTokenizer.from_pretrained(tmp_path)
    assert len(theirs) == len(tokens)
    ours = read_tokenizer(tmp_path)
    found = ours.encode(LINES, add_start=True, add_end=True)
    wanted = theirs(LINES)["input_ids"]
    wrong = [line for line, a, b in zip(LINES, found, wanted, strict=True) if a != b]
    assert not wrong, f"{len(wrong)} lines, such as {wrong[0]!r}"
    ids = [i for row in found for i in row]
    assert sum(i == ours.mask_id for i in ids) > 500  # and most words are known
    assert sum(i == ours.unknown_id for i in ids) < len(ids) / 2


TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##b"]
FAST = {
    "added_tokens": [{"id": n, "content": token} for n, token in enumerate(TOKENS[:5])],
    "normalizer": {
        "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
        "strip_accents": None, "lowercase": False,
    },
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "model": {
        "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100, "vocab": {token: n for n, token in enumerate(TOKENS)},
    },
}  # fmt: skip


def folder_of(folder, tokens=None, fast=None, **settings):
    if tokens is not None:
        (folder / "vocab.txt").write_text("\n".join(tokens))
    if fast is not None:
        (folder / "tokenizer.json").write_text(json.dumps(fast))
    if settings:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def test_what_the_files_say(tmp_path):
    assert read_tokenizer(folder_of(tmp_path, do_lower_case=False)) is None
    found = read_tokenizer(folder_of(tmp_path, TOKENS))
    assert found.get_config() == {
        "vocabulary": TOKENS, "lowercase": False, "strip_accents": None, "mask_in_text": True,
    }  # fmt: skip
    (tmp_path / "vocab.txt").unlink()
    assert read_tokenizer(folder_of(tmp_path, fast=FAST)).get_config() == found.get_config()
    assert read_tokenizer(folder_of(tmp_path, TOKENS)).get_config() == found.get_config()
    (tmp_path / "tokenizer_config.json").unlink()
    assert not read_tokenizer(tmp_path).lowercase
    (tmp_path / "tokenizer.json").unlink()
    assert read_tokenizer(tmp_path).lowercase  # as in transformers, if no file says it
    found = read_tokenizer(folder_of(tmp_path, [t for t in TOKENS if t != "[MASK]"]))
    assert found.mask_id is None and not found.mask_in_text


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tokenizer_class": "RobertaTokenizer"}, "`tokenizer_class` must be 'BertTokenizer'"),
        ({"tokenize_chinese_chars": False}, "`tokenize_chinese_chars` must be True"),
        ({"do_basic_tokenize": False}, "`do_basic_tokenize` must be True"),
        ({"never_split": ["x"]}, "`never_split` must be None"),
        ({"additional_special_tokens": ["<e>"]}, "`additional_special_tokens` must be None"),
        ({"cls_token": "<s>"}, r"`cls_token` must be '\[CLS\]'"),
        ({"mask_token": {"content": "<mask>"}}, r"`mask_token` must be '\[MASK\]'"),
        ({"added_tokens_decoder": {"9": {"content": "<e>"}}}, r"added tokens other than.*'<e>'"),
        ({"do_lower_case": None}, "`lowercase` must be true or false"),
        ({"strip_accents": "no"}, "`strip_accents` must be true or false"),
    ],
)
def test_settings_of_a_tokenizer_that_are_not_supported(settings, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        read_tokenizer(folder_of(tmp_path, TOKENS, **settings))


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("model", "type", "BPE"),
        ("model", "unk_token", "<unk>"),
        ("model", "continuing_subword_prefix", ""),
        ("model", "max_input_chars_per_word", 50),
        ("normalizer", "type", "Lowercase"),
        ("normalizer", "clean_text", False),
        ("normalizer", "handle_chinese_chars", False),
        ("pre_tokenizer", "type", "Whitespace"),
        ("post_processor", "type", "RobertaProcessing"),
    ],
)
def test_parts_of_a_tokenizer_that_are_not_supported(part, name, value, tmp_path):
    fast = {**FAST, part: {**FAST.get(part, {}), name: value}}
    with pytest.raises(ValueError, match=f"`{name}` of `{part}` must be"):
        read_tokenizer(folder_of(tmp_path, fast=fast))
    with pytest.raises(ValueError, match=f"of `{part}` must be"):
        read_tokenizer(folder_of(tmp_path, fast={**FAST, part: [1]}))


def test_files_that_contradict_each_other(tmp_path):
    for files, message in (
        ({"tokens": TOKENS, "fast": FAST, "do_lower_case": True}, "lowercase=True in the first"),
        ({"tokens": [*TOKENS, "c"]}, "must have the same tokens"),
    ):
        with pytest.raises(ValueError, match=message):
            read_tokenizer(folder_of(tmp_path, **files))
        (tmp_path / "tokenizer_config.json").unlink(missing_ok=True)


def test_vocabularies_that_are_wrong(tmp_path):
    for change, message in (
        ({"vocab": {"[PAD]": 0, "a": 2}}, "must be 0, 1, 2 and so on"),
        ({"vocab": {"[PAD]": "0"}}, "must be an object that gives each token an integer id"),
        ({"vocab": {"a": 0, "[PAD]": 1}}, r"\[PAD\] as its first token"),
    ):
        fast = {**FAST, "model": {**FAST["model"], **change}}
        with pytest.raises(ValueError, match=message):
            read_tokenizer(folder_of(tmp_path, fast=fast))
    for tokens in ([{"content": "<e>"}], 5, [[1]]):
        added = {**FAST, "added_tokens": tokens}
        with pytest.raises(ValueError, match=r"tokenizer\.json: added tokens other than"):
            read_tokenizer(folder_of(tmp_path, fast=added))
    folder_of(tmp_path, fast=FAST)
    (tmp_path / "added_tokens.json").write_text('{"<e>": 8}')
    with pytest.raises(ValueError, match=r"added_tokens.json: .*'<e>'"):
        read_tokenizer(tmp_path)


def test_a_tokenizer_and_a_model_that_do_not_belong_together(tmp_path):
    from keras_attn.interop import read_pretrained, save_pretrained
    from keras_attn.models import BertConfig

    config = BertConfig(8, dim=4, num_layers=1, num_heads=1, intermediate_dim=4, sequence_length=4)
    save_pretrained(tmp_path / "a", config.build(), config, WordPieceTokenizer(TOKENS))
    path = tmp_path / "a/config.json"
    path.write_text(path.read_text().replace('"pad_token_id": 0', '"pad_token_id": 3'))
    with pytest.raises(ValueError, match="`pad_token_id` must be 0"):
        read_pretrained(tmp_path / "a")
    (tmp_path / "a/vocab.txt").write_text("\n".join([*TOKENS, "c"]))
    with pytest.raises(ValueError, match="has 9 tokens, but the model has 8"):
        read_pretrained(tmp_path / "a")
