"""The command reads and writes tables where a task learns from running text."""

import json

import keras
import pytest
from command_runs import run_command

from keras_attn.tasks import Pretrainer, TextGenerator, WordEmbedder

pytestmark = pytest.mark.slow

SIZES = {"dim": 8, "num_layers": 1, "num_heads": 2, "intermediate_dim": 8}
ROWS = [{"id": n, "q": f"a [MASK] {n} =", "a": f"A dog ran. It ran {n}."} for n in range(40)]
OF_TASKS = [
    (TextGenerator, {"prompt_key": "q", "sequence_length": 16}, {"units": 8}, ("--prompt-key", "q"),
     ("--num-characters", 3), ["generated_text"]),
    (Pretrainer, {"max_length": 16, "vocabulary_size": 60}, SIZES, ("--key", "q"), (),
     ["filled", "masks"]),
    (WordEmbedder, {"min_frequency": 1}, {"dim": 4}, ("--word", "a"), ("--top-k", 1),
     ["words", "similarities"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("task", "data", "model", "column", "more", "added"),
    OF_TASKS,
    ids=[x[0].name for x in OF_TASKS],
)
def test_predict_a_table(task, data, model, column, more, added, tmp_path):
    table = {name: [row[name] for row in ROWS] for name in ROWS[0]}
    keras.utils.set_random_seed(0)
    made = task.create(table, data={**data, "key": "a"}, model=model)
    made.save(tmp_path / "a.task")
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    code, _, err = run_command(
        task.name, "predict", "--model", tmp_path / "a.task", tmp_path / "a.jsonl", *column, *more,
        "--to", tmp_path / "o.jsonl",
    )  # fmt: skip
    assert code == 0, err
    rows = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [list(row) for row in rows] == [["id", "q", "a", *added]] * len(ROWS)
    assert [{name: row[name] for name in ROWS[0]} for row in rows] == ROWS
    settings = {"num_characters": 3} if task is TextGenerator else {}
    settings |= {"top_k": 1} if task is WordEmbedder else {}
    inputs = table[column[1]]
    cells = [*map(made.cells, made.predict(inputs, **settings))]
    assert [{name: row[name] for name in added} for row in rows] == json.loads(json.dumps(cells))


@pytest.mark.parametrize(
    ("task", "more"),
    [("text-generation", ("--prompt-key", "b", "--units", 8, "--sequence-length", 32)),
     ("pretraining", ("--vocabulary-size", 60, "--dim", 8, "--num-heads", 2, "--num-layers", 1,
       "--dev-share", 0.4)),
     ("embeddings", ("--dim", 4))],
)  # fmt: skip
def test_fit_parquet(task, more, tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [{**row, "b": f"{row['id']}?"} for row in ROWS]
    for file in ("a", "b"):
        parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / f"{file}.parquet")
    fit = ("fit", "--text", tmp_path / "*.parquet", "--epochs", 1, "--run-dir", tmp_path / "run")
    code, _, err = run_command(task, *fit, "--key", "a", *more)
    assert code == 0, err
    code, _, err = run_command(task, *fit, "--key", "none", *more)
    assert code == 1
    assert "a.parquet: expected a column 'none'" in err
