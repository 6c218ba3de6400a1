"""What a second worker brings to the two examples with Ray, `examples/ray/`.

    pip install "ray[data,serve]"
    python -m benchmarks.ray_scaling --model run/best.task --texts SST-2 --format sst2

A text classifier predicts a table of 16 Parquet files with 1 and with 2 workers, and is served with
1 and with 2 replicas to 64 clients at once. Each worker has one thread. Printed are the rows and
requests a second: of the table from the first predicted file to the last, of the server after one
round of all requests. Starting Ray and loading the model are not part of it.
"""

import argparse
import contextlib
import http.client
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import machine
from benchmarks.serving import CLIENTS, at_once
from keras_attn.corpora import read_labelled_texts
from keras_attn_command import plain_output

EXAMPLES = Path(__file__).parents[1] / "examples" / "ray"
FILES, PORT = 16, 8000
THREADS = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
ENVIRONMENT = {**os.environ, **dict.fromkeys(THREADS, "1"), "TF_CPP_MIN_LOG_LEVEL": "3"}


def predicted(model: Path, table: Path, output: Path, workers: int) -> float:
    """Rows a second, from the first file of a table to the last."""
    command = [sys.executable, "-u", EXAMPLES / "score_table.py", "--task", "TextClassifier"]
    command += ["--model", model, "--input", table, "--output", output]
    command += ["--column", "text=text", "--workers", str(workers)]
    times, rows = [], []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=ENVIRONMENT
    ) as process:
        for line in process.stdout or ():
            if line.endswith(" rows\n"):
                times.append(time.perf_counter())
                rows.append(int(line.split()[-2]))
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return sum(rows[1:]) / (times[-1] - times[0])


def served(model: Path, texts: Sequence[str], replicas: int) -> float:
    """Requests a second of 64 clients."""
    command = [sys.executable, EXAMPLES / "serve.py", "--task", "TextClassifier"]
    process = subprocess.Popen(
        [*command, "--model", model, "--replicas", str(replicas)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT,
    )  # fmt: skip
    try:
        while not answers():
            if process.poll() is not None:
                raise SystemExit(f"{command} ended with {process.returncode}")
            time.sleep(1)
        at_once(PORT, "/", texts, CLIENTS)
        began = time.perf_counter()
        at_once(PORT, "/", texts, CLIENTS)
        return len(texts) / (time.perf_counter() - began)
    finally:
        process.terminate()  # a child of a background job ignores Ctrl-C
        process.wait()


def answers() -> bool:
    """Whether the server predicts already."""
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)
    with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
        connection.request("POST", "/", '{"instances": ["a"]}')
        return connection.getresponse().status == 200
    return False


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--model", type=Path, required=True, help="file of a text classifier")
    add("--texts", required=True, help="file or folder of labelled texts")
    add("--format", default="auto", help="its format (%(default)s)")
    add("--rows", type=int, default=8000, help="of the table (%(default)s)")
    add("--requests", type=int, default=2000, help="of all clients (%(default)s)")
    add("--rounds", type=int, default=3, help="(%(default)s)")
    args = parser.parse_args()
    plain_output()
    texts = read_labelled_texts(args.texts, args.format, "train").texts[: args.rows]
    print(f"{machine.processor()}; {machine.versions()}")
    print("| round | rows/s, 1 worker | 2 workers | requests/s, 1 replica | 2 replicas |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "table")
        table.mkdir()
        for number in range(FILES):
            part = pa.table({"text": texts[number::FILES]})
            pq.write_table(part, table / f"{number:02}.parquet")
        for number in range(args.rounds):
            row = [
                predicted(args.model, table, Path(folder, f"{number}-{count}"), count)
                for count in (1, 2)
            ]
            row += [served(args.model, texts[: args.requests], count) for count in (1, 2)]
            print(f"| {number + 1} | {' | '.join(f'{speed:.1f}' for speed in row)} |", flush=True)


if __name__ == "__main__":
    main()
