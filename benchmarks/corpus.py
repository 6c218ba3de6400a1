"""A corpus larger than what one likes to hold in memory: `prepare` and `fit` of pretraining.

    python -m benchmarks.corpus --text reviews.jsonl --gigabytes 1 --to FOLDER

repeats the documents of a file (JSON lines with a `text`) until there is as much text as asked for,
prepares it and trains on it for some steps, each in a process of its own, and prints a table: peak
memory, tokens a second, and which share of a step waited for its batch. With `--processes 2`, two
processes prepare a shard each at the same time.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks import machine

FIT = """
import json, sys, time
import keras
from keras_attn.tasks import Pretrainer
from keras_attn.batches.sentence_ids import load_prepared

folder, steps = sys.argv[1], int(sys.argv[2])
train, dev = load_prepared(folder)
began = time.perf_counter()
pretrainer = Pretrainer.create(train, data={"max_length": 128})
batches = pretrainer.dataset(train, batch_size=32)
opened = time.perf_counter() - began
waited = []
make = type(batches).__getitem__

def timed(self, index):
    start = time.perf_counter()
    batch = make(self, index)
    waited.append(time.perf_counter() - start)
    return batch

type(batches).__getitem__ = timed
times = []

class Watch(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        times.append(time.perf_counter())
        if len(times) == steps:
            self.model.stop_training = True
            status = dict(
                line.split(":", 1) for line in open("/proc/self/status") if ":" in line
            )
            memory = {n: int(status[n].split()[0]) / 1024 for n in ("VmHWM", "RssAnon", "RssFile")}
            seconds = (times[-1] - times[9]) / (steps - 10)
            made = sorted(waited)[len(waited) // 2]
            print(json.dumps({
                **memory, "opened": opened, "step": seconds, "batch": made,
                "tokens": batches.tokens, "rows": batches.num_examples, "batches": len(batches),
            }), flush=True)
            import os
            os._exit(0)

pretrainer.compile(total_steps=len(batches))
pretrainer.model.fit(batches, shuffle=False, verbose=0, callbacks=[Watch()])
"""


def main() -> None:
    """Makes the corpus, runs both steps and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--text", type=Path, required=True, help="JSON lines with a text each")
    add("--gigabytes", type=float, default=1.0, help="size of the corpus (%(default)s)")
    add("--steps", type=int, default=60, help="training steps (%(default)s)")
    add("--processes", type=int, default=1, help="processes that prepare (%(default)s)")
    add("--to", type=Path, required=True, help="folder of the corpus and its ids")
    args = parser.parse_args()
    args.to.mkdir(parents=True, exist_ok=True)
    corpus = args.to / "corpus.jsonl"
    size = make_corpus(args.text, corpus, args.gigabytes * 1e9)
    prepared = args.to / f"prepared-{os.getpid()}"
    command = [sys.executable, "-m", "keras_attn", "pretraining", "prepare"]
    command += ["--text", str(corpus), "--to", str(prepared)]
    shards = [["--shard", f"{n}/{args.processes}"] for n in range(args.processes)]
    seconds, cpu, peak = run(
        [[*command, *(shard if args.processes > 1 else [])] for shard in shards]
    )
    ids = sum(file.stat().st_size for file in prepared.rglob("*.npy"))
    fit = subprocess.run(
        [sys.executable, "-c", FIT, str(prepared), str(args.steps)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    found = json.loads(fit.stdout.strip().splitlines()[-1])
    per_step = found["tokens"] / found["batches"]
    print(machine.describe() if hasattr(machine, "describe") else "")
    print(f"| corpus of {size / 1e9:.2f} GB, {found['tokens'] / 1e6:.0f} M tokens | |\n|---|---|")
    rows = {
        "`prepare`": f"{seconds:.0f} s, {cpu:.0f} s of processor time",
        "MB of text a second": f"{size / 1e6 / seconds:.2f}, of a processor {size / 1e6 / cpu:.2f}",
        "tokens a second": f"{found['tokens'] / seconds:,.0f}",
        "peak memory": f"{' + '.join(f'{x:.0f}' for x in peak)} MB",
        "ids on disk": f"{ids / 1e6:.0f} MB",
        "`fit`: ready to train after": f"{found['opened']:.1f} s",
        "tokens a second ": f"{per_step / found['step']:,.0f}",
        "peak memory, mapped files included": f"{found['VmHWM']:.0f} MB",
        "of its own, without mapped files": f"{found['RssAnon']:.0f} MB",
        "share of a step for its batch": f"{found['batch'] / found['step']:.2%}",
    }
    for name, value in rows.items():
        print(f"| {name.strip()} | {value} |")


def make_corpus(source: Path, to: Path, size: float) -> int:
    """Repeats the lines of a file until they are as large as wanted; returns the size."""
    from keras_attn.records.opened_lines import open_lines

    if to.exists() and to.stat().st_size >= size:
        return to.stat().st_size
    with open_lines(source) as lines:
        texts = [json.dumps({"text": json.loads(line)["text"]}).encode() + b"\n" for line in lines]
    written = 0
    with open(to, "wb") as file:
        while written < size:
            for text in texts:
                written += file.write(text)
                if written >= size:
                    break
    return written


def run(commands: list[list[str]]) -> tuple[float, float, list[float]]:
    """Runs commands together; returns seconds, seconds of the processor, and the peaks in MB."""
    start = time.perf_counter()
    running = [subprocess.Popen(command, stdout=sys.stderr) for command in commands]
    ended = [os.wait4(process.pid, 0) for process in running]
    if any(status for _, status, _ in ended):
        raise SystemExit(f"{commands} ended with {[status for _, status, _ in ended]}")
    usages = [usage for _, _, usage in ended]
    cpu = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    return time.perf_counter() - start, cpu, [usage.ru_maxrss / 1024 for usage in usages]


if __name__ == "__main__":
    main()
