"""Words: the rule by hand, ids, offsets, files, and the graph against Python on odd strings."""

import functools
import json
import random

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import run_python

from keras_attn.fields import ODD_TEXTS
from keras_attn.text import TOKENIZERS, WordTokenizer, byte_places, tokenizer_name
from keras_attn.text.words import SPECIAL_TOKENS

TEXTS = ["A dog runs.", "a DOG doesn't run; it's 3.5 km", "the U.S. café, Σας \u0130"]
# Of the Penn Treebank's rule for contractions, and what GloVe's vocabulary has.
RULE = {
    "Don't go, they've won": "do n't go , they 've won",
    "couldn't've can't won't": "could n't 've ca n't wo n't",
    "she's I'm he'd we'll you're": "she 's i 'm he 'd we 'll you 're",
    "it 's done , is n't it": "it 's done , is n't it",
    "DON'T IT'S": "do n't it 's",
    "don\u2019t it\u2019s \u2019": "do n't it 's \u2019",
    "'hello' 'tis the dogs' o'clock": "' hello ' ' tis the dogs ' o'clock",
    "1,000.50 at 10:30, 3.5mm 2nd v1.2.3.": "1,000.50 at 10:30 , 3.5mm 2nd v1.2.3 .",
    "the U.S. and e.g. x. y": "the u.s. and e.g. x . y",
    "well-known rock-and-roll -x- a--b": "well-known rock-and-roll - x - a -- b",
    "wait... what.... (yes)!?": "wait ... what ... . ( yes ) ! ?",
    "\"a\" ``b'' $5 #1 @me 50%": "\" a \" `` b '' $ 5 # 1 @ me 50 %",
    "漢字 ไทย \u3042": "漢 字 ไ ท ย \u3042",
    "cafe\u0301 \U0001f469\u200d\U0001f467!": "café \U0001f469\u200d \U0001f467 !",
    "ΣΑΣ \u0130": "σασ i\u0307",
    "<pad> [CLS]": "< pad > [ cls ]",
    "snake_case a/b": "snake _ case a / b",
    " \n\t ": "",
}  # fmt: skip
HOSTILE = [
    *ODD_TEXTS, *RULE, "''a''b'' ''s '''s", "'s's 'n't n't n'tn't", "\u2019\u2019s \u2019\u2019",
    "a\u200bb \u200d\u200d", "-a- a-'b a'-b '-'", "\ufffe\uffff\U0010ffff", "x" * 5000, "'" * 50,
    "1.2.3,4:5 1. .1 1..2", "a.b.cd A.B a.\u0301b.", "\x1c\x85\u2028\u3000", "ſK'S 'ſ n\u2019T",
]  # fmt: skip
BROKEN = [b"\xff", b"a\xffb's", b"\xed\xa0\x80", b"\xf0\x9f\x99", b"\xc0\x80", b"t\x80o"]


@functools.cache
def both(lowercase=True, hash_buckets=0):
    tokenizer = WordTokenizer.train(TEXTS, lowercase=lowercase, hash_buckets=hash_buckets)
    return tokenizer, tokenizer.to_graph()


def strings(texts):
    return tf.constant([text.encode("utf-8") for text in texts], tf.string)


def of_graph(graph, texts):
    return [[word.decode() for word in row] for row in graph.words(strings(texts)).to_list()]


@pytest.mark.parametrize(("text", "words"), RULE.items())
def test_the_rule(text, words):
    assert both()[0].words(text) == words.split()


@pytest.mark.slow
def test_case_can_be_kept():
    tokenizer, graph = both(lowercase=False)
    assert tokenizer.words("DON'T It\u2019s") == ["DO", "N'T", "It", "'s"]
    assert of_graph(graph, ["DON'T It\u2019s"]) == [["DO", "N'T", "It", "'s"]]
    assert tokenizer.encode("dog") != tokenizer.encode("DOG")


def test_the_commonest_words_get_ids():
    tokenizer = WordTokenizer.train(["b a", "a b c", "c d"])
    assert tokenizer.vocabulary == (*SPECIAL_TOKENS, "a", "b", "c", "d")
    assert WordTokenizer.train(iter(["b a", "a b c"]), 6).vocabulary[4:] == ("a", "b")
    assert WordTokenizer.train(["b a", "a c"], min_frequency=2).vocabulary[4:] == ("a",)
    assert tokenizer.encode("a d e", add_start=True, add_end=True) == [1, 4, 7, 3, 2]
    assert tokenizer.encode(["", "b"]) == [[], [5]]
    with pytest.raises(ValueError, match="contain only 2 words"):
        WordTokenizer.train(["a b"], 9, allow_fewer=False)


def test_decode_and_tokens():
    tokenizer, graph = both()
    ids = tokenizer.encode("The dog doesn't swim.", add_start=True, add_end=True)
    assert tokenizer.decode(ids) == "the dog does n't <unknown> ."
    assert tokenizer.decode([ids, [0, 0]]) == ["the dog does n't <unknown> .", ""]
    assert tokenizer.tokens(ids)[:3] == ["<start>", "the", "dog"]
    assert tokenizer.decode(np.array([ids, ids])) == [tokenizer.decode(ids)] * 2
    rows = np.array([ids, [0] * len(ids)])
    found = [text.decode() for text in graph.decode(tf.constant(rows)).numpy()]
    assert found == tokenizer.decode(rows)
    assert graph.tokens(tf.constant(ids)).numpy()[-1] == b"<end>"


@pytest.mark.slow
def test_unknown_words_are_hashed():
    tokenizer, graph = both(hash_buckets=5)
    known = len(tokenizer.vocabulary)
    assert tokenizer.vocabulary_size == known + 5 == graph.vocabulary_size
    words = [f"word{i}" for i in range(300)]
    ids = tokenizer.encode(" ".join(words))
    assert set(ids) == set(range(known, known + 5))
    assert min(ids.count(i) for i in set(ids)) > 20
    # By hand: the sum of code points times powers of 48271, modulo a prime, modulo the buckets.
    total = sum(ord(c) * pow(48271, i + 1, 2**31 - 1) for i, c in enumerate("zebra"))
    assert tokenizer.encode("zebra") == [known + total % (2**31 - 1) % 5]
    assert tokenizer.tokens([known, known + 4]) == ["<unknown 1>", "<unknown 5>"]
    for texts in (words, HOSTILE):
        assert graph.encode(strings(texts)).to_list() == tokenizer.encode(texts)


def test_offsets_by_hand():
    tokenizer, _ = both()
    text = " It\u2019s  the e\u0301\u0301 cafe\u0301\ud800 don't"
    ids, offsets = tokenizer.encode_with_offsets(text, add_start=True, add_end=True)
    assert ids == tokenizer.encode(text, add_start=True, add_end=True)
    pieces = [text[start:end] for start, end in offsets]
    assert pieces == [
        "", "It", "\u2019s", "the", "e\u0301\u0301", "cafe\u0301", "\ud800", "\ud800", "\ud800",
        "do", "n't", "",
    ]  # fmt: skip
    assert offsets[-1] == (len(text), len(text))
    assert tokenizer.encode_with_offsets([""]) == ([[]], [[]])


@settings(deadline=None, max_examples=100)
@given(st.text(max_size=30))
def test_offsets_are_in_order_and_cover_all_but_blanks(text):
    tokenizer, _ = both()
    ids, offsets = tokenizer.encode_with_offsets(text)
    assert ids == tokenizer.encode(text)
    ends = [0, *(end for _, end in offsets)]
    assert all(
        start >= before or end == before
        for (start, end), before in zip(offsets, ends, strict=False)
    )
    left = set(range(len(text))) - {i for start, end in offsets for i in range(start, end)}
    assert all(text[i].isspace() for i in left)


@pytest.mark.quick("options2")
@pytest.mark.parametrize("options", [(), (False,), (True, 3)])
def test_the_graph_is_python_on_hostile_strings(options):
    tokenizer, graph = both(*options)
    assert of_graph(graph, HOSTILE) == tokenizer.words(HOSTILE)
    assert graph.encode(strings(HOSTILE)).to_list() == tokenizer.encode(HOSTILE)
    short = graph.encode_start(strings(HOSTILE), 2).to_list()
    assert short == [ids[:2] for ids in tokenizer.encode(HOSTILE)]
    assert graph.encode(strings([])).to_list() == []
    replaced = [text.decode("utf-8", "replace") for text in BROKEN]
    assert graph.encode(tf.constant(BROKEN)).to_list() == tokenizer.encode(replaced)


def test_the_graph_is_python_on_random_strings():
    """Of the characters that the rule is about, in any order."""
    tokenizer, graph = both()
    rng = random.Random(0)
    some = "aAbn'tsN\u2019SdmreLvl.-`,: 0129\u0301eE\u200d\ufe0f漢ΣİßſK\x00\n\t\u00a0😀…\u201c_@Ⅷ"
    texts = ["".join(rng.choices(some, k=rng.randrange(30))) for _ in range(2000)]
    assert of_graph(graph, texts) == tokenizer.words(texts)


def test_places_in_the_graph_are_those_of_python():
    tokenizer, graph = both()
    rng = random.Random(1)
    some = "aAn'tsN\u2019.-, 12\u0301\u0302e\u1100\u1161\u11a8\u3000\t漢İK😀\x00\u1ebf"
    mixed = ["".join(rng.choices(some, k=rng.randrange(20))) for _ in range(500)]
    for texts in ([*HOSTILE, *mixed], ["", " "], []):
        found = [x.to_list() for x in graph.encode_with_offsets(strings(texts))]
        ids, offsets = tokenizer.encode_with_offsets(texts)
        pairs = list(zip(texts, offsets, strict=True))
        expected = [
            [byte_places(t, [at[i] for at in places]) for t, places in pairs] for i in (0, 1)
        ]
        assert found == [ids, *expected]
    replaced = strings([text.decode("utf-8", "replace") for text in BROKEN])
    broken, whole = map(graph.encode_with_offsets, (tf.constant(BROKEN), replaced))
    assert [x.to_list() for x in broken] == [x.to_list() for x in whole]


@pytest.mark.slow
def test_the_graph_is_python_on_every_character():
    tokenizer, graph = both()
    texts = [f"x{chr(c)}'s" for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    for i in range(0, len(texts), 100_000):
        part = texts[i : i + 100_000]
        assert of_graph(graph, part) == tokenizer.words(part)


@pytest.mark.slow
def test_a_saved_model_needs_tensorflow_alone(tmp_path):
    tokenizer, graph = both()
    tf.saved_model.save(graph, tmp_path / "model")
    script = """
        import json, sys
        import tensorflow as tf
        model = tf.saved_model.load(sys.argv[1])
        texts = tf.constant([text.encode() for text in json.loads(sys.stdin.read())])
        print(json.dumps(model.encode(texts).to_list()))
    """
    script = script.replace("\n        ", "\n")
    done = run_python("alone", script, tmp_path / "model", stdin=json.dumps(HOSTILE))
    assert json.loads(done.stdout) == tokenizer.encode(HOSTILE)


def test_files(tmp_path):
    tokenizer = both(False, 3)[0]
    tokenizer.save_assets(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["words.json"]
    config = json.loads(json.dumps(tokenizer.get_config()))
    dump = keras.saving.serialize_keras_object(tokenizer)
    for again in (
        WordTokenizer.load_assets(tmp_path),
        WordTokenizer.from_config(config),
        keras.saving.deserialize_keras_object(dump),
    ):
        assert again.get_config() == config
    assert TOKENIZERS["words"] is WordTokenizer
    assert tokenizer_name(tokenizer) == "words"
    (tmp_path / "words.json").write_text('{"format": "keras_attn.words", "version": 1}')
    with pytest.raises(ValueError, match="broken content"):
        WordTokenizer.load_assets(tmp_path)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: WordTokenizer.train([]), ValueError, "0 different words"),
        (lambda: WordTokenizer.train([" "]), ValueError, "0 different words"),
        (lambda: WordTokenizer.train(["a b"], min_frequency=2), ValueError, "occurs 2 times"),
        (lambda: WordTokenizer.train("abc"), TypeError, "Wrap it in a list"),
        (lambda: WordTokenizer.train(["a", 1]), TypeError, "must be strings"),
        (lambda: WordTokenizer.train(["a"], 6, hash_buckets=2), ValueError, "at least 7"),
        (lambda: WordTokenizer.train(["a"], min_frequency=0), ValueError, "at least 1"),
        (lambda: WordTokenizer(["a"]), ValueError, "begins with"),
        (lambda: WordTokenizer([*SPECIAL_TOKENS, "a", "a"]), ValueError, "2 times"),
        (lambda: WordTokenizer([*SPECIAL_TOKENS, ""]), ValueError, "the word ''"),
        (lambda: WordTokenizer([*SPECIAL_TOKENS, 3]), TypeError, "Received: 3"),
        (lambda: WordTokenizer(SPECIAL_TOKENS, hash_buckets=-1), ValueError, "hash_buckets"),
        (lambda: both()[0].encode([b"a"]), TypeError, "Decode bytes"),
        (lambda: both()[0].decode([99]), ValueError, "Ids must be from"),
    ],
)
def test_errors(make, error, message):
    with pytest.raises(error, match=message):
        make()
