"""Beam search whose beams share the slots of their caches, beside one that copies them.

    OMP_NUM_THREADS=1 KERAS_BACKEND=jax taskset -c 0 python -m benchmarks.beams
    OMP_NUM_THREADS=1 KERAS_BACKEND=tensorflow taskset -c 0 python -m benchmarks.beams --xla

The translator of the suite `decoding` (2 + 2 blocks of 128, a vocabulary of 4,000, random weights)
searches both ways in turn, for sources of 24 tokens. Printed are the medians of the processor time,
and the median and range of the rounds' ratios; above 1, sharing is faster. Both must find the same.
"""

import argparse
import statistics
import time
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from benchmarks import machine
from keras_attn.generation import CompiledFunction, beam_search
from keras_attn.layers import transformer_stacks
from keras_attn.models import SequenceDecoder, TransformerEncoderDecoderConfig

VOCABULARY, SOURCE, LEAST_ROWS = 4000, 24, 32
CASES = ("4,1,24", "4,32,24", "4,1,100", "4,32,100")


def search(model: keras.Model, beams: int, xla: bool) -> CompiledFunction:
    """A compiled beam search; no sequence ends before the maximum length."""
    sequences = SequenceDecoder(model)

    def run(ids: Any, length: int) -> Any:
        memory = sequences.encode(ids)
        prompt = ops.ones_like(ids[:, :1])
        return beam_search(
            sequences.decoder, prompt, None, *memory, num_beams=beams, max_length=length,
            end_id=None,
        )  # fmt: skip

    return CompiledFunction(run, model, jit_compile=xla)


def seconds(run: CompiledFunction, ids: np.ndarray, length: int) -> float:
    """Of the processor, for one batch."""
    count = max(1, LEAST_ROWS // len(ids))
    began = time.process_time()
    for _ in range(count):
        run(ids, length)
    return (time.process_time() - began) / count


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints a line for each case."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--cases", nargs="+", default=CASES, help="beams,rows,length (%(default)s)")
    add("--rounds", type=int, default=9, help="(%(default)s)")
    add("--xla", action="store_true", help="compile with XLA on TensorFlow")
    args = parser.parse_args(arguments)
    keras.utils.set_random_seed(0)
    model = TransformerEncoderDecoderConfig(
        VOCABULARY, dim=128, num_layers=2, num_heads=4, intermediate_dim=512, dropout=0.0
    ).build()
    print(f"{keras.backend.backend()}, {machine.processor()}; {machine.versions()}")
    for case in args.cases:
        beams, rows, length = map(int, case.split(","))
        ids = np.random.default_rng(0).integers(3, VOCABULARY, (rows, SOURCE))
        runs, found = {}, {}
        for way, most in (("copied", 1), ("shared", beams)):
            transformer_stacks.MOST_SHARING = most
            runs[way] = search(model, beams, args.xla)
            found[way] = runs[way](ids, length)
        same = (found["copied"].tokens == found["shared"].tokens).mean()
        rounds = [
            {way: seconds(run, ids, length) for way, run in runs.items()}
            for _ in range(args.rounds)
        ]
        ratios = sorted(took["copied"] / took["shared"] for took in rounds)
        times = [f"{way} {statistics.median(r[way] for r in rounds) * 1e3:.1f} ms" for way in runs]
        print(
            f"{beams} beams, {rows} rows, {length} tokens: {', '.join(times)}, ratio "
            f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}), equal tokens "
            f"{same:.1%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
