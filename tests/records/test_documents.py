"""Documents of sentences: formats, places, and how bad lines are told."""

import gzip
import json
import os

import pytest

from keras_attn.records import Documents, read_whole_documents, split_documents
from keras_attn.records.documents import MAX_CHARACTERS

LINES = "It rains.\nI stay in.\n\nThe sun shines.\nI go out.\n"
DOCUMENTS = [["It rains.", "I stay in."], ["The sun shines.", "I go out."]]


def write(path, content):
    data = content if isinstance(content, bytes) else content.encode("utf-8")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)
    return path


def records(*texts, key="text"):
    return "".join(json.dumps({"id": 1, key: text}) + "\n" for text in texts)


@pytest.mark.parametrize("name", ["a.txt", "a", "a.txt.gz", "a.TXT", "a.csv"])
@pytest.mark.parametrize(
    "content",
    [
        LINES,
        LINES.removesuffix("\n"),
        LINES.replace("\n", "\r\n"),
        "\ufeff" + LINES,
        "\n\n" + LINES + "\n \n\n",
        LINES.replace("\n\n", "\n\n\n \t\n"),
        LINES.replace("\n\n", "\n\u3000\u200b\n"),
        LINES.replace("It", "  It").replace("out.", "out. \t"),
    ],
    ids=["plain", "no end", "crlf", "bom", "blank ends", "doubled", "no ascii", "spaces"],
)
def test_a_sentence_a_line(tmp_path, name, content):
    documents = Documents(write(tmp_path / name, content))
    assert list(documents) == list(documents) == DOCUMENTS
    assert documents.skipped == 0


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "a.json", "a.jsonl.gz"])
def test_whole_documents(tmp_path, name):
    content = records("It rains. I stay in.", "\nThe sun shines.<br />I go out.\n")
    documents = Documents(write(tmp_path / name, "\ufeff" + content.replace("\n", "\r\n\r\n")))
    assert list(documents) == list(documents) == DOCUMENTS
    other = write(tmp_path / f"b{name[1:]}", records("One. Two.", key="body"))
    assert list(Documents(other, key="body")) == [["One.", "Two."]]


def test_lines_of_a_text_are_taken_as_they_are(tmp_path):
    path = write(tmp_path / "a.txt", "One. Two.\nthree\u2028four\x0b<br>\r\n\n{}\n")
    assert list(Documents(path)) == [["One. Two.", "three\u2028four\x0b<br>"], ["{}"]]


def test_several_files(tmp_path):
    """A document ends with its file. Folders and patterns are in the order of the names."""
    one = write(tmp_path / "in/b.txt", "B1\nB2")
    two = write(tmp_path / "in/a.jsonl.gz", records("A1. A2."))
    write(tmp_path / "in/notes.md", "no text")
    (tmp_path / "in/sub.txt").mkdir()
    other = write(tmp_path / "c", "C1\n\nC2\n")
    a, b, c = [["A1.", "A2."]], [["B1", "B2"]], [["C1"], ["C2"]]
    assert list(Documents(tmp_path / "in")) == a + b
    assert list(Documents(str(tmp_path / "in/*.*t*"))) == b
    assert list(Documents(str(tmp_path / "in/[ab].*"))) == a + b
    joined = os.pathsep.join(map(str, (other, one, two)))
    assert list(Documents(joined)) == c + b + a
    assert list(Documents(f"{other}{os.pathsep}{tmp_path / 'in'}")) == c + a + b


def test_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "a.txt", LINES)
    assert list(Documents("~/a.txt")) == list(Documents("~/*.txt")) == DOCUMENTS


def test_missing_files(tmp_path, monkeypatch):
    path = write(tmp_path / "a.txt", LINES)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    sep = os.pathsep
    for place in ("none.txt", "*.jsonl", "empty", f"{path}{sep}none", "", f"{path}{sep}"):
        with pytest.raises(FileNotFoundError, match="Expected a text file, a folder"):
            Documents(place)


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.txt.gz"])
@pytest.mark.parametrize("content", ["", "\n\n \n", "\ufeff"])
@pytest.mark.parametrize("on_error", ["error", "skip"])
def test_empty_files(tmp_path, name, content, on_error):
    path = write(tmp_path / name, content)
    with pytest.raises(ValueError, match=rf"{name}: expected at least one document\. Received"):
        list(Documents(path, on_error=on_error))


def test_an_empty_file_beside_others(tmp_path):
    write(tmp_path / "a.txt", LINES)
    write(tmp_path / "b.txt", "\n")
    with pytest.raises(ValueError, match=r"b\.txt: expected at least one document"):
        list(Documents(tmp_path))


def test_bad_lines(tmp_path):
    long = "word " * (MAX_CHARACTERS // 5)
    content = LINES.encode() + b"Caf\xe9.\n" + long.encode() + b"s\n" + long[:-1].encode() + b"\n"
    path = write(tmp_path / "a.txt", content)
    with pytest.raises(ValueError, match=r"a\.txt: expected documents of sentences") as caught:
        list(Documents(path))
    message = str(caught.value)
    assert "2 of 8 lines without: 1 not valid Unicode text (line 6: byte 0xe9 at byte 4" in message
    assert "1 with a sentence that is too long (line 7: a sentence of 100,001 char" in message
    assert len(message) < 600
    documents = Documents(path, on_error="skip")
    for _ in range(2):
        assert list(documents) == [DOCUMENTS[0], [*DOCUMENTS[1], long[:-1]]]
        assert documents.skipped == 2


def test_a_line_of_a_megabyte(tmp_path):
    long = "no end " * 150_000
    for name, content in (("a.txt", f"One.\n{long}\n"), ("b.jsonl", records("One.", long))):
        message = rf"{name}: .* \(line 2: a sentence of 1,0\d\d,\d\d\d characters, more than"
        with pytest.raises(ValueError, match=message):
            list(Documents(write(tmp_path / name, content)))
    # A document may be as long, if its sentences are not.
    path = write(tmp_path / "c.jsonl", records("It is so. " * 100_000))
    assert [len(document) for document in Documents(path)] == [100_000]


def test_bad_objects(tmp_path):
    lines = [
        '{"text": "One."}',
        '{"text": ""}',
        '{"text": " \\u200b<br>\\n"}',
        '{"body": "x"}',
        '{"text": 3}',
        '{"text": null}',
        '{"text": "\\ud83d"}',
        "[1]",
        '{"text": "x"',
        '{"text": "\udce9"}',
        '{"text": "Two."}',
    ]
    content = "\n".join(lines).encode("utf-8", "surrogateescape")
    path = write(tmp_path / "a.jsonl", content)
    with pytest.raises(ValueError, match=r"a\.jsonl: .* 9 of 11 lines without") as caught:
        list(Documents(path))
    message = str(caught.value)
    for part in (
        "2 that are empty (lines 2, 3: the document is empty)",
        "(line 4: no 'text' among the keys 'body')",
        "(lines 5, 6; the first: 'text' is of type int)",
        "'text' has half a surrogate pair",
        "(lines 8, 9; the first: a list, '[1]')",
        "--on-error skip",
    ):
        assert part in message
    documents = Documents(path, on_error="skip")
    assert list(documents) == [["One."], ["Two."]]
    assert documents.skipped == 9
    with pytest.raises(ValueError, match="on_error"):
        list(Documents(path, on_error="ignore"))


def test_skipped_lines_of_all_files_are_counted(tmp_path):
    write(tmp_path / "a.txt", b"One.\n\xff\n")
    write(tmp_path / "b.jsonl", '{"text": "Two."}\n{}\n3\n')
    documents = Documents(tmp_path, on_error="skip")
    assert list(documents) == [["One."], ["Two."]]
    assert documents.skipped == 3


def test_damaged_and_foreign_files(tmp_path):
    for name, data, message in (
        ("a.txt.gz", gzip.compress(LINES.encode() * 99, mtime=0)[:-20], "cut off or damaged"),
        ("b.txt", LINES.encode("utf-16")[:-1], "UTF-16"),
        ("c.txt", b"PK\x03\x04" + bytes(99), "a zip archive"),
    ):
        path = tmp_path / name
        path.write_bytes(data)
        for on_error in ("error", "skip"):
            with pytest.raises(ValueError, match=rf"{name}: .*{message}"):
                list(Documents(path, on_error=on_error))


def test_texts_prompts_and_answers(tmp_path):
    text = "It rains.\nI stay in.\n \n\nThe sun shines.\n"
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "b.txt").write_text("More.\n")
    one = read_whole_documents(tmp_path / "a.txt")
    assert one == text and one.where == str(tmp_path / "a.txt")
    documents = ["It rains.\nI stay in.", "The sun shines."]
    found = read_whole_documents(tmp_path / "a.txt", blank_lines=True)
    assert list(found) == documents
    assert found.summary().endswith("a.txt: 2 documents of 35 characters")
    assert list(read_whole_documents(tmp_path)) == [text, "More.\n"]
    assert list(read_whole_documents(tmp_path, blank_lines=True)) == [*documents, "More."]
    rows = [{"q": "2 + 2 =", "a": " 4"}, {"q": "", "a": "Hi."}]
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, rows)))
    asked = read_whole_documents(tmp_path / "c.jsonl", "a", "q")
    assert list(asked) == [("2 + 2 =", " 4"), ("", "Hi.")]
    assert list(read_whole_documents(tmp_path / "c.jsonl", "a")) == [" 4", "Hi."]
    assert len(read_whole_documents(tmp_path, "a")) == 4


def test_gzipped_whole_documents(tmp_path):
    write(tmp_path / "a.txt.gz", LINES)
    write(tmp_path / "b.txt", "More.\n")
    assert read_whole_documents(tmp_path / "a.txt.gz") == LINES
    assert read_whole_documents(write(tmp_path / "in/a.gz", LINES.encode("utf-16"))) == LINES
    assert list(read_whole_documents(tmp_path)) == [LINES, "More.\n"]
    for data in (gzip.compress(LINES.encode())[:-9], b"no archive"):
        (tmp_path / "c.txt.gz").write_bytes(data)
        with pytest.raises(ValueError, match=r"whole gzipped text.*c\.txt\.gz, which is cut off"):
            read_whole_documents(tmp_path / "c.txt.gz")


def test_bad_whole_documents(tmp_path):
    rows = [{"text": "Hi."}, {"q": ""}, {"text": " "}, {"text": 3}]
    path = tmp_path / "c.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(ValueError, match=r"3 of 4 lines .*no 'text'.*'text' has no text"):
        read_whole_documents(path)
    kept = read_whole_documents(path, on_error="skip")
    assert list(kept) == ["Hi."] and "Left out" in kept.summary()
    (tmp_path / "blank.txt").write_text("\n \n")
    with pytest.raises(ValueError, match="at least one document"):
        read_whole_documents(tmp_path / "blank.txt", blank_lines=True)
    for settings, name in (({"prompt_key": "q"}, "blank.txt"), ({"blank_lines": True}, "c.jsonl")):
        with pytest.raises(ValueError, match=f"`{next(iter(settings))}` is only used with"):
            read_whole_documents(tmp_path / name, **settings)


def test_splits_of_whole_documents():
    documents = [*(f"It is {n}." for n in range(200)), *[("q", "a"), ("q", "a"), ("q", "b")] * 9]
    train, dev, test = split_documents(documents, 0.1, 0.2)
    assert sorted(map(str, [*train, *dev, *test])) == sorted(map(str, documents))
    assert 8 < len(dev) < 40 < len(test) < 80
    sides = [{*map(str, side)} for side in (train, dev, test)]
    assert not sides[0] & sides[1] and not sides[0] & sides[2] and not sides[1] & sides[2]
    assert split_documents(documents, 0, 0) == (documents, [], [])
    assert split_documents("0123456789", 0.2, 0.1) == ("0123456", "78", "9")
    with pytest.raises(ValueError, match="together below 1"):
        split_documents(documents, 0.5, 0.5)
    for wrong, error in ((b"a", TypeError), ([3], TypeError), ([""], ValueError),
                         ([("a", "b", "c")], TypeError), ([("a", "")], ValueError)):  # fmt: skip
        with pytest.raises(error):
            split_documents(wrong, 0.1, 0.1)
