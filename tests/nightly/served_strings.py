"""Byte strings of all kinds through the SavedModel of every task that takes strings.

    KERAS_BACKEND=tensorflow python tests/nightly/served_strings.py --cases 10000 --seed 1

For each task, a toy is exported and its SavedModel gets that many strings, in batches: random
bytes, invalid UTF-8, lone surrogates, NULs, overlong codes, every Unicode plane, and strings of
100 KB. The call must not fail, its numbers must be finite, its strings must be UTF-8, and it may
take 20 s of processor time. Then 16 threads ask the SavedModel and the task, and must get what one
thread gets. `growth` is how much memory the second half of the calls added, in MB.
"""

import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from drawn_cases import options, resident

sys.path[:0] = [str(Path(__file__).parents[1] / name) for name in ("", "tasks")]

import every_task
import tensorflow as tf

BATCH = 25
THREADS = 16
MOST_SECONDS = 20
PIECES = (
    b"[MASK]", b"[SEP]", b"</s>", b"<unk>", b"the dog ran", b"\t", b"\n", b"\r", b"\x00", b"\x01",
    b"\xff", b"\xc0\x80", b"\xe0\x80\x80", b"\xf5\x80\x80\x80", b"\xed\xa0\x80", b"\xef\xbb\xbf",
    b"\xc3", b"\xe2\x82", "\u2028\u0085\u3000\u200b\u202e\u0301\u0345".encode(),
)  # fmt: skip


def drawn_bytes(rng, long):
    """A byte string; in a few cases of 100 KB."""
    if long:
        unit = [b"a", b" ", b"a b ", "\u0301".encode(), b"\xff", b"\x00", rng.bytes(100_000)]
        unit = unit[int(rng.integers(len(unit)))]
        return (unit * (100_000 // len(unit) + 1))[:100_000]
    match int(rng.integers(5)):
        case 0:
            return rng.bytes(int(rng.integers(40)))
        case 1:
            plane = int(rng.integers(17)) << 16
            codes = plane + rng.integers(0, 0x10000, int(rng.integers(1, 20)))
            return "".join(map(chr, codes)).encode("utf-8", "surrogatepass")
        case 2:
            return "".join(map(chr, rng.integers(0, 0x250, int(rng.integers(1, 30))))).encode()
        case 3:
            raw = "Gr\u00fc\u00dfe, \u4f60\u597d \U0001f642!".encode()
            return raw[: int(rng.integers(len(raw)))]
        case _:
            count = int(rng.integers(1, 6))
            return b" ".join(PIECES[int(i)] for i in rng.integers(len(PIECES), size=count))


def picture():
    return tf.io.encode_png(np.full((8, 8, 3), 9, "uint8")).numpy()


def drawn_inputs(rng, signature, count, long):
    """Strings for every input of strings; a picture where one is wanted."""
    inputs = {}
    for name, spec in signature.structured_input_signature[1].items():
        if spec.dtype != tf.string:
            return None
        if name == "image":
            inputs[name] = tf.constant([picture()] * count)
        elif spec.shape.rank == 1:
            inputs[name] = tf.constant([drawn_bytes(rng, long and not i) for i in range(count)])
        else:
            rows = [[drawn_bytes(rng, long and not i) for _ in range(2)] for i in range(count)]
            inputs[name] = tf.constant(rows)
    return None if set(inputs) <= {"image"} else inputs


def check_outputs(outputs):
    for name, value in outputs.items():
        array = value.numpy()
        if value.dtype == tf.string:
            for raw in array.reshape(-1):
                raw.decode("utf-8")
        elif value.dtype.is_floating:
            assert np.isfinite(array).all(), f"{name} is not finite"


def equal(one, other):
    return all((a == b).all() for a, b in zip(one, other, strict=True))


def in_threads(call, count):
    """Whether 16 threads get what one gets; `call` takes a number."""
    alone = [call(i) for i in range(count)]
    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(call, [i % count for i in range(4 * THREADS)]))
    assert all(equal(x, alone[i % count]) for i, x in enumerate(found)), "threads differ"


def run_signature(name, signature, args):
    """Returns how many strings were given, the failures, and the growth of memory in MB."""
    failures, calls, half, slowest = [], -(-args.cases // BATCH), None, 0.0
    for number in range(calls) if args.only is None else [args.only]:
        rng = np.random.default_rng([args.seed, number])
        inputs = drawn_inputs(rng, signature, BATCH, long=number % 40 == 39)
        if inputs is None:
            return None
        began = time.process_time()
        try:
            check_outputs(signature(**inputs))
            slowest = max(slowest, time.process_time() - began)
            assert slowest < MOST_SECONDS, f"{slowest:.0f} s of processor time"
        except Exception as error:
            failures.append(number)
            print(f"{name}, call {number}: {str(error)[:600]}", file=sys.stderr)
        if number == calls // 2:
            half = resident()
    growth = round((resident() - (half or resident())) / 1e6)
    return {
        "strings": calls * BATCH,
        "failures": failures,
        "MB": growth,
        "slowest": round(slowest, 1),
    }


def check_threads(name, task, ask, signature, seed):
    inputs = [
        drawn_inputs(np.random.default_rng([seed, 9, i]), signature, 3, False) for i in range(4)
    ]

    def served(i):
        found = signature(**inputs[i])
        return [found[key].numpy() for key in sorted(found)]

    in_threads(served, 4)
    in_threads(lambda i: [np.asarray(x, "O") for x in map(str, ask(task))], 1)


def main():
    parser = options(__doc__, 10_000)
    parser.add_argument("--tasks", nargs="+", choices=every_task.CASES, help="default: all")
    args = parser.parse_args()
    began, results, failed = time.monotonic(), {}, False
    for name in args.tasks or every_task.CASES:
        make, ask = every_task.CASES[name]
        task = make()
        with tempfile.TemporaryDirectory() as folder:
            task.export(Path(folder) / "saved")
            loaded = tf.saved_model.load(str(Path(folder) / "saved"))
        signature = loaded.signatures["serving_default"]
        if (found := run_signature(name, signature, args)) is None:
            continue
        try:
            check_threads(name, task, ask, signature, args.seed)
        except AssertionError as error:
            found["failures"].append(str(error))
        failed |= bool(found["failures"])
        results[name] = found
        print(name, json.dumps(found), file=sys.stderr, flush=True)
    strings = sum(found["strings"] for found in results.values())
    failures = sum(len(found["failures"]) for found in results.values())
    print(json.dumps({
        "cases": strings, "seed": args.seed, "SavedModels": len(results), "failures": failures,
        "most MB": max(found["MB"] for found in results.values()),
        "seconds": round(time.monotonic() - began),
    }))  # fmt: skip
    sys.exit(failed)


if __name__ == "__main__":
    main()
