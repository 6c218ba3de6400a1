"""Predicts the rows of a large table with a saved task, on the machines of a Ray cluster.

    pip install "ray[data]" "keras_attn[tensorflow,tasks,tables]"
    python examples/ray/score_table.py --task TextClassifier --model run/best.task \\
        --input reviews/ --output judged/ --column text=review --workers 2

The table is a folder of Parquet files. Each worker is an actor, a process that loads the model
once, and takes one file after the other. It writes a file of the same name with the columns of the
input and of the predictions, atomically. A file that `--output` has already is not predicted again,
so that the same command resumes an interrupted run. Files of 10,000 to 100,000 rows are a good
size: a worker keeps one file in memory, and a failure costs the work on one file.

Without a cluster, Ray starts on this machine. With one, `RAY_ADDRESS` is its address, and all
machines must reach the files and the model by the same paths.
"""

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path

from keras_attn_command import plain_output

plain_output()  # before anything heavy is imported

import ray

BATCH = 1024


class Scorer:
    """An actor that predicts files.

    Args:
        task: Name of the class of the task in `keras_attn.tasks`.
        model: File of the task.
        output: Folder of the predicted files.
        columns: Columns of the inputs, by the names that `predict` has for them.
    """

    def __init__(self, task: str, model: str, output: str, columns: dict[str, str]):
        import keras_attn.tasks

        self.task = getattr(keras_attn.tasks, task).load(model)
        self.output = Path(output)
        self.columns = columns

    def __call__(self, batch: dict[str, Sequence[str]]) -> dict[str, list[object]]:
        """Predicts the files of a batch; returns their names and numbers of rows."""
        return {"file": list(batch["file"]), "rows": [self.score(x) for x in batch["file"]]}

    def score(self, place: str) -> int:
        """Predicts a file; returns the number of its rows."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pq.read_table(place)
        cells = []
        for start in range(0, len(table), BATCH):
            results = self.task.predict(table.slice(start, BATCH), **self.columns)
            cells += map(self.task.cells, results)
        for name in cells[0] if cells else ():
            table = table.append_column(name, pa.array([row[name] for row in cells]))
        part = self.output / f".{Path(place).name}.{os.getpid()}"
        pq.write_table(table, part)
        part.replace(self.output / Path(place).name)
        return len(table)


def main(arguments: Sequence[str] | None = None) -> int:
    """Predicts the files that are not predicted yet; returns their number of rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--task", required=True, help="class of the task, such as TextClassifier")
    add("--model", type=Path, required=True, help="file of the task")
    add("--input", type=Path, required=True, help="folder of Parquet files")
    add("--output", type=Path, required=True, help="folder of the predicted files")
    add("--column", action="append", default=[], help="NAME=COLUMN of an input; may be repeated")
    add("--workers", type=int, default=2, help="processes that predict (%(default)s)")
    args = parser.parse_args(arguments)
    args.output.mkdir(parents=True, exist_ok=True)
    files = sorted(args.input.glob("*.parquet"))
    if not files:
        parser.error(f"{args.input} has no files *.parquet")
    todo = [str(file.resolve()) for file in files if not (args.output / file.name).exists()]
    print(f"{len(files)} files, {len(todo)} to predict", flush=True)
    rows, began = 0, time.perf_counter()
    if todo:
        columns = dict(column.split("=", 1) for column in args.column)
        given = (args.task, str(args.model.resolve()), str(args.output.resolve()), columns)
        # One block a file, so that the files are spread over the actors.
        names = ray.data.from_items([{"file": x} for x in todo], override_num_blocks=len(todo))
        done = names.map_batches(
            Scorer, fn_constructor_args=given, batch_size=1, num_cpus=1,
            compute=ray.data.ActorPoolStrategy(size=min(args.workers, len(todo))),
        )  # fmt: skip
        for row in done.iter_rows():
            rows += row["rows"]
            print(f"{Path(row['file']).name}: {row['rows']} rows", flush=True)
    print(f"{rows} rows predicted in {time.perf_counter() - began:.1f} s", flush=True)
    return rows


if __name__ == "__main__":
    main()
