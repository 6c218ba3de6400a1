"""Tables that are read whole and written with further columns."""

import csv
import datetime
import json

import pytest

from keras_attn.records.encodings import EncodedFile
from keras_attn.records.whole_tables import WholeTable
from keras_attn.records.written_tables import open_table, written_format

ROWS = [("1", "Good; really", "a\tb"), ("2", 'B\u00e4d "x"\nline', ""), ("3", "", "c")]
ADDED = {"label": str, "p": float, "all": list[str], "more": object}


def predictions(count, start=0):
    return [
        {"label": f"l{i}", "p": i / 4, "all": ["x"] * i, "more": {"a": i}}
        for i in range(start, start + count)
    ]


def written(table, path, size=2):
    """Writes a table with the predictions, some rows at a time; returns the path."""
    with open_table(path, written_format(path, table.format), table, ADDED) as write:
        done = 0
        for part in table.parts(size):
            write(part, predictions(len(part.rows), done))
            done += len(part.rows)
    return path


@pytest.fixture
def table(tmp_path):
    """A table with semicolons, as Excel writes it."""
    with open(tmp_path / "a.csv", "w", encoding="cp1252", newline="") as file:
        csv.writer(file, delimiter=";").writerows([("id", "text", "x"), *ROWS])
    return WholeTable(EncodedFile(tmp_path / "a.csv", "cp1252"), {"text": "text"})


def test_csv_keeps_all_columns_rows_and_the_delimiter(table, tmp_path):
    assert [part.inputs for part in table.parts(2)] == [[ROWS[0][1], ROWS[1][1]], [""]]
    path = written(table, tmp_path / "o.csv")
    with open(path, encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file, delimiter=";")
    assert header == ["id", "text", "x", *ADDED]
    assert [tuple(row[:3]) for row in rows] == ROWS
    assert [row[3:] for row in rows] == [
        ["l0", "0.0", "[]", '{"a": 0}'],
        ["l1", "0.25", '["x"]', '{"a": 1}'],
        ["l2", "0.5", '["x", "x"]', '{"a": 2}'],
    ]


def test_tabs_and_json_lines(table, tmp_path):
    lines = written(table, tmp_path / "o.tsv").read_text(encoding="utf-8").split("\n")
    assert lines[2] == '2\tB\u00e4d "x" line\t\tl1\t0.25\t["x"]\t{"a": 1}'
    assert len(lines) == 5  # with the empty one behind the last
    lines = written(table, tmp_path / "o.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[0]) == {
        "id": "1", "text": "Good; really", "x": "a\tb", "label": "l0", "p": 0.0, "all": [],
        "more": {"a": 0},
    }  # fmt: skip


def test_json_lines_of_unequal_keys(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        '{"text": "a", "n": 1}\n\n{"z": [1], "n": 2.5, "text": "b"}\n'
    )
    table = WholeTable(tmp_path / "a.jsonl", {"text": "text"})
    path = written(table, tmp_path / "o.csv")
    assert path.read_text().splitlines() == [
        "text,n,z,label,p,all,more",
        'a,1,,l0,0.0,[],"{""a"": 0}"',
        'b,2.5,[1],l1,0.25,"[""x""]","{""a"": 1}"',
    ]


@pytest.mark.slow
def test_parquet(table, tmp_path):
    """Its columns keep their types; those of text are strings, and of JSON lines what all are."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    day = datetime.date(2020, 1, 2)
    given = arrow.table({"day": [day, None, day], "text": ["a", "b", "c"], "l": [[1], [], [2, 3]]})
    parquet.write_table(given, tmp_path / "a.parquet", row_group_size=1)
    kept = WholeTable(tmp_path / "a.parquet", {"text": "text"})
    found = parquet.read_table(written(kept, tmp_path / "o.parquet"))
    assert found.select(given.column_names).equals(given)
    assert found.column_names[3:] == list(ADDED)
    assert found["label"].to_pylist() == ["l0", "l1", "l2"]
    assert found["all"].to_pylist() == [[], ["x"], ["x", "x"]]
    assert found["more"].to_pylist() == ['{"a": 0}', '{"a": 1}', '{"a": 2}']
    found = parquet.read_table(written(table, tmp_path / "o.parquet"))
    assert [tuple(row.values())[:3] for row in found.to_pylist()] == ROWS
    (tmp_path / "a.jsonl").write_text('{"text": "a", "n": 1}\n{"text": "b", "n": 2.5, "z": [1]}\n')
    lines = WholeTable(tmp_path / "a.jsonl", {"text": "text"})
    found = parquet.read_table(written(lines, tmp_path / "o.parquet"))
    assert found["n"].to_pylist() == [1.0, 2.5]
    assert found["z"].to_pylist() == [None, "[1]"]
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []


def test_bad_tables(table, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"without a column 'x'.*--prefix"):
        table.check_new(["label", "x"])
    table.check_new(["label"])
    for name, content, columns, message in (
        ("a.csv", "text,text\na,b\n", {"text": "text"}, "2 of that name"),
        ("a.csv", "text,x,x\na,b,c\n", {"text": "text"}, "columns of different names"),
        ("a.csv", "text,x\n", {"text": "text"}, "Received: none"),
        # Rows cannot be left out, as each one gets a prediction.
        ("a.csv", "text,x\na,b\nc\n", {"text": "text"}, r"line 3.*\)\. Correct them\.$"),
        ("a.csv", "text,x\na,b\n", {"text": "y"}, "a column 'y'"),
        ("a.jsonl", '{"text": "a"}\n{"y": 1}\n', {"text": "text"}, "line 2"),
        ("a.jsonl", '{"text": 5}\n', {"text": "text"}, "type int"),
        ("a.txt", "text\n", {"text": "text"}, "Expected a table with one of .csv"),
    ):
        (tmp_path / name).write_text(content)
        with pytest.raises(ValueError, match=message):
            WholeTable(tmp_path / name, columns)
    with pytest.raises(ValueError, match=r"the name of a table, which must end in .csv.*o.txt"):
        written_format(tmp_path / "o.txt", "csv")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"keras_attn\[tables\]"):
        written_format(tmp_path / "o.parquet", "csv")
