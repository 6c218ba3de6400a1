"""Characters: ids, files, and the graph against Python on hostile strings."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import run_python

from keras_attn.text import CharacterTokenizer
from keras_attn.text.characters import SPECIAL_TOKENS

TEXTS = ["to be, or\nnot to be:", "that is\tthe question 🙂 é e\u0301 שלום", "a\x00b\ufeff\ufffd"]
HOSTILE = [
    "", " ", "\n", "\x00", "a\x00b\x00", "é", "e\u0301", "🙂🙃", "👩\u200d👧", "\ufeffa", "\ufffd",
    "\ufffe\uffff", "שלום, عالم", "<pad><start>", "\U0010ffff", "\x80\x9f\x85\u2028", "x" * 10_000,
    "\r\n\r",
]  # fmt: skip
BROKEN = [
    b"\xff", b"a\xffb", b"\xed\xa0\x80", b"\xf0\x9f\x99", b"\xc0\x80", b"\xf8\x88\x80\x80\x80",
    b"\xe2\x82a", b"\xf4\x90\x80\x80", b"\xef\xbf", b"t\x80o",
]  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer():
    return CharacterTokenizer.train(TEXTS)


@pytest.fixture(scope="module")
def graph(tokenizer):
    return tokenizer.to_graph()


def test_training_takes_the_commonest():
    tokenizer = CharacterTokenizer.train(["bbb", "aaa cc", "d"])
    assert tokenizer.vocabulary == (*SPECIAL_TOKENS, "a", "b", "c", " ", "d")
    small = CharacterTokenizer.train(iter(["bbb", "aaa cc", "d"]), vocabulary_size=6)
    assert small.vocabulary == (*SPECIAL_TOKENS, "a", "b")
    assert small.vocabulary_size == 6
    assert CharacterTokenizer.train(["ab"], vocabulary_size=99).vocabulary_size == 6


def test_encode_and_decode(tokenizer):
    for text in TEXTS:
        assert tokenizer.decode(tokenizer.encode(text)) == text
        assert len(tokenizer.encode(text)) == len(text)
    assert tokenizer.encode(["", "zt"], add_start=True, add_end=True)[0] == [1, 2]
    z, t = tokenizer.encode("zt")
    assert z == tokenizer.unknown_id == 3
    assert tokenizer.decode([1, z, t, 2, 0]) == "\ufffdt"
    assert tokenizer.decode(np.array([[t, 0], [t, t]])) == ["t", "tt"]
    assert tokenizer.decode(keras.ops.array([t])) == "t"
    assert tokenizer.decode([[[t], []]]) == [["t", ""]]
    assert tokenizer.tokens([0, 1, 2, 3, *tokenizer.encode("t \n🙂")]) == [
        *SPECIAL_TOKENS, "t", "▁", "<0x0A>", "🙂",
    ]  # fmt: skip


def test_special_words_are_text(tokenizer):
    text = "<end>"
    ids = CharacterTokenizer.train([text]).encode(text)
    assert len(ids) == 5
    assert min(ids) > 3


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda t: CharacterTokenizer.train([]), ValueError, "at least one character"),
        (lambda t: CharacterTokenizer.train([""]), ValueError, "at least one character"),
        (lambda t: CharacterTokenizer.train("abc"), TypeError, "Wrap it in a list"),
        (lambda t: CharacterTokenizer.train(["a", 1]), TypeError, "must be strings"),
        (lambda t: CharacterTokenizer.train(["a"], 4), ValueError, "at least 5"),
        (lambda t: CharacterTokenizer(["a"]), ValueError, "begins with"),
        (lambda t: CharacterTokenizer(SPECIAL_TOKENS), ValueError, "no character"),
        (lambda t: CharacterTokenizer([*SPECIAL_TOKENS, "ab"]), ValueError, "'ab'"),
        (lambda t: CharacterTokenizer([*SPECIAL_TOKENS, "\ud800"]), ValueError, "ud800"),
        (lambda t: CharacterTokenizer([*SPECIAL_TOKENS, "a", "a"]), ValueError, "2 times"),
        (lambda t: t.encode(7), TypeError, "list of strings"),
        (lambda t: t.encode(["a", b"b"]), TypeError, "Decode bytes"),
        (lambda t: t.decode([t.vocabulary_size]), ValueError, "Ids must be from"),
        (lambda t: t.decode([-1]), ValueError, "Received: -1"),
        (lambda t: t.decode([0.5]), TypeError, "integers"),
        (lambda t: t.decode(3), TypeError, "list of integers"),
    ],
)
def test_errors(tokenizer, make, error, message):
    with pytest.raises(error, match=message):
        make(tokenizer)


def test_files(tokenizer, tmp_path):
    tokenizer.save_assets(tmp_path / "new")
    again = CharacterTokenizer.load_assets(tmp_path / "new")
    assert again.vocabulary == tokenizer.vocabulary
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["characters.json"]
    config = json.loads(json.dumps(tokenizer.get_config()))
    assert CharacterTokenizer.from_config(config).vocabulary == tokenizer.vocabulary
    dump = keras.saving.serialize_keras_object(tokenizer)
    loaded = keras.saving.deserialize_keras_object(dump)
    assert loaded.vocabulary == tokenizer.vocabulary
    with pytest.raises(ValueError, match="Received: nothing"):
        CharacterTokenizer.load_assets(tmp_path)
    good = json.loads((tmp_path / "new" / "characters.json").read_text(encoding="utf-8"))
    for content, message in [
        ("{", "no JSON"),
        ("[]", "another format"),
        (json.dumps({**good, "version": 2}), "version 2"),
        (json.dumps({**good, "vocabulary": ["a"]}), "broken content"),
    ]:
        (tmp_path / "characters.json").write_text(content)
        with pytest.raises(ValueError, match=message):
            CharacterTokenizer.load_assets(tmp_path)


def test_the_graph_is_python_on_hostile_strings(tokenizer, graph):
    assert graph.encode(tf.constant(HOSTILE)).to_list() == tokenizer.encode(HOSTILE)
    for count in (1, 3):
        start = graph.encode_start(tf.constant(HOSTILE), count)
        assert start.to_list() == [ids[:count] for ids in tokenizer.encode(HOSTILE)]
    assert graph.encode(tf.constant([], tf.string)).to_list() == []


def test_bytes_that_are_no_utf8_are_those_of_python(tokenizer, graph):
    replaced = [text.decode("utf-8", "replace") for text in BROKEN]
    assert graph.encode(tf.constant(BROKEN)).to_list() == tokenizer.encode(replaced)
    assert tokenizer.encode("\ud800") == tokenizer.encode("\ufffd" * 3)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.binary(max_size=12), max_size=6))
def test_the_graph_is_python_on_any_bytes(texts):
    tokenizer, graph = any_tokenizer()
    replaced = [text.decode("utf-8", "replace") for text in texts]
    assert graph.encode(tf.constant(texts, tf.string)).to_list() == tokenizer.encode(replaced)


@settings(deadline=None, max_examples=100)
@given(st.text(max_size=30))
def test_known_characters_come_back(text):
    tokenizer = CharacterTokenizer.train([text + "a"])
    expected = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    assert tokenizer.decode(tokenizer.encode(text)) == expected
    assert tokenizer.unknown_id not in tokenizer.encode(text)


def any_tokenizer(made=[]):  # noqa: B006
    if not made:
        tokenizer = CharacterTokenizer.train(["".join(map(chr, range(0, 256, 3))) + "\ufffd"])
        made.append((tokenizer, tokenizer.to_graph()))
    return made[0]


def test_the_graph_decodes(tokenizer, graph):
    rows = [tokenizer.encode(text) for text in TEXTS]
    assert [t.decode() for t in graph.decode(tf.ragged.constant(rows)).numpy()] == TEXTS
    every = list(range(tokenizer.vocabulary_size))
    assert graph.decode(tf.constant([every])).numpy()[0].decode() == tokenizer.decode(every)
    pieces = graph.tokens(tf.constant(every)).numpy().tolist()
    assert [p.decode() for p in pieces] == tokenizer.tokens(every)
    assert graph.decode(tf.zeros([2, 0], tf.int32)).numpy().tolist() == [b"", b""]


def test_the_saved_graph_needs_tensorflow_alone(tokenizer, graph, tmp_path):
    tf.saved_model.save(graph, str(tmp_path / "m"))
    script = (
        "import sys\n"
        "import tensorflow as tf\n"
        "m = tf.saved_model.load(sys.argv[1])\n"
        "print(m.encode(tf.constant(['be \\U0001F642', 'z'])).to_list())\n"
    )
    assert run_python("alone", script, tmp_path / "m").stdout.strip() == str(
        tokenizer.encode(["be 🙂", "z"])
    )


@pytest.mark.slow
def test_no_tensorflow_in_python():
    script = (
        "import sys; assert 'tensorflow' not in sys.modules; sys.modules['tensorflow'] = None\n"
        "from keras_attn.text import CharacterTokenizer\n"
        "t = CharacterTokenizer.train(['abc'])\n"
        "print(t.decode(t.encode('cab')))\n"
    )
    assert run_python("jax", script).stdout.strip() == "cab"
