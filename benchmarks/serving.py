"""Requests a second to `keras-attn serve`, beside calls of `predict` in Python, one at a time.

    python -m benchmarks.serving --requests 200 --rounds 3

Two models are served: a text classifier of the sizes of MiniLM (random weights, whose speed is that
of trained ones) on texts of 5 to 40 words, and the translator of the package on sentences of 3 to 8
words. In each round, the requests are called in Python in a process of their own, then sent by one
client, then by 64 clients at once. The server and the clients share the processors. Printed are the
medians and ranges of requests a second, and of requests a second of the processor that the server
or the process took.
"""

import argparse
import contextlib
import http.client
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

WORDS = "the a device light room is not on off connected temperature of in home was could".split()
SHAPES = {"classifier": (5, 40), "home-assistant-en-de": (3, 8)}
MINILM = {
    "model": "bert", "dim": 384, "num_layers": 6, "num_heads": 12, "intermediate_dim": 1536,
}  # fmt: skip
CLIENTS = 64


def texts_of(name: str, count: int) -> list[str]:
    """Drawn texts of a model, the same in each process."""
    draw, (least, most) = random.Random(0), SHAPES[name]
    return [" ".join(draw.choices(WORDS, k=draw.randint(least, most))) for _ in range(count)]


def make_classifier(path: Path) -> None:
    """Writes a classifier of the sizes of MiniLM."""
    from keras_attn.tasks import TextClassifier
    from keras_attn.text import WordPieceTokenizer

    tokenizer = WordPieceTokenizer.train(texts_of("classifier", 100), 200, allow_fewer=True)
    TextClassifier(tokenizer, ["no", "yes"], model=MINILM).save(path)


def call_in_python(name: str, place: str, count: int) -> None:
    """Calls `predict` with one text after the other, and prints the seconds of both clocks."""
    from keras_attn.tasks import TextClassifier, Translator

    task = (TextClassifier if name == "classifier" else Translator).load(place)
    texts = texts_of(name, count)
    for text in texts:  # all lengths are compiled
        task.predict([text])
    began, took = time.perf_counter(), time.process_time()
    for text in texts:
        task.predict([text])
    print(json.dumps([time.perf_counter() - began, time.process_time() - took]))


def path_of(name: str) -> str:
    """Where a model of the server predicts."""
    return f"/v1/models/{name}:predict"


def send(port: int, path: str, texts: Sequence[str]) -> None:
    """Sends a request for each text over one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    for text in texts:
        body = json.dumps({"instances": [text]})
        connection.request("POST", path, body)
        answer = connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{answer.status}: {content.decode()}")
    connection.close()


def processor_seconds(number: int) -> float:
    """Seconds of the processor that a process took (Linux)."""
    fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def timed(server: int, work: Callable[[], None]) -> tuple[float, float]:
    """Seconds of the clock, and of the server's processor, that work takes."""
    began, took = time.perf_counter(), processor_seconds(server)
    work()
    return time.perf_counter() - began, processor_seconds(server) - took


def at_once(port: int, path: str, texts: Sequence[str], clients: int) -> None:
    """Sends requests by so many clients at once."""
    threads = [
        threading.Thread(target=send, args=(port, path, texts[n::clients])) for n in range(clients)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextlib.contextmanager
def serving(models: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Starts a server; gives its port and the number of its process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = [word for model in models for word in ("--model", model)]
    command = [sys.executable, "-m", "keras_attn", "serve", "--port", str(port), *options]
    process = subprocess.Popen([*command, "--seconds", "300"], stdout=subprocess.DEVNULL)
    try:
        while process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.2)
        yield port, process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def main(arguments: Sequence[str] | None = None) -> dict[str, dict[str, list[list[float]]]]:
    """Measures; prints and returns the seconds of both clocks by model and way."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=200, help="in each round (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(%(default)s)")
    parser.add_argument("--models", nargs="+", choices=SHAPES, default=[*SHAPES], help="(all)")
    parser.add_argument("--call", nargs=2, metavar=("NAME", "FILE"), help="of child processes")
    args = parser.parse_args(arguments)
    count = args.requests
    if args.call:
        call_in_python(*args.call, count)
        return {}
    found: dict[str, dict[str, list[list[float]]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "classifier.task"
        if "classifier" in args.models:
            make_classifier(file)
        places = {name: str(file) if name == "classifier" else name for name in args.models}
        with serving([f"{name}={place}" for name, place in places.items()]) as (port, server):
            for name, place in places.items():
                texts, ways = (
                    texts_of(name, count),
                    {"Python": [], "1 client": [], "64 clients": []},
                )
                path = path_of(name)
                at_once(port, path, texts, CLIENTS)
                send(port, path, texts)  # all shapes are compiled
                for _ in range(args.rounds):
                    command = [sys.executable, "-m", "benchmarks.serving", "--requests", str(count)]
                    done = subprocess.run(
                        [*command, "--call", name, place],
                        capture_output=True,
                        text=True,
                        check=True,
                    )
                    ways["Python"].append(json.loads(done.stdout.splitlines()[-1]))
                    one = timed(server, lambda p=path, t=texts: send(port, p, t))
                    many = timed(server, lambda p=path, t=texts: at_once(port, p, t, CLIENTS))
                    ways["1 client"].append([*one])
                    ways["64 clients"].append([*many])
                found[name] = ways
                for way, seconds in ways.items():
                    print(f"{name}, {way}: {_speeds(seconds, count)}", flush=True)
    return found


def _speeds(seconds: Sequence[Sequence[float]], count: int) -> str:
    """Requests a second of the clock and of the processor: medians and ranges."""
    parts = []
    for what, values in zip(
        ("a second", "a processor second"), zip(*seconds, strict=True), strict=True
    ):
        speeds = sorted(count / value for value in values)
        middle = statistics.median(speeds)
        parts.append(f"{middle:.1f} ({speeds[0]:.1f} to {speeds[-1]:.1f}) {what}")
    return ", ".join(parts)


if __name__ == "__main__":
    main()
