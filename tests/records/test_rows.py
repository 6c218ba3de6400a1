"""Tables in memory and Parquet files are read as files are, and files of other encodings too."""

import importlib.util
import json

import pytest

from keras_attn.records import read_labelled, read_pairs, read_questions, read_tagged
from keras_attn.records.encodings import EncodedFile
from keras_attn.records.rows import rows_of

COLUMNS = {"review": ["Good.", "Dürftig, leider.", "So so."], "stars": [5, 1, 3]}
READ = [("Good.", "5"), ("Dürftig, leider.", "1"), ("So so.", "3")]


def as_pandas(columns):
    return pytest.importorskip("pandas").DataFrame(columns)


def as_arrow(columns):
    return pytest.importorskip("pyarrow").table(columns)


def as_datasets(columns):
    return pytest.importorskip("datasets").Dataset.from_dict(columns)


def as_batches(columns):
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(columns).batch(2)


KINDS = {"dict": dict, "pandas": as_pandas, "arrow": as_arrow, "datasets": as_datasets,
         "batches": as_batches}  # fmt: skip


def read(table, **more):
    return read_labelled(rows_of(table), "review", "stars", **more)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table(kind):
    table = KINDS[kind](COLUMNS)
    for _ in range(2):  # it can be read again
        texts = read(table)
        assert [(x.text, x.label) for x in texts] == READ
    assert texts.summary() == (
        f"the {type(table).__name__}: 3 texts of 3 rows. Labels: 1 1, 3 1, 5 1."
    )


class Records:
    """As a data set of `datasets`, whose rows are dicts."""

    column_names = ["review", "stars"]  # noqa: RUF012  as it has them

    def __init__(self, rows, length):
        self.rows, self.length = rows, length

    def __len__(self):
        return self.length

    def __iter__(self):
        return iter(self.rows)


class Frame:
    """As a DataFrame of pandas."""

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows

    def itertuples(self, index, name):
        return iter(self.rows)


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        ({"text": ["a"], "stars": [1]}, ValueError,
         "the dict: expected a column 'review'. Received: no such column among 'text', 'stars'"),
        ({"review": ["a", None], "stars": [1, 2]}, ValueError, r"\(row 2: 'review' has no value\)"),
        (Frame(["review", "stars"], [("a", 1), (float("nan"), 2)]), ValueError,
         r"1 of 2 rows without: 1 with a missing value \(row 2: 'review' has no value\)"),
        ({"review": ["a", "b"], "stars": [1.0, 2.0]}, ValueError,
         r"float\. Make integers or texts of labels, such as by astype\('Int64'\) in pandas"),
        ({"review": ["a", 7], "stars": [1, 2]}, ValueError, "row 2: 'review' is of type int"),
        ({"review": [["a"]], "stars": [1]}, ValueError, "'review'. Received: a nested column"),
        (Frame(["review", "stars", "stars"], []), ValueError, "'stars' 2 times among"),
        ({"review": ["a", "b"], "stars": [1]}, ValueError, "'stars' ends after 1 values, 'review'"),
        ({"review": "ab"}, TypeError, "Received: the dict with 'ab' of type str as 'review'"),
        (Records([{"review": "a", "stars": 1}], 3), ValueError, "3 rows.*: 1; it ends early"),
        ({"review": [], "stars": []}, ValueError, "at least one labelled text. Received: none"),
        ({"review": [b"\xff"], "stars": [1]}, ValueError, "'review' has half a surrogate pair"),
    ],
)  # fmt: skip
def test_bad_tables(table, error, message):
    with pytest.raises(error, match=message):
        read(table)


def test_bad_rows_are_left_out_on_request():
    texts = read({"review": ["a", None, "c"], "stars": [1, 2, 3]}, on_error="skip")
    assert [x.text for x in texts] == ["a", "c"]
    assert "Left out: 1 with a missing value (row 2: 'review' has no value)" in texts.summary()
    with pytest.raises(
        ValueError, match="`delimiter` is only used for tables, not for rows of named"
    ):
        read(COLUMNS, delimiter=";")


def test_data_sets_of_tensorflow():
    import tensorflow as tf

    texts = tf.data.Dataset.from_tensor_slices((["a", "ü"], [1, 2]))
    assert rows_of(texts) == rows_of(texts.batch(2)) == [("a", 1), ("ü", 2)]
    columns = tf.data.Dataset.from_tensor_slices(COLUMNS)
    with pytest.raises(ValueError, match="without an end"):
        read(columns.repeat())
    with pytest.raises(ValueError, match="ends early, after 3 examples"):
        read(columns.apply(tf.data.experimental.assert_cardinality(5)))

    def failing():
        yield {"review": "a", "stars": 1}
        raise RuntimeError("the disk is gone")

    spec = {"review": tf.TensorSpec([], "string"), "stars": tf.TensorSpec([], "int32")}
    broken = tf.data.Dataset.from_generator(failing, output_signature=spec)
    with pytest.raises(ValueError, match=r"after 1 examples \(RuntimeError: the disk is gone\)\.$"):
        read(broken)
    uneven = tf.data.Dataset.from_generator(
        lambda: [(["a", "b"], [1])],
        output_signature=(tf.TensorSpec([None], "string"), tf.TensorSpec([None], "int32")),
    )
    with pytest.raises(ValueError, match="a batch of 2 and 1 values"):
        rows_of(uneven)


@pytest.mark.parametrize("name", ["reviews.parquet", "reviews.data"])
def test_parquet(tmp_path, name):
    """By the end of a name or by the first bytes; unwanted columns may be nested."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / name
    table = arrow.table({**COLUMNS, "nested": [{"a": [1]}] * 3})
    parquet.write_table(table, path)
    texts = read_labelled(path, "review", "stars")
    assert [(x.text, x.label) for x in texts] == READ
    assert texts.summary().startswith(f"{path}: 3 texts of 3 rows. ")
    with pytest.raises(ValueError, match=r"'nested'. Received: a nested column, with \{\"a\": \["):
        read_labelled(path, "nested", "stars")
    whole = path.read_bytes()
    # Cut off, and with zeros in its footer and in its first page.
    for raw in (
        whole[:-9],
        whole[:-60] + bytes(52) + whole[-8:],
        whole[:4] + bytes(40) + whole[44:],
    ):
        path.write_bytes(raw)
        with pytest.raises(ValueError, match=f"{name}: expected a whole Parquet file"):
            read_labelled(path, "review", "stars")


def test_parquet_needs_a_package(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"a.parquet: .* pyarrow, .*keras_attn\[tables\]"):
        read_labelled(path)


def test_pairs_and_nested_values():
    """Values that are lists where a reader wants them; translations under their languages."""
    pairs = rows_of({"translation": [{"de": "Nein.", "en": "No."}]})
    assert read_pairs(pairs, source="en", target="de")[0].target == "Nein."
    tagged = read_tagged(rows_of({"words": [["Ada", "codes"]], "labels": [["B-PER", "O"]]}))
    assert tagged[0].words == ("Ada", "codes")
    answers = [{"text": ["Oslo", "in Oslo"], "answer_start": [3, 0]}]  # as `datasets` has SQuAD
    squad = {"question": ["Where?"], "context": ["In Oslo"], "answers": answers}
    with pytest.raises(ValueError, match="'in Oslo', which is not in its text"):
        read_questions(rows_of(squad))
    squad["answers"] = [{"text": ["Oslo"], "answer_start": [3]}]
    assert read_questions(rows_of(squad))[0].answers[0].start == 3


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16-le", "utf-8-sig", "latin-1"])
def test_encodings(tmp_path, encoding):
    rows = [{"review": text, "stars": stars} for text, stars in READ]
    lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    table = "\n".join(["review;stars", *(";".join(row) for row in READ)])
    for name, content in {"a.csv": table, "a.jsonl": lines}.items():
        (tmp_path / name).write_bytes(content.encode(encoding))
        file = EncodedFile(tmp_path / name, encoding)
        assert [(x.text, x.label) for x in read_labelled(file, "review", "stars")] == READ
    (tmp_path / "a.conll").write_bytes("Jürgen B-PER\nschläft O\n".encode(encoding))
    tagged = read_tagged(EncodedFile(tmp_path / "a.conll", encoding))
    assert tagged[0].words == ("Jürgen", "schläft")


def test_wrong_encodings(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("text,label\nDürftig,1\n".encode("cp1252"))
    with pytest.raises(ValueError, match=r"EncodedFile\(path, 'cp1252'\)"):
        read_labelled(path)
    with pytest.raises(ValueError, match=r"expected text in ASCII, as `encoding` says. Received"):
        read_labelled(EncodedFile(path, "ascii"))
    for unknown in ("cp99999", "rot13", "base64"):
        with pytest.raises(ValueError, match=f"name of a codec of Python.*'{unknown}'"):
            EncodedFile(path, unknown)
