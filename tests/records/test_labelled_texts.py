"""Readers of labelled texts: what they take, what they refuse, and how they say so."""

import csv
import gzip
import itertools
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from keras_attn.records import LabelledText, read_imdb, read_labelled, read_sst2
from keras_attn.records.labelled_texts import as_labelled


def write(path, content):
    data = content if isinstance(content, bytes) else content.encode("utf-8")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)
    return path


def pairs(texts):
    return [(example.text, example.label) for example in texts]


@pytest.mark.parametrize("name", ["a.csv", "a.CSV.gz", "a.csv.gz"])
def test_csv(tmp_path, name):
    content = (
        "\ufefflabel,id,text\r\n"
        'good,1,"Well, ""really"" good,\r\nand long."\r\n'
        "\r\n"
        "bad,2,  Not for me 🙁 \r\n"
        ",,\r\n"
        'bad,3,"\ttabs, too"'
    )
    path = write(tmp_path / name.lower(), content)
    texts = read_labelled(path)
    assert pairs(texts) == [
        ('Well, "really" good,\nand long.', "good"),
        ("Not for me 🙁", "bad"),
        ("tabs, too", "bad"),
    ]
    assert texts.counts["lines"] == 7
    assert texts.counts["passed_over"] == 4  # the header, two blank ones, the second of a cell
    assert texts.label_counts == {"bad": 2, "good": 1}
    assert texts.labels == ["good", "bad", "bad"]
    assert texts.texts[1] == "Not for me 🙁"
    assert texts[1:][0].label == "bad"


def test_columns_by_name_and_by_number(tmp_path):
    path = write(tmp_path / "a.csv", "who,what,rating\nann,Fine.,5\nbob,Poor.,1\n")
    by_name = read_labelled(path, "what", "rating", group="who")
    assert by_name[0] == LabelledText("Fine.", "5", "ann")
    assert list(read_labelled(path, 1, 2, group=0, header=True)) == list(by_name)
    assert list(read_labelled(path, 1, "rating", group=0)) == list(by_name)
    assert read_labelled(path, 1, 2)[0] == LabelledText("what", "rating")
    other = write(tmp_path / "b.csv", "Fine; good.;5\n")
    with pytest.raises(ValueError, match=r"2 expected, 1 in|no such column|columns"):
        read_labelled(other, 0, 1)
    assert pairs(read_labelled(write(tmp_path / "c.csv", "a,b;1\n"), 0, 1, delimiter=";")) == [
        ("a,b", "1")
    ]


def test_tab_separated_texts_keep_their_quotation_marks(tmp_path):
    path = write(tmp_path / "a.tsv", 'text\tlabel\n"Open\t1\nsay "hi"\t0\n')
    assert pairs(read_labelled(path)) == [('"Open', "1"), ('say "hi"', "0")]


def test_json_lines(tmp_path):
    records = [
        {"text": "One\nline", "label": "x", "film": 7},
        {"text": "Two", "label": 1, "film": "b"},
        {"text": "Three", "label": True, "film": ""},
    ]
    content = "\n\n".join(map(json.dumps, records)) + "\n"
    texts = read_labelled(write(tmp_path / "a.jsonl.gz", content), group="film")
    assert [x[:3] for x in texts] == [
        ("One\nline", "x", "7"), ("Two", "1", "b"), ("Three", "true", "")
    ]  # fmt: skip
    assert texts.counts["passed_over"] == 2


def test_several_labels(tmp_path):
    path = write(tmp_path / "a.csv", "text,label\nA,b|a| b\nB,\nC,c\n")
    texts = read_labelled(path, label_separator="|")
    assert texts.labels == [("a", "b"), (), ("c",)]
    assert texts.label_counts == {"a": 1, "b": 1, "c": 1}
    lines = '{"text": "A", "label": ["y", "x"]}\n{"text": "B", "label": []}\n'
    path = write(tmp_path / "a.jsonl", lines)
    assert read_labelled(path, label_separator="|").labels == [("x", "y"), ()]
    with pytest.raises(ValueError, match=r"of type list\. Several labels need a `label_separator`"):
        read_labelled(path)


def test_names_of_labels(tmp_path):
    path = write(tmp_path / "a.csv", "text,label\nA,0\nB,1\nC,2\n")
    texts = read_labelled(path, label_names={"0": "no", "1": "yes"}, on_error="skip")
    assert pairs(texts) == [("A", "no"), ("B", "yes")]
    assert texts.problems == [(4, "label", "'2' is none of '0', '1'")]


def test_all_problems_are_told_at_once(tmp_path):
    lines = [
        b"text,label",
        b"Fine.,1",
        b"Caf\xe9,1",
        b",1",
        b"\xe2\x80\x8b,0",  # a zero-width space
        b"No label,",
        b"Well, well,1",
        b'"closed"too early,1',
        b"short",
        b"\xff\xff,",
    ]
    path = write(tmp_path / "a.csv", b"\n".join(lines) + b"\n")
    texts = read_labelled(path, on_error="skip")
    assert pairs(texts) == [("Fine.", "1")]
    assert [(line, kind) for line, kind, _ in texts.problems] == [
        (3, "encoding"),
        (4, "empty"),
        (5, "empty"),
        (6, "label"),
        (7, "columns"),
        (8, "csv"),
        (9, "columns"),
        (10, "encoding"),
        (10, "label"),
    ]
    assert texts.problems[0].what == "byte 0xe9 at byte 4 of the text is not UTF-8"
    assert texts.problems[4].what == "2 expected, 3 in 'Well'"
    counts = texts.counts
    assert counts["bad_lines"] == 8
    assert counts["lines"] == counts["texts"] + counts["passed_over"] + counts["bad_lines"] == 10
    assert "2 with an empty text (lines 4, 5: the text is empty)" in texts.summary()
    with pytest.raises(ValueError, match=r"8 of 10 lines without: 2 not valid Unicode text"):
        read_labelled(path)


def test_problems_of_json(tmp_path):
    lines = [
        '{"text": "A", "label": 1}',
        '{"text": "A"}',
        '{"text": 3, "label": 1}',
        '{"text": "A", "label": null}',
        '{"text": "A", "label": 0.5}',
        '{"text": "\\ud83d", "label": 1}',
        '{"text": "A", "label": "\\ud83d"}',
        "[1]",
        '{"text": ',
    ]
    path = write(tmp_path / "a.jsonl", "\n".join(lines))
    texts = read_labelled(path, on_error="skip")
    assert len(texts) == 1
    assert [kind for _, kind, _ in texts.problems] == [
        *("keys", "type", "label", "type", "encoding", "encoding", "json", "json"),
    ]
    assert texts.problems[0].what == "no 'label' among the keys 'text'"


def test_the_number_of_a_row_is_that_of_its_first_line(tmp_path):
    path = write(tmp_path / "a.csv", 'text,label\n"a\nb\nc",1\n,1\n"d\n\n",\n')
    texts = read_labelled(path, on_error="skip")
    assert [problem.line for problem in texts.problems] == [5, 6]
    counts = texts.counts
    assert counts["lines"] == counts["texts"] + counts["passed_over"] + counts["bad_lines"] == 8


def test_an_open_quotation_mark_is_never_skipped(tmp_path):
    path = write(tmp_path / "a.csv", 'text,label\na,1\n"b,1\nc,1\nd,1\n')
    for on_error in ("error", "skip"):
        with pytest.raises(ValueError, match=r"opened in the row of line 3 and never closed"):
            read_labelled(path, on_error=on_error)


def test_missing_columns_list_those_that_are_there(tmp_path):
    path = write(tmp_path / "a.csv", "review;stars\nA;1\n")
    with pytest.raises(ValueError, match=r"column 'text' for the text.*'review;stars'.*delimiter"):
        read_labelled(path)
    path = write(tmp_path / "b.csv", "text,label,label\nA,1,2\n")
    with pytest.raises(ValueError, match=r"column 'label' for the label.*2 of that name"):
        read_labelled(path)
    with pytest.raises(ValueError, match="no such column"):
        read_labelled(path, 0, 7, header=True)
    assert read_labelled(path, "text", 2)[0].label == "2"


def test_long_texts(tmp_path):
    long = "word " * 300_000
    path = write(tmp_path / "a.csv", f"text,label\n{long},1\n{long[:-1]},1\n")
    before = csv.field_size_limit()
    texts = read_labelled(path)
    assert [len(text) for text in texts.texts] == [1_499_999] * 2
    assert texts.counts["repeated"] == 1
    assert csv.field_size_limit() == before
    with pytest.raises(ValueError, match="never closed"):
        read_labelled(write(tmp_path / "b.csv", f'text,label\n"{long},1\n'))
    assert csv.field_size_limit() == before


def test_repeated_and_contradicting_texts(tmp_path):
    path = write(tmp_path / "a.csv", "text,label\nA,1\nB,0\nA,1\nB,1\nA,1\n")
    texts = read_labelled(path)
    assert len(texts) == 5
    assert (texts.repeated, texts.contradicting) == (2, 1)
    assert "Repeated: 2 texts, kept. With more than one label: 1 text, kept." in texts.summary()
    assert pairs(read_labelled(path, unique=True)) == [("A", "1"), ("B", "0"), ("B", "1")]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"format": "xml"}, "'auto' or one of 'csv'"),
        ({"text": "x", "label": "x"}, "all different"),
        ({"text": -1}, "name or the number of a column"),
        ({"label": True}, "name or the number of a column"),
        ({"header": False}, "columns must be numbers"),
        ({"delimiter": ",,"}, "one character"),
        ({"delimiter": "\n"}, "one character"),
        ({"label_separator": ""}, "`label_separator`"),
        ({"on_error": "ignore"}, "`on_error`"),
        ({"format": "json_lines", "text": 0}, "a JSON key"),
        ({"format": "json_lines", "header": True}, "for tables"),
        ({"format": "json_lines", "delimiter": ";"}, "for tables"),
    ],
)
def test_settings_are_checked(tmp_path, settings, message):
    path = write(tmp_path / "a.csv", "text,label\nA,1\n")
    with pytest.raises(ValueError, match=message):
        read_labelled(path, **settings)


def test_files_that_are_no_such_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is nothing"):
        read_labelled(tmp_path / "none.csv")
    with pytest.raises(FileNotFoundError, match="There is a folder"):
        read_labelled(tmp_path)
    with pytest.raises(ValueError, match="Name the `format`: csv, tsv, json_lines"):
        read_labelled(write(tmp_path / "a.txt", "text,label\nA,1\n"))
    with pytest.raises(ValueError, match="at least one labelled text"):
        read_labelled(write(tmp_path / "b.csv", "text,label\n"))
    with pytest.raises(ValueError, match="at least one labelled text"):
        read_labelled(write(tmp_path / "c.csv", ""))
    with pytest.raises(ValueError, match="UTF-16"):
        read_labelled(write(tmp_path / "d.csv", "text,label\nA,1\n".encode("utf-16")[:-1]))
    with pytest.raises(ValueError, match="cut off or damaged"):
        data = gzip.compress(b"text,label\n" + os.urandom(4000).hex().encode() + b",1\n")
        read_labelled(write(tmp_path / "e.csv", data[:-500]), format="csv")


def test_any_bytes_give_texts_or_a_value_error(tmp_path):
    pieces = [b"", b"a", b",", b'"', b"\n", b"\r", b"\xff", b"\x00", b'{"text":', b"\t"]
    for number, parts in enumerate(itertools.product(pieces, repeat=4)):
        if number % 7:
            continue
        data = b"a,1\n" + b"".join(parts)
        path = write(tmp_path / "a.csv", data)
        try:
            counts = read_labelled(path, 0, 1, on_error="skip").counts
        except ValueError:
            continue
        assert counts["lines"] == counts["texts"] + counts["passed_over"] + counts["bad_lines"]


def test_official_folder_of_imdb(tmp_path):
    for name, text in {
        "train/neg/2_1.txt": "Dull.",
        "train/neg/10_3.txt": "Slow.<br /><br />Very.",
        "train/pos/0_9.txt": "A gem.",
        "train/unsup/0_0.txt": "Without a label.",
        "train/pos/.DS_Store": "no review",
    }.items():
        write(tmp_path / name, text)
    link = "http://www.imdb.com/title/tt000000{}/usercomments"
    urls = "\n".join(link.format(number) for number in range(3))
    write(tmp_path / "train" / "urls_neg.txt", urls)
    texts = read_imdb(tmp_path)
    assert [x[:3] for x in texts] == [
        ("Dull.", "negative", "tt0000002"),
        ("Slow.<br /><br />Very.", "negative", ""),
        ("A gem.", "positive", ""),
    ]
    write(tmp_path / "train" / "pos" / "1_9.txt", b"caf\xe9")
    with pytest.raises(ValueError, match=r"of the file pos/1_9\.txt is not UTF-8"):
        read_imdb(tmp_path)
    assert len(read_imdb(tmp_path, on_error="skip")) == 3


def test_imdb_as_json_lines(tmp_path):
    content = (
        '{"id": 0, "label": 0, "rating": 3, "text": "Dull."}\n{"label": "1", "text": "A gem."}\n'
    )
    write(tmp_path / "imdb_train.jsonl.gz", content)
    write(tmp_path / "test.jsonl", content)
    for split in ("train", "test"):
        assert pairs(read_imdb(tmp_path, split)) == [("Dull.", "negative"), ("A gem.", "positive")]
    with pytest.raises(ValueError, match="`split`"):
        read_imdb(tmp_path, "dev")
    with pytest.raises(FileNotFoundError, match=r"imdb_test\.jsonl or test\.jsonl.*folder with: x"):
        write(tmp_path / "other" / "x", "")
        read_imdb(tmp_path / "other", "test")


def test_sst2(tmp_path):
    content = 'sentence\tlabel\nno " wit \t0\na gem\t1\n'
    for folder in (tmp_path / "a", tmp_path / "b" / "SST-2"):
        write(folder / "dev.tsv", content)
    for folder in (tmp_path / "a", tmp_path / "b", tmp_path / "b" / "SST-2"):
        assert pairs(read_sst2(folder, "dev")) == [('no " wit', "negative"), ("a gem", "positive")]
    with pytest.raises(FileNotFoundError, match=r"train\.tsv"):
        read_sst2(tmp_path / "a")
    with pytest.raises(ValueError, match="`split`"):
        read_sst2(tmp_path / "a", "test")


def test_labelled_texts_of_tuples():
    assert as_labelled(["A", "x"]) == LabelledText("A", "x")
    assert as_labelled(("A", ["x", "y"], "g")) == LabelledText("A", ("x", "y"), "g")
    assert as_labelled((("A", "B"), "x")) == LabelledText("A", "x", "", "B")
    assert as_labelled(LabelledText("A", "x", "g", "B")).input == ("A", "B")
    assert as_labelled(("A", 1)) == as_labelled(("A", np.int64(1))) == LabelledText("A", "1")
    for wrong in (
        (("A", 1), "x"), (("A", "B", "C"), "x"), (("A", "B"), "x", "", "C"), ("A", "x", "", 3),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="or a pair of strings"):
            as_labelled(wrong)
    for wrong in ("Ax", ("A",), ("A", 1.0), (1, "x"), ("A", "x", 3), ("A", ("x", None)), None):
        with pytest.raises(ValueError, match=r"\(text, label\) pairs"):
            as_labelled(wrong)


def test_needs_neither_keras_nor_other_packages(tmp_path):
    write(tmp_path / "a.csv", "text,label\nA,1\n")
    script = (
        "import sys\nfor name in ('keras', 'tensorflow', 'numpy'): sys.modules[name] = None\n"
        "import types\n"
        "for name in ('keras_attn', 'keras_attn.records'):\n"
        "    sys.modules[name] = types.ModuleType(name)\n"
        "    sys.modules[name].__path__ = [sys.argv[1] if name.endswith('n') else sys.argv[2]]\n"
        "from keras_attn.records.labelled_readers import read_labelled\n"
        "assert read_labelled(sys.argv[3])[0].text == 'A'\n"
    )
    import keras_attn
    import keras_attn.records

    rooms = [os.path.dirname(room.__file__) for room in (keras_attn, keras_attn.records)]
    command = [sys.executable, "-c", script, *rooms, str(tmp_path / "a.csv")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_pairs_of_texts(tmp_path):
    """Of GLUE's files, which have no quoting, of CSV, and of JSON lines; what is wrong is named."""
    rows = ['1\t"Yes" , he said\t" No', "0\tOne\tTwo", "0\tOne\tTwo", "1\tOne\tTwo", "0\tTwo\tOne"]
    path = write(tmp_path / "a.tsv", "\ufeffQuality\t#1 String\t#2 String\n" + "\n".join(rows))
    columns = {"text": "#1 String", "label": "Quality", "text_pair": "#2 String"}
    texts = read_labelled(path, **columns)
    assert texts.texts[:2] == [('"Yes" , he said', '" No'), ("One", "Two")]
    assert (texts.repeated, texts.contradicting) == (1, 1)
    assert texts.summary() == (
        f"{path}: 5 pairs of 6 lines. Labels: 0 3, 1 2. Repeated: 1 pair, kept. "
        "With more than one label: 1 pair, kept."
    )
    assert len(read_labelled(path, **columns, unique=True)) == 4
    csv_path = write(tmp_path / "a.csv", 'text,second,label\n"a, b","c ""d""",x\n')
    assert read_labelled(csv_path, text_pair="second")[0].input == ("a, b", 'c "d"')
    records = [{"text": "a", "b": "c", "label": 1}, {"text": "a", "b": 3, "label": 1}]
    records += [{"text": "a", "label": 1}, {"text": "a", "b": " ", "label": 1}]
    json_path = write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, records)))
    texts = read_labelled(json_path, text_pair="b", on_error="skip")
    assert texts.texts == [("a", "c")]
    assert [(p.line, p.kind) for p in texts.problems] == [(2, "type"), (3, "keys"), (4, "empty")]
    assert texts.problems[2].what == "the second text is empty"
    with pytest.raises(ValueError, match=r"column 'b' for the text_pair"):
        read_labelled(csv_path, text_pair="b")


@pytest.mark.parametrize(
    "between, kind", [(";", "semicolons"), ("\t", "tabs"), ("|", "vertical bars")]
)
def test_the_delimiter_is_recognised_by_the_names_of_the_columns(tmp_path, between, kind):
    rows = [["label", "stars", "text"], ["pos", "4,5", '"Good, ""really"""'], ["neg", "1", "Dull."]]
    path = write(tmp_path / "a.csv", "".join(between.join(row) + "\n" for row in rows))
    texts = read_labelled(path)
    assert [tuple(x)[:2] for x in texts] == [('Good, "really"', "pos"), ("Dull.", "neg")]
    assert texts.summary().startswith(f"{path} (columns between {kind}): 2 texts of 3 lines")
    path.write_text("\n" + path.read_text(encoding="utf-8"), encoding="utf-8")  # a blank line first
    assert [x.label for x in read_labelled(path)] == ["pos", "neg"]
    with pytest.raises(ValueError, match="no such column among"):
        read_labelled(path, delimiter=",")
    write(
        tmp_path / "a.csv", f"label{between}stars,text{between}text,label,\nA{between}1{between}B\n"
    )
    assert len(read_labelled(path, 2, 0, delimiter=between, header=True)) == 1


def test_a_delimiter_is_not_recognised_where_it_is_not_sure(tmp_path):
    path = write(tmp_path / "a.csv", "text;label;,text,label\n1;2;,3,4\n")
    with pytest.raises(
        ValueError, match=r"both commas and semicolons do\. Specify the `delimiter`"
    ):
        read_labelled(path)
    # Columns that are numbers say nothing: the usual delimiter is taken.
    path = write(tmp_path / "b.csv", "Good, really;pos\n")
    assert tuple(read_labelled(path, 0, 1)[0])[:2] == ("Good", "really;pos")


def test_tables_of_excel(tmp_path):
    """Its "Unicode text" is UTF-16 with tabs; a CSV file of Windows is not UTF-8."""
    text = "label\ttext\r\npos\t\u00e9t\u00e9 \U0001f600\r\n"
    for encoding in ("utf-16", "utf-16-be"):
        mark = "\ufeff" if encoding == "utf-16-be" else ""
        data = (mark + text).encode(encoding)
        for path in (
            write(tmp_path / "a.tsv", data),
            write(tmp_path / "b.tsv.gz", data),
        ):
            assert tuple(read_labelled(path)[0])[:2] == ("\u00e9t\u00e9 \U0001f600", "pos")
    path = write(tmp_path / "c.csv", "label;text\npos;\u00e9t\u00e9\n".encode("cp1252"))
    with pytest.raises(ValueError, match=r"0xe9 .* not UTF-8.*Save the file as UTF-8 \(in Excel"):
        read_labelled(path)
