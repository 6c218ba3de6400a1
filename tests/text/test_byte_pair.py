import json
import random
import textwrap

import keras
import numpy as np
import pytest
import tensorflow as tf
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import answer

from keras_attn.text import BytePairTokenizer
from keras_attn.text.bytes_of_text import BYTE_ALPHABET, SPLIT_PATTERN

SPECIAL = ["<pad>", "<start>", "<end>"]
TEXTS = [
    "Ein kleines Mädchen klettert in ein Spielhaus aus Holz.",
    "A little girl climbing into a wooden playhouse.",
    "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.",
    "Two young, white males are outside near many bushes.",
    "Маленькая девочка лезет в деревянный домик. Она маленькая.",
    "小さな女の子が木製の家に登っています。女の子は小さな家です。",
    "日本語の文と、日本語の文。 for i in range(100):\n    print(i)\n    print(i)\n",
    "👨‍👩‍👧 👨‍👩‍👧 naïve café naïve café 2024 2025 2024 2025 $10.00 $10.00 -- -- -- ...",
]
ODD_TEXTS = [
    "",
    " ",
    "  two  spaces   three ",
    "\x00\x01\x00",
    "tab\tnewline\nreturn\r\nfeed\x0c\x0bend\n\n\n",
    "no\u00a0break\u202fspace\u2028line\u3000wide",
    "👨‍👩‍👧 🏴\U000e0067\U000e007f 👍🏽 ❤️",
    "می‌خواهم שלום العربية",
    "\ufeffmark \ufffe\uffff \U0010ffff \ud7ff\ue000",
    "\u0378\U000e1000\U00040000 unassigned",
    "<pad> <start><end> <unk> ▁ Ġ",
    "don't 3.14159 1234567 ²½ ١٢٣ x²",
    "Donaudampfschifffahrtsgesellschaftskapitän",
    "e\u0301\u0302 combining",
    "한국어 ภาษาไทยง่าย 中文没有空格中文没有空格",
]


def by_hand(merges):
    """Ids of bytes are 3 + byte; merged tokens follow from 259 on, each once."""
    merged = dict.fromkeys(left + right for left, right in merges)
    return BytePairTokenizer([*SPECIAL, *BYTE_ALPHABET, *merged], merges, normalize=False)


def graph_ids(graph, texts):
    data = [text if isinstance(text, bytes) else text.encode("utf-8") for text in texts]
    return graph.encode(tf.constant(data, tf.string, shape=[len(data)])).to_list()


@pytest.fixture(scope="module")
def tokenizer():
    return BytePairTokenizer.train(TEXTS * 2, 420, normalize=False)


@pytest.fixture(scope="module")
def graph(tokenizer):
    return tokenizer.to_graph()


LOW = [("l", "o"), ("lo", "w"), ("Ġ", "low"), ("e", "s"), ("es", "t")]


BY_HAND = [
    (LOW, "low lowest", [260, 261, 263]),
    (LOW, "slow", [3 + 115, 260]),
    (LOW, " lo", [3 + 32, 259]),
    # The first pair of the list wins, not the first of the text.
    ([("o", "w"), ("l", "o")], "low", [3 + 108, 259]),
    # Among equals the leftmost.
    ([("a", "a")], "aaa", [259, 3 + 97]),
    ([("a", "a"), ("aa", "a")], "aaaaa", [259, 260]),
    # No merge over the border of two pre-tokens, even where the list has it.
    ([("Ġ", "Ġ"), ("b", "Ġ")], "ab   c", [3 + 97, 3 + 98, 259, 3 + 32, 3 + 99]),
    # é is the bytes C3 A9.
    ([("Ã", "©")], "é", [259]),
    ([], "é", [3 + 0xC3, 3 + 0xA9]),
    (LOW, "", []),
]
ARE_BY_HAND = ("merges", "text", "expected")


@pytest.mark.parametrize(ARE_BY_HAND, BY_HAND)
def test_numbers_by_hand(merges, text, expected):
    tokenizer = by_hand(merges)
    assert tokenizer.encode(text) == expected
    assert tokenizer.decode(expected) == text


@pytest.mark.quick("merges6-ab   c-expected6")
@pytest.mark.parametrize(ARE_BY_HAND, BY_HAND)
def test_numbers_by_hand_in_the_graph(merges, text, expected):
    assert graph_ids(by_hand(merges).to_graph(), [text]) == [expected]


@pytest.mark.slow
def test_any_list_of_merges_gives_the_same_ids_in_the_graph():
    # Trained lists are well-behaved: a token is used after it was made, and made in one way only.
    # These are not.
    rng = random.Random(0)
    for _ in range(5):
        tokens = list("abc")
        pairs = {}
        for _ in range(40):
            pair = (rng.choice(tokens), rng.choice(tokens))
            if len("".join(pair)) <= 5:
                pairs[pair] = None
                tokens.append("".join(pair))
        merges = list(pairs)
        rng.shuffle(merges)
        tokenizer = by_hand(merges)
        texts = ["".join(rng.choices("abc", k=rng.randint(1, 30))) for _ in range(200)]
        assert graph_ids(tokenizer.to_graph(), texts) == tokenizer.encode(texts)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("two words", ["two", " words"]),
        ("don't 12345 x2", ["don", "'", "t", " 123", "45", " x", "2"]),
        ("a  b", ["a", "  ", "b"]),
        ("if:\n    go\r\n", ["if", ":", "\n", "    ", "go", "\r\n"]),
        (" (a+b)!?", [" (", "a", "+", "b", ")!?"]),
        ("no\u00a0break", ["no", "\u00a0", "break"]),
        ("می‌خواهم", ["می‌خواهم"]),
        ("x👨‍👩‍👧x", ["x", "👨‍👩‍👧", "x"]),
        ("GPT模型，好", ["GPT", "模型", "，", "好"]),
        ("Donaudampfschifffahrtsgesellschaftskapitän", None),
        ("a" * 70, ["a" * 64, "a" * 6]),
        ("中" * 20, ["中" * 16, "中" * 4]),
        ("-" * 40, ["-" * 32, "-" * 8]),
    ],
)
def test_pre_tokens(text, pieces):
    pieces = pieces or [text]
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(SPLIT_PATTERN), "isolated")
    assert [piece for piece, _ in split.pre_tokenize_str(text)] == pieces
    marked = tf.strings.regex_replace(text, SPLIT_PATTERN, b"\\0\xff")
    assert [p.decode("utf-8") for p in marked.numpy().split(b"\xff")] == [*pieces, ""]


def test_odd_texts_are_lossless_and_equal_in_the_graph(tokenizer, graph):
    ids = tokenizer.encode(ODD_TEXTS)
    assert tokenizer.decode(ids) == ODD_TEXTS
    assert graph_ids(graph, ODD_TEXTS) == ids
    strings = graph.decode(tf.ragged.constant(ids, dtype=tf.int32)).numpy()
    assert [string.decode("utf-8") for string in strings] == ODD_TEXTS
    # One by one as in the batch.
    assert [tokenizer.encode(text) for text in ODD_TEXTS] == ids
    assert [graph_ids(graph, [text])[0] for text in ODD_TEXTS] == ids


def test_training_made_tokens_that_the_texts_use(tokenizer):
    ids = tokenizer.encode(TEXTS)
    assert tokenizer.decode(ids) == TEXTS
    assert sum(map(len, ids)) < 0.75 * sum(len(text.encode("utf-8")) for text in TEXTS)
    assert max(max(row) for row in ids) > 259


@settings(max_examples=60, deadline=None, derandomize=True)
@given(texts=st.lists(st.text(max_size=40), min_size=1, max_size=8))
def test_any_text_is_lossless_and_equal_in_the_graph(tokenizer, graph, texts):
    ids = tokenizer.encode(texts)
    assert tokenizer.decode(ids) == texts
    assert graph_ids(graph, texts) == ids


@pytest.mark.slow
def test_every_code_point_is_split_alike(tokenizer, graph):
    rng = random.Random(0)
    points = [*range(0x3400), *range(0xF900, 0x10000), *range(0x1D000, 0x1FC00)]
    points += rng.sample(range(0x10000, 0x110000), 5000)
    characters = [chr(point) for point in points if not 0xD800 <= point < 0xE000]
    rng.shuffle(characters)
    # Trained on spaces and `a` joined to all kinds of neighbours, the merges show where it splits.
    spaced = [
        "".join(f"{c}a {c}{c} 1{c}\n" for c in characters[at : at + 50])
        for at in range(0, len(characters), 50)
    ]
    ids = tokenizer.encode(spaced)
    assert graph_ids(graph, spaced) == ids
    assert tokenizer.decode(ids) == spaced
    joined = BytePairTokenizer.train(spaced, 4000)
    assert graph_ids(joined.to_graph(), spaced) == joined.encode(spaced)


@pytest.mark.parametrize("unit", ["a", " ", "\n", "-", "7", "中", "小さな", "é", "👨‍👩‍👧", "ab "])
def test_very_long_texts(tokenizer, graph, unit):
    text = unit * (100_000 // len(unit))
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert graph_ids(graph, [text]) == [ids]


def test_very_long_word_without_repetition(tokenizer, graph):
    rng = random.Random(0)
    text = "".join(rng.choices("abcdefghijklmnoprstuwäöüß", k=100_000))
    assert graph_ids(graph, [text, ""]) == tokenizer.encode([text, ""])


def test_random_ids_decode_alike(tokenizer, graph):
    rng = np.random.default_rng(0)
    # Few specials, many single bytes: most rows are broken UTF-8.
    ids = np.concatenate(
        [rng.integers(0, 420, (1000, 9)), rng.integers(3 + 256 - 128, 259, (1000, 9))]
    )
    texts = tokenizer.decode(ids)
    assert sum("\ufffd" in text for text in texts) > 1000
    assert [string.decode("utf-8") for string in graph.decode(ids).numpy()] == texts


def test_input_that_is_not_utf8(tokenizer, graph):
    data = [b"caf\xe9 au lait", b"\xff\xfe", b"\xed\xa0\x80", b"\xe2\x82", b"a\xc0\x80b"]
    expected = [item.decode("utf-8", "replace") for item in data]
    assert graph_ids(graph, data) == tokenizer.encode(expected)
    assert "\ufffd" in expected[0]


def test_lone_surrogates_give_an_answer(tokenizer):
    assert tokenizer.decode(tokenizer.encode("a\ud800b")) == "a\ufffd\ufffd\ufffdb"


@pytest.mark.slow
def test_places_in_the_graph_are_those_in_python():
    """Parts of a character have the place of the whole one; Python counts characters."""
    tokenizer = BytePairTokenizer.train(
        ["the sea, the sea ä 🙂 🙂"] * 3, 275, normalize=False, pattern="gpt2", allow_fewer=True
    )
    texts = ["the sea", "", " ä🙂中🙂  x\n\n y", "é" * 5, "\x00 \t", "\u0301 b"]
    graph = tokenizer.to_graph()
    ids, starts, ends = graph.encode_with_offsets(tf.constant(texts))
    wanted, places = tokenizer.encode_with_offsets(texts)
    assert ids.to_list() == wanted
    for text, begin, end, row in zip(texts, starts.to_list(), ends.to_list(), places, strict=True):
        data = text.encode()
        found = [(len(data[:a].decode()), len(data[:b].decode())) for a, b in zip(begin, end)]  # noqa: B905
        assert found == row
    odd = tf.constant([b"a\xff\xfe\xc3"])  # places are those of the text with U+FFFD
    read = tf.strings.unicode_transcode(odd, "UTF-8", "UTF-8")
    assert int(graph.encode_with_offsets(odd)[2][0, -1]) == len(read.numpy()[0])


def test_places_want_every_byte(tmp_path):
    """A graph that normalises texts has none, and is saved without them."""
    graph = BytePairTokenizer.train(["a b"], 259).to_graph()
    tf.saved_model.save(graph, str(tmp_path))
    with pytest.raises(ValueError, match="with normalize=True"):
        graph.encode_with_offsets(tf.constant(["a"]))


def test_start_and_end(tokenizer):
    plain = tokenizer.encode("girl")
    assert tokenizer.encode("girl", add_start=True) == [1, *plain]
    assert tokenizer.encode(["girl", ""], add_start=True, add_end=True) == [[1, *plain, 2], [1, 2]]
    assert tokenizer.encode([]) == []
    assert (tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id) == (0, 1, 2)
    assert tokenizer.unknown_id is None
    assert tokenizer.vocabulary_size == len(tokenizer.vocabulary) == 420


def test_encode_takes_arrays_of_strings(tokenizer):
    assert tokenizer.encode(np.array(["girl", "a"])) == tokenizer.encode(["girl", "a"])


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([1, 260, 2, 261, 0, 0], "low low"),  # what comes after the end is read too
        ((260,), "low"),
        ([], ""),
        ([[260], []], ["low", ""]),
        (np.array([260, 261]), "low low"),
        (np.array([[260, 0], [261, 2]], "int64"), ["low", " low"]),
        ([np.array([260]), np.array([261, 261])], ["low", " low low"]),
        ([np.int32(260), np.int32(0)], "low"),
        (np.full((2, 1, 2), 260), [["lowlow"], ["lowlow"]]),
        (np.zeros((0, 4), int), []),
        (np.zeros((2, 0), int), ["", ""]),
        (tf.constant([[260], [261]]), ["low", " low"]),
        (tf.ragged.constant([[260], []], dtype=tf.int32), ["low", ""]),
    ],
)
def test_decode_takes_rows_and_nests_of_rows(ids, expected):
    assert by_hand(LOW).decode(ids) == expected


def test_graph_decode_of_any_rank():
    graph = by_hand(LOW).to_graph()
    assert graph.decode(tf.constant([1, 260, 2, 261, 0])).numpy() == b"low low"
    nbest = graph.decode(tf.constant([[[260], [261]], [[0], [3 + 98]]], tf.int64))
    assert nbest.numpy().tolist() == [[b"low", b" low"], [b"", b"b"]]
    assert graph.decode(tf.zeros([0, 5], tf.int32)).shape == (0,)
    assert graph.decode(tf.zeros([2, 0], tf.int32)).numpy().tolist() == [b"", b""]
    with pytest.raises(tf.errors.InvalidArgumentError):
        graph.decode(tf.constant([264]))


def test_tokens_are_readable():
    merges = [*LOW, ("Ġ", "Ġ"), ("x", "â")]
    tokenizer = by_hand(merges)
    ids = [1, 261, 263, 264, 3 + 10, 3 + 0xE2, 265, 3, 2, 0]
    expected = "<start> ▁low est ▁▁ <0x0A> <0xE2> x<0xE2> <0x00> <end> <pad>"
    assert " ".join(tokenizer.tokens(ids)) == expected
    assert tokenizer.tokens(np.array([[261], [263]])) == [["▁low"], ["est"]]
    assert tokenizer.tokens(tokenizer.encode("é")) == ["<0xC3>", "<0xA9>"]
    assert by_hand([("Ã", "©")]).tokens([259]) == ["é"]


@pytest.mark.slow
def test_graph_encodes_any_batch_with_one_trace(tokenizer):
    graph = tokenizer.to_graph()
    traces = []

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def ids_of(text):
        traces.append(text)
        return graph.encode(text)

    for texts in ([], [""], ["", ""], TEXTS, TEXTS[:3]):
        ids = ids_of(tf.constant(texts, tf.string, shape=[len(texts)]))
        assert ids.dtype == tf.int32
        assert ids.to_list() == tokenizer.encode(texts)
    assert len(traces) == 1
    data = tf.data.Dataset.from_tensor_slices(TEXTS).batch(3).map(graph.encode)
    assert [row for ids in data for row in ids.to_list()] == tokenizer.encode(TEXTS)


@pytest.mark.slow
def test_saved_model_needs_tensorflow_alone(tokenizer, tmp_path):
    class Server(tf.Module):
        def __init__(self, graph):
            super().__init__()
            self.graph = graph

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
        def ids(self, text):
            return self.graph.encode(text)

        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False)
        def text(self, ids):
            return self.graph.decode(ids)

    tf.saved_model.save(Server(tokenizer.to_graph()), tmp_path / "model")
    (tmp_path / "model").rename(tmp_path / "moved")
    rows = np.random.default_rng(0).integers(0, 420, (20, 6))
    given_ = {"texts": [*TEXTS, *ODD_TEXTS], "rows": rows.tolist()}
    (tmp_path / "given.json").write_text(json.dumps(given_), encoding="utf-8")
    code = """
        import json, sys
        import tensorflow as tf
        given = json.load(open("given.json", encoding="utf-8"))
        model = tf.saved_model.load("moved")
        ids = model.ids(tf.constant([text.encode("utf-8") for text in given["texts"]]))
        none = model.ids(tf.zeros([0], tf.string))
        text = model.text(tf.constant(given["rows"]))
        assert sys.modules.get("tensorflow_text") is None and "tokenizers" not in sys.modules
        text = [item.decode("utf-8") for item in text.numpy()]
        print(json.dumps([ids.to_list(), none.to_list(), text]))
    """
    assert answer("alone", textwrap.dedent(code), cwd=tmp_path) == [
        tokenizer.encode(given_["texts"]),
        [],
        tokenizer.decode(rows),
    ]


@pytest.mark.slow
def test_import_is_light():
    """And the tasks, which the process has imported, are too."""
    code = """
        import sys
        import keras_attn.text
        print([n for n in ("tokenizers", "keras_attn.text.byte_pair_graph") if n in sys.modules])
    """
    assert answer("jax", textwrap.dedent(code)) == []


def test_config_round_trip(tokenizer):
    config = json.loads(json.dumps(tokenizer.get_config()))
    again = BytePairTokenizer.from_config(config)
    assert again.get_config() == tokenizer.get_config()
    assert again.encode(ODD_TEXTS) == tokenizer.encode(ODD_TEXTS)
    saved = json.loads(json.dumps(keras.saving.serialize_keras_object(tokenizer)))
    assert saved["registered_name"] == "keras_attn>BytePairTokenizer"
    again = keras.saving.deserialize_keras_object(saved)
    assert again.vocabulary == tokenizer.vocabulary
    assert again.merges == tokenizer.merges


def test_assets_round_trip(tokenizer, tmp_path):
    tokenizer.save_assets(tmp_path / "a" / "b")
    tokenizer.save_assets(tmp_path / "a" / "b")
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["byte_pair.json"]
    again = BytePairTokenizer.load_assets(str(tmp_path / "a" / "b"))
    assert again.get_config() == tokenizer.get_config()


def broken(**changes):
    content = {"format": "keras_attn.byte_pair", "version": 1, **by_hand(LOW).get_config()}
    content.update(changes)
    return json.dumps({key: value for key, value in content.items() if value is not None})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "Received: nothing"),
        ("", "no JSON"),
        (broken()[:100], "no JSON"),
        (b"\xff\xfe\x00", "no JSON"),
        ("[1, 2]", "another format"),
        (broken(format="else"), "another format"),
        (broken(version=2), "version 2; this release reads up to 1"),
        (broken(version="1"), "version '1'"),
        (broken(version=None), "version None"),
        (broken(merges=None), "positional argument: 'merges'"),
        (broken(normalize=None), "broken content: no normalize"),
        (broken(other=1), "unexpected keyword argument 'other'"),
        (broken(merges=[["l", "zz"]]), "broken content: `merges` must be pairs"),
        (broken(merges=[["l", 1]]), "broken content: `merges` must be pairs"),
        (broken(merges=[1]), "broken content: `merges` must be pairs"),
        (broken(vocabulary=SPECIAL), "broken content: `vocabulary` must be"),
        (broken(vocabulary=5), "broken content"),
    ],
)
def test_broken_assets(tmp_path, content, message):
    if content is not None:
        data = content if isinstance(content, bytes) else content.encode("utf-8")
        (tmp_path / "byte_pair.json").write_bytes(data)
    with pytest.raises(ValueError, match=r"Expected a file of .*save_assets") as error:
        BytePairTokenizer.load_assets(tmp_path)
    assert message in str(error.value)
    assert "byte_pair.json" in str(error.value)


BYTES = list(BYTE_ALPHABET)


@pytest.mark.parametrize(
    ("vocabulary", "merges", "message"),
    [
        ([], [], r"begins with \[\]"),
        ([*SPECIAL[::-1], *BYTES], [], "begins with"),
        (SPECIAL + BYTES[1:], [], r"without 1 of the bytes: \['Ā'\]"),
        ([*SPECIAL, *BYTES, "a"], [], "'a' twice"),
        ([*SPECIAL, *BYTES, "a b"], [], "'a b', which is not written in the byte alphabet"),
        ([*SPECIAL, *BYTES, ""], [], "''"),
        ([*SPECIAL, *BYTES, 7], [], "token 7"),
        (SPECIAL + BYTES, [("a", "b")], "'ab' is not in it"),
        ([*SPECIAL, *BYTES, "ab"], [("ab", "c")], "'abc' is not in it"),
        ([*SPECIAL, *BYTES, "ab"], [("a", "b"), ["a", "b"]], "twice"),
        ([*SPECIAL, *BYTES, "ab"], ["ab"], "Received: 'ab'"),
        ([*SPECIAL, *BYTES, "ab"], [("a", "b", "c")], "must be pairs"),
        ([*SPECIAL, *BYTES, "<p", "ad>"], [("<p", "ad>")], "'<pad>' is not in it"),
    ],
)
def test_wrong_vocabulary_or_merges(vocabulary, merges, message):
    with pytest.raises(ValueError, match=message):
        BytePairTokenizer(vocabulary, merges)


def test_training_is_deterministic_and_reads_generators(tokenizer):
    for texts in (iter(TEXTS * 2), TEXTS[::-1] * 2):
        again = BytePairTokenizer.train(texts, 420, normalize=False)
        assert again.get_config() == tokenizer.get_config()


def test_training_by_hand():
    # `ab` is there 3 times, `Ġab` twice, `cd` once.
    tokenizer = BytePairTokenizer.train(["ab ab", " ab cd"], 261, normalize=False)
    assert tokenizer.merges == (("a", "b"), ("Ġ", "ab"))
    assert tokenizer.vocabulary[:3] == tuple(SPECIAL)
    assert tokenizer.vocabulary[259:] == ("ab", "Ġab")
    assert set(tokenizer.vocabulary[3:259]) == set(BYTE_ALPHABET)
    smallest = BytePairTokenizer.train(["x"], 259)
    assert smallest.merges == ()
    assert smallest.encode("x y") == [smallest.vocabulary.index(token) for token in "xĠy"]
    assert graph_ids(smallest.to_graph(), ["x y"]) == [smallest.encode("x y")]


@pytest.mark.slow
def test_training_does_not_take_special_words_for_specials():
    texts = ["<pad> <pad> <start> <end> <pad>"] * 3
    tokenizer = BytePairTokenizer.train(texts, 264)
    assert tokenizer.vocabulary.count("<pad>") == 1
    assert not {0, 1, 2} & set(tokenizer.encode(texts[0]))
    assert tokenizer.decode(tokenizer.encode(texts[0])) == texts[0]
    assert graph_ids(tokenizer.to_graph(), texts) == tokenizer.encode(texts)


@pytest.mark.parametrize(
    ("texts", "size", "message"),
    [
        (["abc"], 258, r"at least 259 .*Received: vocabulary_size=258"),
        ([], 300, "at least one string"),
        (["", ""], 259, "at least one string"),
        (iter([]), 300, "at least one string"),
        (["ab ab ab"], 300, r"vocabulary of at most 261.*Use vocabulary_size=261 or less"),
    ],
)
def test_wrong_training_data(texts, size, message):
    with pytest.raises(ValueError, match=message):
        BytePairTokenizer.train(texts, size)


def test_one_string_is_no_collection():
    with pytest.raises(TypeError, match="Wrap it in a list"):
        BytePairTokenizer.train("abc", 300)


def test_min_frequency():
    with pytest.raises(ValueError, match="vocabulary of at most 259"):
        BytePairTokenizer.train(["ab ab ab"], 260, min_frequency=4)
    assert BytePairTokenizer.train(["ab"], 260, min_frequency=1).vocabulary[-1] == "ab"


@pytest.mark.parametrize("texts", [b"bytes", [b"bytes"], ["a", 3], [["a"]], [None]])
def test_encode_wants_strings(tokenizer, texts):
    with pytest.raises(TypeError, match=r"must be strings|Expected a list of strings"):
        tokenizer.encode(texts)


def test_training_wants_strings():
    with pytest.raises(TypeError, match="must be strings"):
        BytePairTokenizer.train(["abc abc", b"abc"], 259)


@pytest.mark.parametrize("ids", [420, "ids", [1.5], np.array([1.0]), [[1], [None]], None])
@pytest.mark.parametrize("name", ["decode", "tokens"])
def test_decode_wants_integers(tokenizer, name, ids):
    with pytest.raises(TypeError, match="`ids` must be"):
        getattr(tokenizer, name)(ids)


@pytest.mark.parametrize("ids", [[420], [5, -1], np.array([[5, 9999]])])
@pytest.mark.parametrize("name", ["decode", "tokens"])
def test_decode_wants_ids_of_the_vocabulary(tokenizer, name, ids):
    with pytest.raises(ValueError, match=r"from 0 to 419. Received: (420|-1|9999)"):
        getattr(tokenizer, name)(ids)
