"""Trainings by the command `keras-attn`, cut into slices: what they come to on a test set."""

import contextlib
import csv
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.children import ROOT, environment
from benchmarks.gpu.progress import NoData, Progress, Unfinished

TO_SAVE = 40.0  # seconds before the end of a slice, for the state of the run
HOW = "`docs/gpu_benchmark.md` says how to prepare it, and --data FOLDER where it is."


def translation(settings: dict[str, Any], progress: Progress) -> Iterator[dict[str, Any]]:
    """A translator of Multi30k: BLEU and chrF of the test set."""
    data = data_of(settings, settings["direction"])
    run = progress.folder / "runs" / f"{settings['direction']}-{settings['seed']}"
    config = ["--config", str(ROOT / "examples" / "multi30k" / f"{settings['direction']}.toml")]
    command = Command("translation", run, settings, progress)
    options = [*config, "--seed", str(settings["seed"]), *settings["options"]]
    command.fit("--data", str(data), *options)
    found = command.evaluate("--data", str(data), *config)
    log = command.log()
    yield {
        "name": f"{settings['direction']}, seed {settings['seed']}",
        "bleu": round(found["bleu"], 2),
        "bleu_lowercase": round(found["bleu_lowercase"], 2),
        "chrf": round(found["chrf"], 2),
        "best_dev_bleu": max(round(float(row["val_bleu"] or -1), 2) for row in log),
        "epochs": len(log),
        "minutes": command.minutes(),
        "signatures": [found[f"{k}_signature"] for k in ("bleu", "bleu_lowercase", "chrf")],
    }


def text_generation(settings: dict[str, Any], progress: Progress) -> Iterator[dict[str, Any]]:
    """A recurrent network on tiny-shakespeare: bits per character of the last tenth."""
    text = data_of(settings, "tinyshakespeare.txt")
    run = progress.folder / "runs" / f"tinyshakespeare-{settings['seed']}"
    command = Command("text-generation", run, settings, progress)
    shares = ["--dev-share", "0.05", "--test-share", "0.1"]
    seed = ["--seed", str(settings["seed"])]
    command.fit("--text", str(text), *shares, *seed, *settings["options"])
    found = command.evaluate("--text", str(text), *shares)
    bits = found["bits_per_character"]
    yield {
        "name": f"tiny-shakespeare, seed {settings['seed']}",
        "bits_per_character": round(bits, 4),
        "nats_per_character": round(bits * 0.6931472, 4),
        "epochs": len(command.log()),
        "minutes": command.minutes(),
    }


def pretraining(settings: dict[str, Any], progress: Progress) -> Iterator[dict[str, Any]]:
    """An encoder of plain text: masked words and next sentences of the held-out documents."""
    run = progress.folder / "runs" / f"pretraining-{settings['seed']}"
    command = Command("pretraining", run, settings, progress)
    prepared = ["--prepared", str(data_of(settings, "pretraining"))]
    command.fit(*prepared, "--seed", str(settings["seed"]), *settings["options"])
    log = command.log()
    best = min(log, key=lambda row: float(row["val_perplexity"]))
    yield {
        "name": f"pretraining, seed {settings['seed']}",
        **{
            name.removeprefix("val_"): round(float(best[name]), 4)
            for name in (
                "val_perplexity", "val_masked_words_accuracy", "val_next_sentence_accuracy"
            )
        },
        "epochs": len(log),
        "minutes": command.minutes(),
    }  # fmt: skip


def data_of(settings: dict[str, Any], name: str) -> Path:
    """A file or folder of `--data`.

    Raises:
        NoData: If it is not there.
    """
    if not settings.get("data"):
        raise NoData(f"{name} is needed. {HOW}")
    path = Path(settings["data"]) / name
    if not path.exists():
        raise NoData(f"There is no {path}. {HOW}")
    return path


class Command:
    """The command `keras-attn TASK` with a run's folder, within the time of a slice."""

    def __init__(self, task: str, run: Path, settings: dict[str, Any], progress: Progress):
        self.task, self.run, self.settings, self.progress = task, run, settings, progress
        run.mkdir(parents=True, exist_ok=True)
        self.clock = run / "seconds.json"

    def fit(self, *options: str) -> None:
        """Trains to the end of the run.

        Raises:
            Unfinished: If the slice is over before; the run has saved its state.
        """
        device = ["--device", self.progress.device]
        self._call("fit", "--run-dir", str(self.run), *device, *options)

    def evaluate(self, *options: str) -> dict[str, Any]:
        """The scores of the best weights on the test set."""
        path = self.run / "test.json"
        if not path.exists():
            best = ["--model", str(self.run / "best.task"), "--to", str(path)]
            self._call("evaluate", *best, "--device", self.progress.device, *options)
        return json.loads(path.read_text(encoding="utf-8"))

    def log(self) -> list[dict[str, str]]:
        """A row for each epoch."""
        path = self.run / "log.csv"
        if not path.exists():
            return []
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def minutes(self) -> float:
        """Of all slices, with their imports and compiling."""
        seconds = json.loads(self.clock.read_text()) if self.clock.exists() else []
        return round(sum(seconds) / 60, 1)

    def _call(self, do: str, *options: str) -> None:
        backend, cache = self.settings["backend"], self.progress.folder / "cache"
        said = self.run / f"{do}.log"
        with said.open("a") as output:
            began = time.monotonic()
            process = subprocess.Popen(
                [sys.executable, "-m", "keras_attn", self.task, do, *options],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                env={
                    **environment(backend, self.progress.device, None),
                    "JAX_COMPILATION_CACHE_DIR": str(cache),  # for the slices and seeds to come
                    "PYTHONUNBUFFERED": "1",
                },
            )
            code = self._wait(process)
        seconds = json.loads(self.clock.read_text()) if self.clock.exists() else []
        self.clock.write_text(json.dumps([*seconds, time.monotonic() - began]))
        if code in (128 + signal.SIGTERM, -signal.SIGTERM, -signal.SIGKILL):
            raise Unfinished(f"{do}: {len(self.log())} epochs are done.")
        if code:
            tail = said.read_text(errors="replace")[-1500:]
            raise RuntimeError(f"`keras-attn {self.task} {do}` ended with {code}.\n{tail}")

    def _wait(self, process: subprocess.Popen) -> int:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(max(1.0, self.progress.seconds_left - TO_SAVE))
        process.send_signal(signal.SIGTERM)
        try:
            return process.wait(max(1.0, min(TO_SAVE, self.progress.seconds_left) - 5))
        except subprocess.TimeoutExpired:  # its last checkpoint is good
            process.kill()
            return process.wait()
