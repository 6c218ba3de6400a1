"""Byte pairs as GPT-2 and Llama 3 cut them: the ids of `transformers`, in Python and in a graph."""

import json
import random
import unicodedata

import pytest
import tensorflow as tf
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

from keras_attn.text import BytePairTokenizer
from keras_attn.text.byte_pair_patterns import LLAMA3_PATTERN, graph_pattern

END = "<|endoftext|>"
TEXTS = [
    "It's the end of the line, isn't it? They'll say we've been there, and I'd say you're right.",
    "def f(x):\n    return x + 1\n\n\nclass A:\n    pass\n  \t\t x = 2024\n\n",
    "Das Mädchen, die Straße; naïve cafés, e\u0301te\u0301 שלום עולם, مرحبا بالعالم",
    "漢字とかな、漢字とかな。 漢字とかな 2024年 ١٢٣ ½ Ⅷ x²",
    "👩‍👩‍👧 👩‍👩‍👧 ☕️ \u00a0\u3000\u2028 \x00 \x1c\x85 ",
] * 3  # fmt: skip
# What the branches of the patterns tell apart, and what other releases of Unicode know or do not.
PIECES = [
    *"abc XYZ  \t\n\r\v\f  '''sstdmrelv012 ,.!?-_", "'ll", "'re", "'LL", "'S", "'\u017f", "\u2019s",
    " the", " and", " in", "  ", "\n\n", "\r\n", "\u00a0", "\u3000", "\u2028", "\x85", "\u200b",
    "\u1680", "\0", "\x1c", "\x1f", "\u00e9", "e\u0301", "漢", "字", "ا", "ע", "ก", "😀",
    "👩\u200d👧", "²", "Ⅷ", "½", "٣", "\u1c89", "\ua7cb", "\U000105c0", "\U00010d40", "\ufeff",
    "\ud7ff", "\U0010ffff", "\ufb05", "\u212a", END, "<pad>",
]  # fmt: skip
CODES = [*range(0xD800), *range(0xE000, 0x110000)]


def odd_lines(count, seed=0):
    rng = random.Random(seed)
    lines = ["", " ", "  ", "\n", " \n ", "a  b", "a  ", "  a", "\t\ta", " \t'sa", "a" * 300]
    while len(lines) < count:
        line = [
            rng.choice(PIECES) if rng.random() < 0.93 else chr(rng.choice(CODES))
            for _ in range(rng.randint(1, 40))
        ]
        lines.append("".join(line))
    return lines[:count]


def trained(pattern):
    """A tokenizer of the `tokenizers` library, and ours of the same vocabulary."""
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern == "gpt2")
    if pattern == "llama3":
        split = pre_tokenizers.Split(Regex(LLAMA3_PATTERN), "isolated")
        level = pre_tokenizers.Sequence([split, level])
    engine = Tokenizer(models.BPE())
    engine.pre_tokenizer, engine.decoder = level, decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=[END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    engine.train_from_iterator(TEXTS, trainer)
    model = json.loads(engine.to_str())["model"]
    vocabulary = sorted(model["vocab"], key=model["vocab"].get)
    ours = BytePairTokenizer(
        vocabulary, model["merges"], normalize=False, pattern=pattern, special_tokens=[END] * 3
    )
    return engine, ours, ours.to_graph()


@pytest.fixture(scope="module", params=["gpt2", "llama3"])
def three(request):
    return trained(request.param)


def check_ids(three, lines):
    engine, ours, graph = three
    engine.encode_special_tokens = True  # as characters, as here
    wanted = [engine.encode(line).ids for line in lines]
    assert ours.encode(lines) == wanted
    assert graph.encode(tf.constant(lines)).to_list() == wanted
    assert ours.decode(wanted) == lines
    decoded = graph.decode(tf.ragged.constant(wanted, dtype=tf.int32)).numpy()
    assert [text.decode() for text in decoded] == lines


@pytest.mark.slow
def test_ids_of_odd_lines(three):
    check_ids(three, odd_lines(500))


@pytest.mark.slow
def test_ids_of_ten_thousand_odd_lines(three):
    check_ids(three, odd_lines(10_000, seed=1))


@pytest.mark.slow
def test_code_points_of_all_planes_between_others(three):
    """Code points after a letter, a number, a blank, a symbol and a line break."""
    codes = [*CODES[:0x3000], *CODES[0x3000:0x34000:13], *CODES[0x34000::1009]]
    texts = [f"a{c}1{c} {c}!{c}{c}  {c}\n {c}" for c in map(chr, codes)]
    check_ids(three, ["".join(texts[i : i + 50]) for i in range(0, len(texts), 50)])


def test_ids_and_texts_of_transformers():
    transformers = pytest.importorskip("transformers", reason="transformers is of the extra `test`")
    _, ours, graph = trained("gpt2")
    reference = transformers.GPT2Tokenizer(
        {token: index for index, token in enumerate(ours.vocabulary)}, list(ours.merges)
    )
    lines = [line for line in odd_lines(300, seed=2) if END not in line]  # a token there
    wanted = reference(lines, add_special_tokens=False)["input_ids"]
    assert ours.encode(lines) == wanted
    assert graph.encode(tf.constant(lines)).to_list() == wanted
    rng = random.Random(0)
    rows = [[rng.randrange(len(ours.vocabulary)) for _ in range(20)] for _ in range(50)]
    texts = [reference.decode(row, skip_special_tokens=True) for row in rows]
    assert ours.decode(rows) == texts
    assert [text.decode() for text in graph.decode(tf.constant(rows)).numpy()] == texts


def test_pre_tokens_by_hand():
    """The last blank before a word belongs to the word, if it is a space."""
    _, ours, graph = trained("gpt2")
    bare = BytePairTokenizer(
        [t for t in ours.vocabulary if t == END or len(t) == 1] + ["ĠĠ", "Ġa", "ĊĊ"],
        [("Ġ", "Ġ"), ("Ġ", "a"), ("Ċ", "Ċ")],
        normalize=False,
        pattern="gpt2",
        special_tokens=[END] * 3,
    )
    text = "   a\n\n\na  "
    assert bare.tokens(bare.encode(text)) == ["▁▁", "▁a", "<0x0A><0x0A>", "<0x0A>", "a", "▁▁"]
    assert bare.to_graph().encode(tf.constant([text])).to_list() == [bare.encode(text)]
    assert bare.pad_id == bare.start_id == bare.end_id == bare.vocabulary.index(END)
    assert bare.encode("a", add_start=True) == [bare.end_id, *bare.encode("a")]
    assert END in bare.decode(bare.encode(END)) and bare.decode([bare.end_id]) == ""
    for count in (0, 1, 3, 50):
        lines = odd_lines(20, seed=3)
        found = graph.encode_start(tf.constant(lines), count).to_list()
        assert found == [ids[:count] for ids in ours.encode(lines)]


@pytest.mark.slow
def test_ignored_merges():
    """A pre-token of the vocabulary is one token, though no merges lead to it."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    settings = {"normalize": False, "pattern": "llama3", "special_tokens": [END] * 3}
    vocabulary = [*alphabet, "low", "lo", END]
    plain = BytePairTokenizer(vocabulary, [("l", "o")], **settings)
    whole = BytePairTokenizer(vocabulary, [("l", "o")], ignore_merges=True, **settings)
    for tokenizer, ids in ((plain, [257, alphabet.index("w")]), (whole, [256])):
        assert tokenizer.encode("low") == ids
        assert tokenizer.to_graph().encode(tf.constant(["low"])).to_list() == [ids]
        again = BytePairTokenizer.from_config(json.loads(json.dumps(tokenizer.get_config())))
        assert again.encode("low") == ids and again.get_config() == tokenizer.get_config()


def test_settings(tmp_path):
    usual = BytePairTokenizer.train(["a b"], 259)
    assert set(usual.get_config()) == {"vocabulary", "merges", "normalize"}
    of_gpt2 = BytePairTokenizer.train(["it's it's"], 261, normalize=False, pattern="gpt2")
    assert of_gpt2.tokens(of_gpt2.encode("it's")) == ["it", "'s"]
    of_gpt2.save_assets(tmp_path)
    assert BytePairTokenizer.load_assets(tmp_path).pattern == "gpt2"
    assert graph_pattern("keras_attn").longest == 65
    with pytest.raises(ValueError, match=r"`pattern` must be one of .'keras_attn', 'gpt2'"):
        BytePairTokenizer.train(["a"], 259, pattern="gpt3")
    config = usual.get_config()
    for special, message in (
        (["<pad>"], "the tokens for padding, the start and the end"),
        ("<pad>", "must be strings"),
        (["<|a|>"] * 3, r"Received: a vocabulary without .'<|a|>'"),
    ):
        with pytest.raises(ValueError, match=message):
            BytePairTokenizer(**{**config, "special_tokens": special})


WHOLE = ["  ", "   ", "    ", "|||IP|||", "[unused0]", "\t "]


@pytest.fixture(scope="module")
def composing(three):
    """As ModernBERT's: NFC, and runs of blanks that are one token wherever they stand."""
    engine, own, _ = three
    engine = Tokenizer.from_str(engine.to_str())
    engine.normalizer, engine.encode_special_tokens = normalizers.NFC(), True
    engine.add_tokens([AddedToken(token, normalized=True) for token in WHOLE])
    settings = own.get_config()
    settings["vocabulary"] = [*own.vocabulary, *WHOLE]
    own = BytePairTokenizer(**settings, compose=True, whole_tokens=WHOLE)
    return engine, own, own.to_graph()


def whole_lines(count):
    rng = random.Random(1)
    parts = [*WHOLE, " ", "a\u0301", "\u1112\u1161\u11ab", "o\u0302", "  \u0301"]
    for line in odd_lines(count, 1):
        cut = rng.randint(0, len(line))
        yield line[:cut] + rng.choice(parts) + rng.choice(parts) + line[cut:]


@pytest.mark.slow
def test_whole_tokens_and_composed_marks(composing):
    engine, own, graph = composing
    lines = [*whole_lines(300), "x  y    z [unused0]|||IP||||||IP|| \t  \n", "", "   "]
    ids, offsets = own.encode_with_offsets(lines)
    wanted = [e.ids for e in engine.encode_batch_fast(lines, add_special_tokens=False)]
    nfc = [own.normalized(line) == unicodedata.normalize("NFC", line) for line in lines]
    assert sum(nfc) > 0.75 * len(lines)  # some have characters that NFC decomposes
    assert [a for a, same in zip(ids, nfc, strict=True) if same] == [
        a for a, same in zip(wanted, nfc, strict=True) if same
    ]
    assert graph.encode(tf.constant(lines)).to_list() == ids
    found, starts, ends = graph.encode_with_offsets(tf.constant(lines))
    assert found.to_list() == ids
    for line, row, first, last in zip(
        lines, offsets, starts.to_list(), ends.to_list(), strict=True
    ):
        bytes_of = [len(line[:i].encode()) for i in range(len(line) + 1)]
        assert [(bytes_of[a], bytes_of[b]) for a, b in row] == list(zip(first, last, strict=True))
    texts = [own.normalized(line) for line in lines]
    assert own.decode(ids) == texts
    assert [x.decode() for x in graph.decode(tf.ragged.constant(ids)).numpy()] == texts


@pytest.mark.parametrize("whole", [[""], ["<pad>"], ["a ", "a "]])
def test_wrong_whole_tokens(whole):
    own = BytePairTokenizer.train(["a"], 259)
    vocabulary = dict.fromkeys([*own.vocabulary, *whole])
    with pytest.raises(ValueError, match="`whole_tokens` must be different strings"):
        BytePairTokenizer(list(vocabulary), [], whole_tokens=whole)
