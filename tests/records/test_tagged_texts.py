"""Sentences with labels from files: what is read, and what is said of bad lines."""

import gzip
import json

import pytest

from keras_attn.records import TaggedText, read_tagged, split_tagged
from keras_attn.records.tagged_texts import checked_tagged

CONLL = """-DOCSTART- -X- -X- O

# a comment
Ada NNP B-NP B-PER
codes VBZ B-VP O
# NN B-NP O

-DOCSTART- -X- -X- O
Tea NN B-NP O
#tag NN B-NP O
"""


def place(tmp_path, text, name="a.txt"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def words(texts):
    return [(" ".join(text.words), " ".join(text.labels)) for text in texts]


def test_columns(tmp_path):
    text = CONLL.replace("# NN B-NP O\n", "")
    found = read_tagged(place(tmp_path, text))
    assert words(found) == [("Ada codes", "B-PER O"), ("Tea #tag", "O O")]
    assert words(read_tagged(place(tmp_path, text), label_column=1)) == [
        ("Ada codes", "NNP VBZ"), ("Tea #tag", "NN NN"),
    ]  # fmt: skip
    turned = read_tagged(place(tmp_path, text), word_column=-1, label_column=0)
    assert words(turned)[0] == ("B-PER O", "Ada codes")
    summary = "2 sentences of 4 words, labels O 3, B-PER 1, entities by BIO"
    assert found.summary().endswith(summary) and len(found) == 2


def test_a_number_sign_is_a_word_behind_a_word(tmp_path):
    text = "# a comment\nIt O\ncost O\n# B-MON\n14.99 I-MON\n\n# one more\nA\u00a0B O\n"
    assert words(read_tagged(place(tmp_path, text))) == [
        ("It cost # 14.99", "O O B-MON I-MON"), ("A\u00a0B", "O"),
    ]  # fmt: skip
    tabs = "#\tO\n14\tO\n"
    assert words(read_tagged(place(tmp_path, tabs))) == [("# 14", "O O")]


def test_tabs_line_ends_and_the_last_sentence(tmp_path):
    text = "New\u00a0York\tB-LOC\r\n is \tO \r\n\r\n\r\nx\tO"
    found = read_tagged(place(tmp_path, text))
    assert found[0].words[0] == "New\u00a0York" and found[0].labels == ("B-LOC", "O")
    assert found[1] == TaggedText(("x",), ("O",))
    assert words(read_tagged(place(tmp_path, b"\xef\xbb\xbfAda O\n")))[0][0] == "Ada"


def test_gzip_and_json_lines(tmp_path):
    lines = [
        {"words": ["Ada", "codes"], "labels": ["B-PER", "O"], "id": 7},
        {"words": [], "labels": []},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines) + "\n"
    for name, data in (
        ("a.jsonl", text.encode()), ("a.jsonl.gz", gzip.compress(text.encode())),
        ("A.NDJSON", text.encode()),
    ):  # fmt: skip
        assert words(read_tagged(place(tmp_path, data, name))) == [("Ada codes", "B-PER O")]
    path = place(tmp_path, gzip.compress(b"Ada B-PER\n"), "a.conll.gz")
    assert words(read_tagged(path)) == [("Ada", "B-PER")]


def test_bad_lines_are_named_or_their_sentences_left_out(tmp_path):
    text = b"a O\nb\nc O\n\nd O\n\ne O\n\xff\xfe O\nf O\n\ng O\n"
    path = place(tmp_path, text)
    with pytest.raises(ValueError, match=r"line 2: 1 columns in 'b'"):
        read_tagged(path)
    found = read_tagged(path, on_error="skip")
    assert words(found) == [("d", "O"), ("g", "O")]
    assert [problem.line for problem in found.problems] == [2, 8] and found.skipped == 2
    assert "2 bad lines were left out" in found.summary()
    wide = place(tmp_path, b"a O\nb c O\nd O\n\ne O\n", "wide.txt")
    assert words(read_tagged(wide, on_error="skip")) == [("e", "O")]
    only = place(tmp_path, b"a O\nb\n", "b.txt")
    with pytest.raises(ValueError, match="expected"):
        read_tagged(only, on_error="skip")


def test_bad_json_lines_are_named(tmp_path):
    good = '{"words": ["a"], "labels": ["O"]}\n'
    for bad, message in (
        ('{"words": ["a"]}', "no 'labels' among the keys 'words'"),
        ('{"words": ["a", "b"], "labels": ["O"]}', "2 words and 1 labels"),
        ('{"words": "ab", "labels": ["O", "O"]}', "'words' is not a list of strings"),
        ('{"words": ["a", ""], "labels": ["O", "O"]}', "'words' is not a list of strings"),
        (r'{"words": ["\ud83d"], "labels": ["O"]}', "'words' has half a surrogate pair"),
        ("[1]", "line 2"),
        ("{", "line 2"),
    ):
        path = place(tmp_path, good + bad + "\n" + good, "a.jsonl")
        with pytest.raises(ValueError, match=message) as raised:
            read_tagged(path)
        assert "line 2" in str(raised.value)
        assert words(read_tagged(path, on_error="skip")) == [("a", "O")] * 2


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere.txt, which is not an existing file"):
        read_tagged(tmp_path / "nowhere.txt")
    with pytest.raises(ValueError, match="at least one sentence"):
        read_tagged(place(tmp_path, "\n\n"))
    with pytest.raises(ValueError, match="different columns"):
        read_tagged(place(tmp_path, "a O\n"), label_column=0)
    for columns in ({"label_column": 2}, {"word_column": 2}, {"word_column": -3}):
        (number,) = columns.values()
        missing = rf"line 1: 2 columns in 'a O', and no column {number} \(the first is 0\)"
        with pytest.raises(ValueError, match=missing):
            read_tagged(place(tmp_path, "a O\n"), **columns)


def test_examples_are_checked():
    assert checked_tagged([(["a"], ["O"]), TaggedText(("b",), ("O",))]) == [
        TaggedText(("a",), ("O",)), TaggedText(("b",), ("O",)),
    ]  # fmt: skip
    for wrong in ("ab", ["a b", "O O"], (["a"], [1]), (["a"],), 7):
        with pytest.raises(TypeError, match="example 1"):
            checked_tagged([(["a"], ["O"]), wrong])


def test_splits_do_not_share_sentences():
    texts = [TaggedText((f"w{n % 150}", "x"), ("O", "O")) for n in range(300)]
    first, second = split_tagged(texts, 0.2)
    assert len(first) + len(second) == 300 and 30 <= len(second) <= 90
    assert not {text.words for text in first} & {text.words for text in second}
    assert split_tagged(texts, 0.2) == (first, second) != split_tagged(texts, 0.2, seed=1)
    kept = set(split_tagged(texts, 0.4)[1])  # a greater share has the same sentences and more
    assert {*second} <= kept
    for share in (0, 1, 1.5):
        with pytest.raises(ValueError, match="above 0 and below 1"):
            split_tagged(texts, share)


def test_few_sentences_are_on_both_sides():
    for count in range(2, 9):
        texts = [TaggedText((f"w{n % count}", "x"), ("O", "O")) for n in range(3 * count)]
        for share in (0.001, 0.999):
            sides = split_tagged(texts, share)
            alone = {text.words for text in sides[share < 0.5]}
            assert (len(alone), sum(map(len, sides))) == (1, 3 * count)


def test_a_word_of_two_is_not_cut(tmp_path):
    """Parted by spaces, `New York B-LOC` would lose a word."""
    text = "It O\nis O\n\nNew York B-LOC\n\nTea O\n"
    with pytest.raises(ValueError, match="3 columns in 'New York B-LOC', 2 before it"):
        read_tagged(place(tmp_path, text))
    found = read_tagged(place(tmp_path, text), on_error="skip")
    assert words(found) == [("It is", "O O"), ("Tea", "O")] and found.skipped == 1
