"""SentencePiece, beside the `sentencepiece` library and in a graph."""

import base64
import copy
import json
import os
import pathlib
import pickle
import random
import subprocess
import sys

import keras
import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from processes import run_python

from keras_attn.text import SentencePieceTokenizer, byte_places
from keras_attn.text.pieces import TokenReader
from keras_attn.text.sentence_piece_model import model_pieces

TEXTS = [
    "Ein kleines Mädchen klettert in ein Spielhaus aus Holz.",
    "A little girl climbing into a wooden playhouse, a little girl.",
    "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.",
    "Two young, white males are outside near many bushes: two males.",
    "日本語の文と、日本語の文。 for i in range(100):\n    print(i)\n    print(i)\n",
]
ODD_TEXTS = [
    "",
    " ",
    "  two  young   girls ",
    "\x00\x01\x00",
    "tab\tnewline\nreturn\r\nfeed\x0c\x0bend\n\n\n",
    "no\u00a0break\u202fspace\u2028line\u3000wide\u3000",
    "👨‍👩‍👧 🏴\U000e0067\U000e007f 👍🏽 ❤️",
    "\ufeffmark \ufffe\uffff \U0010ffff \ud7ff\ue000",
    "<pad> <s></s> <unk> <0x41> ▁ ⁇ ▁▁a",
    "½ little ㎏ ﬁ ＡＢ e\u0301\u0302 … ™ 한국어",
    "日本語の文 girl日本",
]


def odd_lines(count, seed=0):
    """Lines of ordinary words with all that is odd between them."""
    rng = random.Random(seed)
    pools = (
        "abcdefghij XYZ ,.!?'\"-", "éüßñçøåÀ", "中文字漢日本語カタカナ", "한국어",
        "🙂😀👩\u200d👧🇩🇪", " \t\n\u00a0\u3000\u200b\ufeff", "\u0301\u0308\u0327", "½①ﬁＡＢＣ㎏™…",
        "٠١٢العربية",
        "\x00\x01\x7f\x85\ufffd▁⁇", "0123456789", "<s></s><unk><0x41>",
    )  # fmt: skip
    words = ["the", "Hello", "world", "once upon a time", "</s>", "<unk>", "▁", "<0x0A>", "e\u0301"]
    lines = []
    for _ in range(count):
        parts = []
        for _ in range(rng.randint(0, 14)):
            pool = rng.choice(pools)
            word = "".join(rng.choices(pool, k=rng.randint(1, 6)))
            parts += [
                rng.choice(words) if rng.random() < 0.5 else word,
                rng.choice(["", " ", "  "]),
            ]
        lines.append("".join(parts))
    return lines


def graph_texts(graph, rows):
    return [x.decode() for x in graph.decode(tf.ragged.constant(rows, tf.int32, 1)).numpy()]


@pytest.fixture(scope="module")
def unigram():
    return SentencePieceTokenizer.train(TEXTS * 3, 400, allow_fewer=True, user_defined=["<sep>"])


@pytest.fixture(scope="module")
def merges():
    return SentencePieceTokenizer.train(TEXTS * 3, 400, model_type="bpe", normalize=False)


@pytest.fixture(scope="module")
def renumbered():
    """A vocabulary of its own over a model without bytes, as Marian and fairseq have one."""
    given = SentencePieceTokenizer.train(TEXTS * 3, 150, byte_fallback=False, allow_fewer=True)
    pieces = [p for p in reversed(model_pieces(given.model)) if p not in ("<s>", "<pad>", "girl")]
    pieces = [">>fra<<", *pieces, "▁foo▁bar", "한국어", "<pad>", "<mask>"]
    return SentencePieceTokenizer(
        given.model, pieces, mask_token="<mask>", special_tokens=[">>fra<<"]
    )


@pytest.fixture(params=["unigram", "merges", "renumbered"])
def tokenizer(request):
    return request.getfixturevalue(request.param)


def test_ids_and_texts_are_those_of_the_library(unigram, merges):
    for tokenizer in (unigram, merges):
        library = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
        lines = [*TEXTS, *ODD_TEXTS]
        ids = library.encode(lines)
        assert tokenizer.encode(lines) == ids
        assert tokenizer.decode(ids) == library.decode(ids)
        assert tokenizer.vocabulary == tuple(map(library.id_to_piece, range(len(library))))
        # Neither drops text: a byte stands for what is no piece.
        assert not any(tokenizer.unknown_id in row for row in ids)


@pytest.mark.quick("renumbered")
def test_a_graph_gives_the_same(tokenizer):
    graph, lines = tokenizer.to_graph(), [*TEXTS, *ODD_TEXTS]
    ids, offsets = tokenizer.encode_with_offsets(lines)
    assert ids == tokenizer.encode(lines)
    found, starts, ends = graph.encode_with_offsets(tf.constant(lines))
    assert graph.encode(tf.constant(lines)).to_list() == found.to_list() == ids
    assert found.dtype == starts.dtype == tf.int32
    for line, own, start, end in zip(lines, offsets, starts.to_list(), ends.to_list(), strict=True):
        assert byte_places(line, [place for place, _ in own]) == start
        assert byte_places(line, [place for _, place in own]) == end
    rng = random.Random(0)
    size = tokenizer.vocabulary_size
    rows = [[rng.randrange(size) for _ in range(rng.randint(0, 9))] for _ in range(300)]
    assert graph_texts(graph, ids) == tokenizer.decode(ids)
    assert graph_texts(graph, rows) == tokenizer.decode(rows)
    nest = np.array([row[:4] for row in rows if len(row) > 3][:12]).reshape(3, 4, 4)
    texts = graph.decode(tf.constant(nest)).numpy()
    assert [[x.decode() for x in row] for row in texts] == tokenizer.decode(nest)
    assert graph.decode(tf.zeros([0, 5], tf.int32)).shape == (0,)
    bad = tf.constant([b"girl \xff\xfe girl"])
    assert graph.encode(bad).to_list() == [tokenizer.encode("girl \ufffd\ufffd girl")]


def test_pieces_have_their_characters(unigram, merges, renumbered):
    line = "a  ½ girl\u3000𝄞 "
    for tokenizer in (unigram, merges, renumbered):
        ids, places = tokenizer.encode_with_offsets(line, add_start=True, add_end=True)
        assert places[0] == (0, 0) and places[-1] == (len(line),) * 2
        shown = [line[start:end] for start, end in places]
        # Without blanks; the parts of one character have all of it.
        assert "½" in shown and "𝄞" in shown
        assert not any(part != part.strip() for part in shown)
        assert [i for i, part in zip(ids, shown, strict=True) if part] != []
    whole = [line[s:e] for s, e in merges.encode_with_offsets(line)[1]]
    assert whole.count("𝄞") == 4  # one for each byte
    assert unigram.encode_with_offsets("a\ud800b")[1][-1] == (2, 3)


def test_special_tokens_are_never_made_of_a_text(unigram, renumbered):
    text = "<pad> <s> </s> <mask> >>fra<<"
    assert not {*unigram.special_tokens} & {*unigram.tokens(unigram.encode(text))}
    assert not {*renumbered.special_tokens} & {*renumbered.tokens(renumbered.encode(text))}
    assert unigram.encode("a<sep>a").count(unigram.vocabulary.index("<sep>")) == 1
    assert (unigram.pad_id, unigram.start_id, unigram.end_id, unigram.unknown_id) == (0, 1, 2, 3)
    # What the model has no piece for is looked up in the vocabulary.
    given = renumbered.model, renumbered.vocabulary
    special = SentencePieceTokenizer(*given, special_tokens=["한국어"])
    assert special.tokens(special.encode("a 한국어"))[-1] == "<unk>"
    assert unigram.decode([0, 1, *unigram.encode("a little girl"), 2, 0]) == "a little girl"


def test_a_vocabulary_of_its_own(renumbered):
    names = renumbered.vocabulary
    # Without <s> the start is padding, as the targets of Marian and T5 begin.
    assert names[renumbered.start_id] == names[renumbered.pad_id] == "<pad>"
    assert renumbered.special_tokens == ("<pad>", "<pad>", "</s>", "<mask>", ">>fra<<")
    assert names[renumbered.mask_id] == "<mask>"
    ids = renumbered.encode("a little girl 한국어 тест")
    # What the model does not know is looked up in the vocabulary, and is unknown if it is not
    # there.
    assert renumbered.tokens(ids)[-4:] == ["▁", "한국어", "▁", "<unk>"]
    assert renumbered.decode([names.index("▁foo▁bar"), *ids[-4:], 0]) == "foo bar 한국어  ⁇ "


@pytest.mark.parametrize("name", ["unigram", "merges"])
def test_pieces_of_a_stream(name, request):
    tokenizer = request.getfixturevalue(name)
    text, byte = "a girl 𝄞 Ü", tokenizer.vocabulary.index("<0x00>")
    reader = TokenReader(tokenizer)
    parts = [reader.read([i]) for i in tokenizer.encode(text)]
    assert "𝄞" in parts and parts.count("") >= 3  # the bytes of one character
    parts += [reader.read([byte + 0xE2, byte + 0x82]), reader.end()]
    # A stream goes on with a text, so the space at its start is text.
    assert "".join(parts) == f" {text}" + tokenizer.decode([byte + 0xE2, byte + 0x82])


def test_saving_and_copies(tokenizer, tmp_path):
    tokenizer.save_assets(tmp_path)
    config = json.loads(json.dumps(tokenizer.get_config()))
    for other in (
        SentencePieceTokenizer.load_assets(tmp_path),
        SentencePieceTokenizer.from_config(config),
        keras.saving.deserialize_keras_object(
            json.loads(json.dumps(keras.saving.serialize_keras_object(tokenizer)))
        ),
        copy.deepcopy(tokenizer),
        pickle.loads(pickle.dumps(tokenizer)),
    ):
        assert other.encode(ODD_TEXTS) == tokenizer.encode(ODD_TEXTS)
        assert other.get_config() == tokenizer.get_config()
        assert other.special_tokens == tokenizer.special_tokens


def test_damaged_models_are_refused(unigram, tmp_path):
    for model in (b"", b"none", unigram.model[:-100], b"\xff" * 50):
        with pytest.raises(ValueError, match=r"must be a SentencePiece model\. Received: "):
            SentencePieceTokenizer(model)
    with pytest.raises(TypeError, match="must be the bytes of a SentencePiece model"):
        SentencePieceTokenizer("tokenizer.model")
    # A piece that is not UTF-8.
    broken = unigram.model.replace("▁".encode(), b"\xff\xff\xff", 1)
    with pytest.raises(ValueError, match="damaged"):
        SentencePieceTokenizer(broken)
    config = unigram.get_config()
    for model in (config["model"][:-1], None, "é", base64.b64encode(b"none").decode()):
        with pytest.raises(ValueError, match="SentencePiece model"):
            SentencePieceTokenizer.from_config({**config, "model": model})
    path = tmp_path / "sentence_piece.json"
    unigram.save_assets(tmp_path)
    path.write_text(path.read_text().replace("Cg", "!!", 1))
    with pytest.raises(ValueError, match="broken content"):
        SentencePieceTokenizer.load_assets(tmp_path)


def test_vocabularies_that_do_not_fit_are_refused(unigram):
    own, model = list(unigram.vocabulary), unigram.model
    with pytest.raises(ValueError, match=r"lacks \d+ of the \d+ pieces.*same model"):
        SentencePieceTokenizer(model, ["<pad>", "<unk>", "</s>", *"abcdefgh"])
    with pytest.raises(ValueError, match=r"each piece only once\. Received: '<s>' twice"):
        SentencePieceTokenizer(model, [*own, "<s>"])
    for piece in (3, None):
        with pytest.raises(TypeError, match=f"Received: {piece}"):
            SentencePieceTokenizer(model, [*own, piece])
    with pytest.raises(ValueError, match="`mask_token` must be in the vocabulary"):
        SentencePieceTokenizer(model, mask_token="<mask>")
    with pytest.raises(ValueError, match="`special_tokens` must be in the vocabulary"):
        SentencePieceTokenizer(model, special_tokens=[">>xx<<"])
    with pytest.raises(ValueError, match="`end_token` must be in the vocabulary"):
        SentencePieceTokenizer(model, [piece for piece in own if piece != "</s>"])


def test_training(unigram):
    again = SentencePieceTokenizer.train(
        iter(TEXTS * 3), 400, allow_fewer=True, user_defined=["<sep>"]
    )
    assert again.model == unigram.model
    with pytest.raises(ValueError, match=r"at least \d+: 4 special tokens.*Received: 20"):
        SentencePieceTokenizer.train(TEXTS, 20)
    with pytest.raises(ValueError, match=r"at most. Received: vocabulary_size=9000"):
        SentencePieceTokenizer.train(TEXTS, 9000)
    for texts in ([], ["", " "]):
        with pytest.raises(ValueError, match="at least one string that is not blank"):
            SentencePieceTokenizer.train(texts, 300)
    with pytest.raises(TypeError, match="Texts must be strings"):
        SentencePieceTokenizer.train(["a", None], 300)
    with pytest.raises(ValueError, match="`model_type` must be one of"):
        SentencePieceTokenizer.train(TEXTS, 300, model_type="word")
    # A space that is rare, and a long word.
    rare = SentencePieceTokenizer.train(["a" * 5000 + " b\nc"] * 3, 300, allow_fewer=True)
    assert rare.decode(rare.encode("a b c")) == "a b c"


@pytest.mark.slow
def test_long_texts(tokenizer):
    for text in ("girl " * 20_000, "x" * 100_000):
        ids, places = tokenizer.encode_with_offsets(text)
        assert tokenizer.to_graph().encode(tf.constant([text])).to_list() == [ids]
        assert places[-1][1] in (len(text), len(text) - 1)


SERVER = """
import sys, tensorflow as tf
if len(sys.argv) > 2:
    import tensorflow_text
graph = tf.saved_model.load(sys.argv[1])
ids = graph.encode(tf.constant(["a little girl"]))
print(ids.to_list())
assert graph.texts(ids).numpy().tolist() == [b"a little girl"]
"""


@pytest.mark.slow
def test_a_savedmodel_needs_tensorflow_text(merges, tmp_path):
    tf.saved_model.save(merges.to_graph(), str(tmp_path))
    ended = run_python("alone", SERVER, tmp_path, check=False)
    assert "Op type not registered 'Sentencepiece" in ended.stderr


@pytest.mark.slow
def test_a_savedmodel_in_a_fresh_process(merges, tmp_path):
    tf.saved_model.save(merges.to_graph(), str(tmp_path))
    command = [sys.executable, "-I", "-c", SERVER, str(tmp_path), "text"]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(found.stdout) == [merges.encode("a little girl")]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["source", "target", "stories", "trained"])
def test_ten_thousand_odd_lines(name):
    """Ids and texts in Python and in a graph. Ties of unigram models are counted and named."""
    lines = odd_lines(10_000)
    if name == "trained":
        tokenizer = SentencePieceTokenizer.train(lines[:3000] + TEXTS, 1000)
    else:
        folder = os.environ.get("KERAS_ATTN_DATA")
        if not folder:
            pytest.skip("KERAS_ATTN_DATA, a folder with real SentencePiece models, is not set")
        file = "stories260k/tokenizer.model" if name == "stories" else f"opus_mt_en_mg/{name}.spm"
        tokenizer = SentencePieceTokenizer(pathlib.Path(folder, file).read_bytes())
    graph = tokenizer.to_graph()
    ids = tokenizer.encode(lines)
    found = graph.encode(tf.constant(lines)).to_list()
    ties = [(line, a, b) for line, a, b in zip(lines, ids, found, strict=True) if a != b]
    library = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
    for line, here, there in ties:
        scores = [sum(map(library.get_score, row)) for row in (here, there)]
        print(f"a tie: {line!r}: {tokenizer.tokens(here)} and {tokenizer.tokens(there)}")
        assert len(here) and abs(scores[0] - scores[1]) < 1e-4 * abs(scores[0])
        assert tokenizer.decode(here) == tokenizer.decode(there)
    print(f"{name}: {len(ties)} ties in {len(lines):,} lines")
    assert len(ties) <= (0 if name == "stories" else 100)
    assert graph_texts(graph, ids) == tokenizer.decode(ids) == library.decode(ids)
