"""The attention decoder beside the same cell without attention, and beside the Transformer.

    python benchmarks/recurrent.py                   # on the backend of KERAS_BACKEND
    python benchmarks/recurrent.py --quick           # about a minute: does it run?

Four tables. A training step (forward, backward, Adam) of a decoder layer, over random vectors,
for `keras.layers.RNN` of a GRU cell, and for an `AttentionDecoder` of the same cell with each
attention and with the fixed context. Such a step of whole translation models, with embeddings, an
encoder and a vocabulary, over random ids, beside that with the fixed context. The peak memory of a
decoder's step and of its inference, each in a process with one decoder, less what the process held
before (Linux; on a GPU the allocator's). And the beam search of whole recurrent models beside that
of a Transformer of the same width, by number of steps.

All contenders take turns, round by round, so that a machine that slows down slows all of them; a
ratio is the median of the rounds' ratios. Where other programs use the same cores, `--cpu-time`
counts seconds of the processor, of all threads, instead of the clock's.
"""

import argparse
import functools
import os
import platform
import resource
import statistics
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from keras import ops

from keras_attn.generation import CompiledFunction, beam_search
from keras_attn.layers import AdditiveAttention, AttentionDecoder, LuongAttention
from keras_attn.models import (
    RecurrentEncoderDecoderConfig,
    SequenceDecoder,
    TransformerEncoderDecoderConfig,
)
from keras_attn.training import MaskedCrossEntropy
from keras_attn.version import __version__

BACKEND = keras.backend.backend()
START, END = 1, 2
ATTENTIONS = {
    "fixed context": lambda units: (None, "bahdanau"),
    "additive, Bahdanau's order": lambda units: (AdditiveAttention(units), "bahdanau"),
    "additive, Luong's order": lambda units: (AdditiveAttention(units), "luong"),
    "luong-dot": lambda units: (LuongAttention(score="dot"), "luong"),
    "luong-general": lambda units: (LuongAttention(score="general"), "luong"),
    "luong-general, local-p": lambda units: (
        LuongAttention(score="general", window="predictive"),
        "luong",
    ),
}
PLAIN = "keras.layers.RNN, no attention"


def decoder_model(name, args):
    """A decoder from vectors `(B, T, units)` and a memory `(B, S, units)`, compiled."""
    x, memory = keras.Input((None, args.units)), keras.Input((None, args.units))
    cell = keras.layers.GRUCell(args.units)
    if name == PLAIN:
        model = keras.Model([x, memory], keras.layers.RNN(cell, return_sequences=True)(x))
    else:
        attention, order = ATTENTIONS[name](args.units)
        decoder = AttentionDecoder(cell, attention, order=order, attention_units=args.units)
        model = keras.Model([x, memory], decoder(x, memory))
    model.compile("adam", "mse", jit_compile=args.jit if BACKEND == "tensorflow" else "auto")
    return model


def vectors(args):
    """Inputs and targets of a decoder."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(args.batch, args.target, args.units)).astype("float32")
    memory = rng.normal(size=(args.batch, args.source, args.units)).astype("float32")
    return [x, memory], np.zeros((args.batch, args.target, args.units), "float32")


def timed(function, args):
    """Seconds of one call."""
    clock = time.process_time if args.cpu_time else time.perf_counter
    start = clock()
    function()
    return clock() - start


def rounds(functions, args):
    """Median seconds of each function, and the median ratio to the first with its range."""
    for function in functions.values():
        function()
        function()
    found = {name: [] for name in functions}
    for _ in range(args.rounds):
        for name, function in functions.items():
            found[name].append(timed(function, args))
    first = next(iter(found.values()))
    return {
        name: (
            statistics.median(seconds),
            sorted(s / f for s, f in zip(seconds, first, strict=True)),
        )
        for name, seconds in found.items()
    }


def print_row(name, seconds, ratios):
    middle = statistics.median(ratios)
    print(f"| {name} | {1e3 * seconds:.1f} | {middle:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) |")


def training(args):
    """The table of training steps."""
    data = vectors(args)
    models = {name: decoder_model(name, args) for name in (PLAIN, *ATTENTIONS)}
    functions = {
        name: functools.partial(model.train_on_batch, *data) for name, model in models.items()
    }
    print(
        f"\nA training step: batch {args.batch}, {args.target} steps, source of {args.source}, "
        f"{args.units} units\n\n| decoder | ms | time / no attention |\n|---|---|---|"
    )
    for name, (seconds, ratios) in rounds(functions, args).items():
        print_row(name, seconds, ratios)


def models(args):
    """The table of training steps of whole models."""
    sizes = {"source_vocabulary_size": args.vocabulary, "dim": args.units, "units": args.units}
    kinds = ("none", "additive", "luong-dot", "luong-general")
    functions = {}
    rng = np.random.default_rng(0)
    source = rng.integers(3, args.vocabulary, (args.batch, args.source)).astype("int32")
    target = rng.integers(3, args.vocabulary, (args.batch, args.target + 1)).astype("int32")
    for kind in kinds:
        model = RecurrentEncoderDecoderConfig(**sizes, attention=kind, dropout=0.0).build()
        jit = args.jit if BACKEND == "tensorflow" else "auto"
        model.compile("adam", MaskedCrossEntropy(), jit_compile=jit)
        functions[kind] = functools.partial(
            model.train_on_batch, [source, target[:, :-1]], target[:, 1:]
        )
    print(
        f"\nA training step of whole models: batch {args.batch}, {args.source} to {args.target} "
        f"tokens, {args.units} units, a vocabulary of {args.vocabulary}\n\n"
        "| attention | ms | time / fixed context |\n|---|---|---|"
    )
    for name, (seconds, ratios) in rounds(functions, args).items():
        print_row(name, seconds, ratios)


def search(model, args):
    """Beam search that takes all of its steps."""
    decoder = SequenceDecoder(model)

    def run(ids, steps):
        memory, mask = decoder.encode(ids)
        start = ops.zeros_like(ids[:, :1]) + START
        settings = {"max_length": steps, "end_id": END, "suppressed_ids": (END,)}
        found = beam_search(
            decoder.decoder, start, None, memory, mask, num_beams=args.beams, **settings
        )
        return found.tokens

    return CompiledFunction(run, model.variables, args.jit)


def decoding(args):
    """The table of beam searches, a row for each length."""
    sizes = {"source_vocabulary_size": args.vocabulary}
    configs = {
        "Transformer": TransformerEncoderDecoderConfig(
            **sizes, dim=args.units, num_layers=args.layers, intermediate_dim=4 * args.units
        ),
        "additive": RecurrentEncoderDecoderConfig(**sizes, dim=args.units, units=args.units),
        "luong-general": RecurrentEncoderDecoderConfig(
            **sizes, dim=args.units, units=args.units, attention="luong-general"
        ),
        "fixed context": RecurrentEncoderDecoderConfig(
            **sizes, dim=args.units, units=args.units, attention="none"
        ),
    }
    models = {name: config.build() for name, config in configs.items()}
    searches = {name: search(model, args) for name, model in models.items()}
    weights = ", ".join(f"{name} {model.count_params():,}" for name, model in models.items())
    print(f"\nBeam search of {args.beams}, {args.sentences} sentences; weights: {weights}")
    print("\n| steps = source tokens | model | ms | time / Transformer |\n|---|---|---|---|")
    rng = np.random.default_rng(0)
    for length in args.lengths:
        ids = rng.integers(3, args.vocabulary, (args.sentences, length)).astype("int32")
        functions = {name: functools.partial(run, ids, length) for name, run in searches.items()}
        for name, (seconds, ratios) in rounds(functions, args).items():
            print_row(f"{length} | {name}", seconds, ratios)


def peak():
    """Bytes: of the device's allocator where there is one, else of the process."""
    if BACKEND == "jax":
        import jax

        found = jax.devices()[0].memory_stats()
        if found:
            return found["peak_bytes_in_use"]
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def memory_of_one(args):
    """Prints the bytes that one decoder takes, for the process that asked."""
    name, what = args.one
    before = peak()
    model, data = decoder_model(name, args), vectors(args)
    for _ in range(2):
        model.train_on_batch(*data) if what == "training" else model.predict_on_batch(data[0])
    print(peak() - before)


def memory(args):
    """The table of peak memory."""
    kept = args.batch * args.target * args.source * args.units * 4
    print(
        f"\nPeak memory, MB; one (B, T, S, units) tensor is {kept / 2**20:.0f}\n\n"
        "| decoder | training | inference |\n|---|---|---|"
    )
    for name in (PLAIN, *ATTENTIONS):
        found = []
        for what in ("training", "inference"):
            command = [sys.executable, __file__, *sys.argv[1:], "--one", name, what]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found.append(int(done.stdout.split()[-1]) / 2**20)
        print(f"| {name} | {found[0]:.0f} | {found[1]:.0f} |", flush=True)


def main():
    """Prints the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--batch", type=int, default=64)
    add("--target", type=int, default=32, help="steps of the decoder (32)")
    add("--source", type=int, default=32, help="tokens of the memory (32)")
    add("--units", type=int, default=256)
    add("--layers", type=int, default=2, help="of the Transformer (2)")
    add("--vocabulary", type=int, default=8000)
    add("--beams", type=int, default=4)
    add("--sentences", type=int, default=32)
    add("--lengths", type=int, nargs="+", default=[16, 32, 64, 128])
    add("--rounds", type=int, default=9)
    add("--only", choices=["training", "models", "memory", "decoding"])
    add("--jit", action="store_true", help="XLA on TensorFlow")
    add("--cpu-time", action="store_true")
    add("--quick", action="store_true", help="small sizes, two rounds")
    add("--one", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.quick:
        args.batch, args.target, args.source, args.units, args.rounds = 4, 6, 8, 16, 2
        args.vocabulary, args.sentences, args.lengths = 100, 4, [6]
    if args.one:
        memory_of_one(args)
        return
    print(
        f"keras_attn {__version__}, keras {keras.__version__}, {BACKEND}, Python "
        f"{platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores, "
        f"{'processor' if args.cpu_time else 'wall'} time, {args.rounds} rounds"
    )
    parts = {"training": training, "models": models, "memory": memory, "decoding": decoding}
    for name, part in parts.items():
        if args.only in (None, name):
            part(args)


if __name__ == "__main__":
    main()
