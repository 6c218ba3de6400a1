import hashlib
import json
import pathlib
import textwrap
import unicodedata

import keras
import numpy as np
import pytest
import tensorflow as tf
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import run_python

import keras_attn.text
from keras_attn.text import (
    BytePairTokenizer,
    SentencePieceTokenizer,
    WordPieceTokenizer,
    WordTokenizer,
)
from keras_attn.text.word_piece_engine import without_long_words

ROOT = pathlib.Path(keras_attn.text.__file__).parents[2]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
TEXTS = [
    "Ein kleines Mädchen klettert in ein Spielhaus aus Holz.",
    "A little girl climbing into a wooden playhouse.",
    "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.",
    "Two young, white males are outside near many bushes.",
    "Маленькая девочка лезет в деревянный домик. Она маленькая.",
    "小さな女の子が木製の家に登っています。女の子は小さな家です。",
    "한국어 문장입니다. 작은 소녀가 집에 들어갑니다. 한국어 문장입니다.",
    "naïve café naïve café 2024 2025 $10.00 $10.00 -- -- ...",
    "ΌΣΟΣ σοφός όσος σοφός ΟΔΥΣΣΕΎΣ; می‌خواهم שָׁלוֹם العَرَبِيَّة किताबें ภาษาไทยง่าย",
]
ODD_TEXTS = [
    "",
    " ",
    "  two  spaces\tand\nlines\r\n\u00a0\u2028\u3000\u1680x ",
    "\x00\x01 a\x00b \x7f\x85 \ufffd a\ufffdb \ufeffmark",
    "👨‍👩‍👧 🏴\U000e0067\U000e007f 👍🏽 ❤️",
    "İSTANBUL ıSS ß ẞ Ǆ ǅ ﬁ Å Å A\u030a ´ ` ¨ \u00b4a",
    "e\u0301\u0302 \u0301alone ≠ \u037e \u1fef \u0344 \u0f73",
    "don't 3.14159 1,234,567 ²½ ١٢٣ x² (a)[b]{c}«d»“e”‘f’—g…h",
    "[CLS] [SEP] [PAD] [UNK] [MASK] ##ing #a ##",
    "\u0378\U000e1000\U00040000 unassigned \ue000\U0010ffff",
    "x" * 100 + " " + "x" * 101 + " " + "é" * 100 + " " + "한" * 34,
    "\u4e00a\u9fff\u3400\U00020000\uf900一a二",
    "\u200b\u200d\u00ad\u2060soft",
]


@pytest.fixture(scope="module", params=[True, False], ids=["uncased", "cased"])
def tokenizer(request):
    return WordPieceTokenizer.train(TEXTS * 2, 500, request.param, allow_fewer=True)


@pytest.fixture(scope="module")
def graph(tokenizer):
    return tokenizer.to_graph()


def reference(tokenizer):
    """BERT's tokenizer, as the library has it."""
    vocabulary = {token: i for i, token in enumerate(tokenizer.vocabulary)}
    return tokenizers.BertWordPieceTokenizer(vocabulary, lowercase=tokenizer.lowercase)


def graph_ids(graph, texts):
    data = [text if isinstance(text, bytes) else text.encode("utf-8") for text in texts]
    return graph.encode(tf.constant(data, tf.string, shape=[len(data)])).to_list()


def test_longest_pieces_first():
    words = ["un", "unaf", "##fable", "##aff", "##a", "##b", "##ble", "##able", "a", "!"]
    tokenizer = WordPieceTokenizer([*SPECIAL, *words])
    expected = {
        "unaffable": ["unaf", "##fable"],
        "unab": ["un", "##a", "##b"],
        "aaab": ["a", "##a", "##a", "##b"],
        "unx": ["[UNK]"],  # as a whole
        "A! a": ["a", "!", "a"],
        "!!": ["!", "!"],
        "unaffabl": ["[UNK]"],
    }
    ids = tokenizer.encode(list(expected))
    assert tokenizer.tokens(ids) == list(expected.values())
    assert graph_ids(tokenizer.to_graph(), list(expected)) == ids


def test_ids_are_those_of_bert(tokenizer):
    bert = reference(tokenizer)
    for text in TEXTS + ODD_TEXTS[:8] + ODD_TEXTS[9:]:
        assert tokenizer.encode(text) == bert.encode(text, add_special_tokens=False).ids, text
    text = TEXTS[0]
    assert tokenizer.encode(text, add_start=True, add_end=True) == bert.encode(text).ids


def test_special_tokens_in_a_text_are_text(tokenizer):
    marks = {tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id, tokenizer.mask_id}
    assert not marks & set(tokenizer.encode("[CLS] a [SEP] [PAD] [MASK]"))
    assert (tokenizer.pad_id, tokenizer.unknown_id) == (0, 1)
    assert (tokenizer.start_id, tokenizer.end_id, tokenizer.mask_id) == (2, 3, 4)


@pytest.mark.quick("uncased")
def test_a_mask_in_a_text(tokenizer):
    """One id wherever it stands, in Python and in the graph; else the ids do not change."""
    masking = WordPieceTokenizer(
        tokenizer.vocabulary, tokenizer.lowercase, tokenizer.strip_accents, mask_in_text=True
    )
    graph, mask = masking.to_graph(), masking.mask_id
    girl, house = masking.encode("girl"), masking.encode("house")
    by_hand = {
        "[MASK]": [mask],
        "girl [MASK] house": [*girl, mask, *house],
        "girl[MASK][MASK]house": [*girl, mask, mask, *house],
        "[mask]": tokenizer.encode("[mask]"),
        "[[MASK]]": [*masking.encode("["), mask, *masking.encode("]")],
    }
    for text, ids in by_hand.items():
        assert masking.encode(text) == ids
    texts = [*by_hand, *TEXTS, *ODD_TEXTS, *(f"{text}[MASK]{text}" for text in ODD_TEXTS)]
    texts.append("a\x01b [MA\x01SK]")
    ids = masking.encode(texts)
    assert graph.encode(tf.constant(texts)).to_list() == ids
    others = [text for text in texts if "[MASK]" not in text]
    assert masking.encode(others) == tokenizer.encode(others)
    assert masking.encode_with_offsets("girl [MASK].")[1][len(girl)] == (5, 11)
    assert mask not in tokenizer.encode("[MASK]")
    again = WordPieceTokenizer.from_config(json.loads(json.dumps(masking.get_config())))
    assert again.mask_in_text and again.encode("[MASK]") == [mask]
    with pytest.raises(ValueError, match=r"`mask_in_text` needs a vocabulary with \[MASK\]"):
        WordPieceTokenizer(SPECIAL, mask_in_text=True)


@pytest.mark.quick("uncased")
def test_graph_gives_the_same_ids(tokenizer, graph):
    texts = TEXTS + ODD_TEXTS
    expected = tokenizer.encode(texts)
    assert graph_ids(graph, texts) == expected
    assert graph_ids(graph, []) == []
    assert graph_ids(graph, [""]) == [[]]
    assert graph_ids(graph, TEXTS[2:3] * 2) == [expected[2]] * 2
    assert any(tokenizer.unknown_id in ids for ids in expected)
    broken = [b"caf\xc3", b"\xff\xfea", b"\xed\xa0\x80b", b"\xf0\x9f\x98c"]
    replaced = [data.decode("utf-8", "replace") for data in broken]
    assert graph_ids(graph, broken) == tokenizer.encode(replaced)


@pytest.mark.slow
def test_graph_gives_the_same_ids_for_every_character(tokenizer, graph):
    every = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    some = every[:0x3200] + every[0xA000:0xB000:7] + every[0xF000:0x20000] + every[0xE0000:0xE0200]
    texts = ["a".join(some[i : i + 50]) for i in range(0, len(some), 50)]
    # Marks that BERT leaves must not follow each other here: see the next test.
    assert graph_ids(graph, texts) == tokenizer.encode(texts)


@pytest.mark.slow
def test_the_order_of_marks_that_are_left():
    """The one thing in which the graph differs, as its docstring says."""
    words = ["a", "##\u302e", "##\u1b44", "##\u302e\u1b44"]
    tokenizer = WordPieceTokenizer([*SPECIAL, *words])
    graph = tokenizer.to_graph()
    text = "a\u302e\u1b44"  # of the classes 224 and 9
    assert unicodedata.normalize("NFD", text) == "a\u1b44\u302e"
    assert tokenizer.tokens(tokenizer.encode(text)) == ["a", "##\u1b44", "##\u302e"]
    assert tokenizer.tokens(graph_ids(graph, [text])[0]) == ["a", "##\u302e\u1b44"]
    for form in ("NFC", "NFD"):
        tidy = unicodedata.normalize(form, text)
        assert graph_ids(graph, [tidy]) == [tokenizer.encode(tidy)]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), max_size=8))
def test_graph_gives_the_same_ids_for_any_text(texts):
    tokenizer, graph = _pair()
    texts = [unicodedata.normalize("NFC", text) for text in texts]
    assert graph_ids(graph, texts) == tokenizer.encode(texts)


def _pair(made=[]):  # noqa: B006
    """One tokenizer for all examples."""
    if not made:
        tokenizer = WordPieceTokenizer.train(TEXTS * 2, 420, allow_fewer=True)
        made.extend((tokenizer, tokenizer.to_graph()))
    return made


@pytest.mark.slow
def test_beginnings(tokenizer, graph):
    texts = [*TEXTS, *ODD_TEXTS, " \u200b" * 5000 + "late words"]
    data = tf.constant([text.encode("utf-8") for text in texts])
    for count in (1, 3, 50):
        expected = [ids[:count] for ids in tokenizer.encode(texts)]
        assert graph.encode_start(data, count).to_list() == expected


def test_decode_and_tokens(tokenizer, graph):
    ids = tokenizer.encode(["Zwei   junge, weiße Männer!", "", "x" * 101], add_start=True)
    padded = tf.ragged.constant(ids).to_tensor(0).numpy()
    texts = tokenizer.decode(padded)
    low = "zwei junge , weiße manner [UNK]"
    assert texts == [low if tokenizer.lowercase else "Zwei junge , weiße Männer [UNK]", "", "[UNK]"]
    assert [text.decode() for text in graph.decode(padded).numpy()] == texts
    every = list(range(tokenizer.vocabulary_size))
    assert tokenizer.tokens(every) == list(tokenizer.vocabulary)
    assert [token.decode() for token in graph.tokens(every).numpy()] == tokenizer.tokens(every)
    assert tokenizer.decode([]) == ""
    with pytest.raises(ValueError, match="Ids must be from 0 to"):
        tokenizer.decode([tokenizer.vocabulary_size])
    with pytest.raises(TypeError, match="must be integers"):
        tokenizer.decode([0.5])
    # Lower-cased words come back from their text.
    assert tokenizer.encode(texts[0].replace("[UNK]", "")) == ids[0][1:-1]


@pytest.mark.slow
def test_training_does_not_depend_on_the_process():
    script = """
        import hashlib, json, sys
        from keras_attn.text import WordPieceTokenizer
        texts = json.loads(sys.stdin.read())
        tokenizer = WordPieceTokenizer.train(texts, 500, allow_fewer=True)
        print(hashlib.sha256(json.dumps(tokenizer.get_config()).encode()).hexdigest())
    """
    done = run_python("torch", textwrap.dedent(script), stdin=json.dumps(TEXTS * 2))
    here = WordPieceTokenizer.train(TEXTS * 2, 500, allow_fewer=True).get_config()
    assert done.stdout == hashlib.sha256(json.dumps(here).encode()).hexdigest() + "\n"


def test_training():
    tokenizer = WordPieceTokenizer.train(["aab aab! Äab"], 12)
    assert tokenizer.vocabulary[:5] == (*SPECIAL, "[MASK]")
    assert set(tokenizer.vocabulary[5:10]) == {"!", "a", "b", "##a", "##b"}
    assert tokenizer.vocabulary_size == 12
    assert tokenizer.tokens(tokenizer.encode("AAB")) == ["aab"]
    fewer = WordPieceTokenizer.train(["aab aab! Äab"], 900, allow_fewer=True)
    assert fewer.get_config() == tokenizer.get_config()
    rare = "".join(map(chr, range(0x4E00, 0x4E00 + 1500)))
    common = WordPieceTokenizer.train([rare, "abc" * 5], 1008, min_frequency=100)
    assert common.vocabulary[-3:] == ("##a", "##b", "##c")


@pytest.mark.parametrize(
    ("texts", "size", "message"),
    [
        ([], 100, "at least one character"),
        (["", " \x00"], 100, "at least one character"),
        (iter(["text"]), 100, "can be read twice"),
        (["text text"], 10, r"`vocabulary_size` must be at least 11.*Received: 10"),
        (["text text"], 900, "vocabulary of at most 14"),
    ],
)
def test_training_is_checked(texts, size, message):
    with pytest.raises(ValueError, match=message):
        WordPieceTokenizer.train(texts, size)


def test_training_wants_strings():
    with pytest.raises(TypeError, match="must be strings"):
        WordPieceTokenizer.train([b"text"], 100)
    with pytest.raises(TypeError, match="Wrap it in a list"):
        WordPieceTokenizer.train("text", 100)


def test_vocabulary_files(tmp_path):
    path = tmp_path / "vocab.txt"
    words = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b", "é"]
    for end in ("\n", "\r\n", "\r"):
        path.write_bytes(end.join(words).encode() + end.encode())
        tokenizer = WordPieceTokenizer.from_vocabulary_file(path, lowercase=False)
        assert tokenizer.vocabulary == tuple(words)
        assert tokenizer.encode("ab é A", add_start=True, add_end=True) == [3, 6, 7, 8, 2, 4]
        assert (tokenizer.unknown_id, tokenizer.start_id, tokenizer.end_id) == (2, 3, 4)
        assert tokenizer.mask_id == 5
    for content, message in (
        ("[UNK]\n[PAD]\n[CLS]\n[SEP]\n", r"\[PAD\] as its first.*\[PAD\] as token 1"),
        ("the\nof\nand\n", r"id 0 is padding.*begins with \['the', 'of', 'and'\]"),
        ("[PAD]\n[UNK]\n[CLS]\na\n", r"without \['\[SEP\]'\]"),
        ("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\na\n", "'a' as tokens 4 and 6"),
        ("[PAD]\n[UNK]\n[CLS]\n[SEP]\n\na\n", "Token 4 is ''"),
        ("", "begins with"),
    ):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(ValueError, match=rf"vocab\.txt.*{message}"):
            WordPieceTokenizer.from_vocabulary_file(path)
    path.write_bytes(b"[PAD]\n\xff\n")
    with pytest.raises(ValueError, match="Expected UTF-8"):
        WordPieceTokenizer.from_vocabulary_file(path)


@pytest.mark.slow
def test_accents_are_a_setting_of_their_own():
    vocabulary = [*SPECIAL, "cafe", "café", "Cafe", "Café"]
    settings_of = {(True, None): 4, (True, False): 5, (False, True): 6, (False, None): 7}
    for (lowercase, accents), index in settings_of.items():
        tokenizer = WordPieceTokenizer(vocabulary, lowercase, accents)
        assert tokenizer.encode("Café") == [index]
        assert graph_ids(tokenizer.to_graph(), ["Café"]) == [[index]]
        again = WordPieceTokenizer.from_config(tokenizer.get_config())
        assert again.encode("Café") == [index]


def test_saving(tokenizer, tmp_path):
    tokenizer.save_assets(tmp_path / "new")
    again = WordPieceTokenizer.load_assets(tmp_path / "new")
    assert again.get_config() == tokenizer.get_config()
    assert again.encode(TEXTS) == tokenizer.encode(TEXTS)
    config = keras.saving.serialize_keras_object(tokenizer)
    again = keras.saving.deserialize_keras_object(json.loads(json.dumps(config)))
    assert again.get_config() == tokenizer.get_config()
    with pytest.raises(ValueError, match="Received: nothing"):
        WordPieceTokenizer.load_assets(tmp_path)
    BytePairTokenizer.train(["a b"], 259).save_assets(tmp_path)
    (tmp_path / "byte_pair.json").rename(tmp_path / "word_piece.json")
    with pytest.raises(ValueError, match="another format"):
        WordPieceTokenizer.load_assets(tmp_path)


@pytest.mark.slow
def test_a_saved_model_needs_tensorflow_alone(tokenizer, graph, tmp_path):
    tf.saved_model.save(graph, tmp_path / "model")
    script = """
        import json, sys
        for name in ("keras_hub", "tokenizers"):
            sys.modules[name] = None
        import tensorflow as tf
        model = tf.saved_model.load(sys.argv[1])
        texts = tf.constant(json.loads(sys.stdin.read()))
        print(json.dumps(model.encode(texts).to_list()))
    """
    done = run_python("alone", textwrap.dedent(script), tmp_path / "model", stdin=json.dumps(TEXTS))
    assert json.loads(done.stdout) == tokenizer.encode(TEXTS)
    assert tokenizer.exported_with == ("tensorflow",)


def test_tokenizers_by_name():
    names = {
        "byte_pair": BytePairTokenizer,
        "sentence_piece": SentencePieceTokenizer,
        "word_piece": WordPieceTokenizer,
        "words": WordTokenizer,
    }
    assert names == keras_attn.text.TOKENIZERS


def test_offsets_by_hand():
    words = ["hi", "##gh", "cafe", "han", "!", "\u1112", "##\u1161", "##\u11ab", "字"]
    tokenizer = WordPieceTokenizer([*SPECIAL, *words])
    text = "  HÍGH!\tcafe\u0301 字🙂\x00\u200bhi 한"
    ids, offsets = tokenizer.encode_with_offsets(text)
    pieces = [text[start:end] for start, end in offsets]
    assert tokenizer.tokens(ids) == [
        *("hi", "##gh", "!", "cafe", "字", "[UNK]", "\u1112", "##\u1161", "##\u11ab"),
    ]
    assert pieces == ["HÍ", "GH", "!", "cafe\u0301", "字", "🙂\x00\u200bhi", "한", "한", "한"]
    both = tokenizer.encode_with_offsets(["hi", ""], add_start=True, add_end=True)
    assert both == ([[2, 4, 3], [2, 3]], [[(0, 0), (0, 2), (2, 2)], [(0, 0), (0, 0)]])
    lone = "hi\ud800 \udfff hi"
    assert tokenizer.encode_with_offsets(lone)[1] == [(0, 2), (6, 8)]
    with pytest.raises(TypeError, match="must be strings"):
        tokenizer.encode_with_offsets([b"x"])


def test_offsets_are_where_the_pieces_are(tokenizer):
    texts = TEXTS + ODD_TEXTS
    ids, offsets = tokenizer.encode_with_offsets(texts)
    assert ids == tokenizer.encode(texts)
    compared = 0
    for text, row, places in zip(texts, ids, offsets, strict=True):
        assert places == sorted(places)
        for index, (start, end) in zip(row, places, strict=True):
            assert 0 <= start < end <= len(text)
            piece = tokenizer.vocabulary[index].removeprefix("##")
            whole = "".join(tokenizer.tokens(tokenizer.encode(text[start:end])))
            if index != tokenizer.unknown_id and tokenizer.unknown_id not in tokenizer.encode(
                text[start:end]
            ):
                assert piece in whole.replace("##", "")
                compared += 1
    assert compared > 250


TRAINED = BytePairTokenizer.train(TEXTS * 2, 500, normalize=False)


@settings(deadline=None, max_examples=100)
@given(st.text(st.one_of(st.characters(), st.sampled_from("aü🙂\ud800 \n"))))
def test_byte_pair_offsets_cover_the_text(text):
    ids, offsets = TRAINED.encode_with_offsets(text)
    assert ids == TRAINED.encode(text)
    reached = 0
    for start, end in offsets:
        assert start <= reached <= end
        assert end > start
        reached = end
    assert reached == len(text)
    for index, (start, end) in zip(ids, offsets, strict=True):
        piece = TRAINED.token_bytes[index]
        data = text[start:end].encode("utf-8", "surrogatepass")
        if not any(0xD800 <= ord(c) < 0xE000 for c in text[start:end]):
            assert piece in data


def test_byte_pair_offsets_by_hand():
    text = "girl 🙂ü\ud800."
    ids, offsets = TRAINED.encode_with_offsets(text, add_start=True, add_end=True)
    assert (ids[0], ids[-1]) == (TRAINED.start_id, TRAINED.end_id)
    assert (offsets[0], offsets[-1]) == ((0, 0), (9, 9))
    pieces = TRAINED.tokens(ids)
    smile = [place for place, piece in zip(offsets, pieces, strict=True) if "<0x9F>" in piece]
    assert smile == [(5, 6)]
    assert TRAINED.encode_with_offsets([]) == ([], [])
    assert TRAINED.encode_with_offsets(["", "a"])[1] == [[], [(0, 1)]]
    assert np.array(offsets).shape == (len(ids), 2)


def test_a_word_of_megabytes_is_left_out_of_the_training():
    """The trainer's work for a word grows with its square: this would take hours."""
    texts = ["low lower lowest"] * 3
    plain = WordPieceTokenizer.train(texts, 22)
    found = WordPieceTokenizer.train([*texts, "low" * 300_000], 22)
    assert found.vocabulary[-2:] == plain.vocabulary[-2:]
    # Ideographs are words of their own, however many stand together.
    han = "\u4e00\u4e8c" * 200
    assert WordPieceTokenizer.train([han] * 3, 20, allow_fewer=True).encode([han])[0]
    assert without_long_words(han) == han
    assert without_long_words("x" * 100) == "x" * 100
