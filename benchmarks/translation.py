"""A translator of keras_attn beside one of keras_hub's layers: training, decoding, memory.

    python benchmarks/translation.py                 # on the backend of KERAS_BACKEND
    python benchmarks/translation.py --quick         # about a minute: does it run?
    KERAS_BACKEND=jax python benchmarks/translation.py --dim 512 --layers 6 --batch-tokens 16384

Both are pre-norm Transformers of the same sizes, with one vocabulary and its embedding as the
output, and get the same ids of a made-up length distribution (log-normal, median 20), the same
masks, loss, optimizer and dropout. What differs: keras_hub has learned positions, the faster of its
two kinds, and does not scale its embedding.

Both decode with caches, of self- and of cross-attention, for the same number of steps: keras_attn's
end token is ruled out, keras_hub's samplers get none. keras_attn's beam search does more in them
(scores by length, beams that end and freeze). Before they are timed, the tokens of both greedy
searches are compared with their models on the whole sequence.

The two take turns, round by round, so that a machine that slows down slows both; the ratio is the
median of the rounds' ratios. Where other programs use the same cores, `--cpu-time` counts seconds
of the processor, of all threads, instead of the clock's. Peak memory is that of a process that does
one thing for one of them: on a GPU the allocator's, else the process's less what it held after the
imports (Linux).
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import keras_hub
import numpy as np
from keras import ops

from keras_attn.datasets import TokenBatches
from keras_attn.generation import CompiledFunction, beam_search, greedy_search
from keras_attn.models import SequenceDecoder, TransformerConfig, encoder_decoder_transformer
from keras_attn.training import MaskedCrossEntropy
from keras_attn.version import __version__

START, END = 1, 2
PARTS = {  # decoding first: its weights are then those of untrained models
    "greedy": "greedy search, sentences/s",
    "beam": "beam search of {beams}, sentences/s",
    "training": "training, target tokens/s",
}
BACKEND = keras.backend.backend()


class Ours:
    """keras_attn."""

    def __init__(self, args):
        config = TransformerConfig(
            args.vocabulary,
            num_layers=args.layers,
            dim=args.dim,
            num_heads=args.heads,
            intermediate_dim=args.intermediate,
            dropout=args.dropout,
            attention_dropout=args.dropout,
        )
        self.model = encoder_decoder_transformer(config)
        self.decoder = SequenceDecoder(self.model)

    def search(self, num_beams, args):
        """A function from source ids and a number of steps to ids `(B, steps)`."""

        def search(ids, steps):
            memory, mask = self.decoder.encode(ids)
            start = ops.zeros_like(ids[:, :1]) + START
            # An end token that cannot come: each sequence takes all steps.
            settings = {"max_length": steps, "end_id": END, "suppressed_ids": (END,)}
            inputs = (self.decoder.decoder, start, None, memory, mask)
            if num_beams == 1:
                return greedy_search(*inputs, **settings).tokens
            return beam_search(*inputs, num_beams=num_beams, **settings).tokens[:, 0]

        return CompiledFunction(search, self.model.variables, args.jit)


class Theirs:
    """keras_hub."""

    def __init__(self, args):
        self.heads, self.width = args.heads, args.dim // args.heads
        block = {"dropout": args.dropout, "normalize_first": True}
        self.embedding = keras_hub.layers.TokenAndPositionEmbedding(
            args.vocabulary, args.longest + 8, args.dim
        )
        self.encoders = [
            keras_hub.layers.TransformerEncoder(args.intermediate, args.heads, **block)
            for _ in range(args.layers)
        ]
        self.decoders = [
            keras_hub.layers.TransformerDecoder(args.intermediate, args.heads, **block)
            for _ in range(args.layers)
        ]
        # What keras_attn has, and keras_hub's models add: dropout of the embeddings, last norms.
        self.dropout = keras.layers.Dropout(args.dropout)
        self.encoder_norm = keras.layers.LayerNormalization()
        self.decoder_norm = keras.layers.LayerNormalization()

        source_ids = keras.Input((None,), dtype="int32", name="source_ids")
        target_ids = keras.Input((None,), dtype="int32", name="target_ids")
        memory, mask = self.encode(source_ids)
        x = self.dropout(self.embedding(target_ids))
        own_mask = ops.not_equal(target_ids, 0)
        for layer in self.decoders:
            x = layer(x, memory, decoder_padding_mask=own_mask, encoder_padding_mask=mask)
        inputs = {"source_ids": source_ids, "target_ids": target_ids}
        self.model = keras.Model(inputs, self.logits(x))

    def encode(self, ids):
        """The memory and its mask."""
        mask = ops.not_equal(ids, 0)
        x = self.dropout(self.embedding(ids))
        for layer in self.encoders:
            x = layer(x, padding_mask=mask)
        return self.encoder_norm(x), mask

    def logits(self, x):
        """Of the decoder's output."""
        return self.embedding.token_embedding(self.decoder_norm(x), reverse=True)

    def search(self, num_beams, args):
        """A function from source ids and a number of steps to ids `(B, steps)`."""

        def search(ids, steps):
            memory, mask = self.encode(ids)
            rows, length = ops.shape(ids)[0], ops.shape(ids)[1]
            prompt = ops.zeros((rows, steps + 1), "int32")
            prompt = ops.slice_update(prompt, [0, 0], ops.zeros((rows, 1), "int32") + START)
            empty = ops.zeros((rows, 2, steps + 1, self.heads, self.width))
            cross = ops.zeros((rows, 2, length, self.heads, self.width))
            start, crosses = self.embedding(prompt[:, :1]), []
            for layer in self.decoders:  # the cross-attention's keys and values, once
                start, _, cache = layer(
                    start,
                    memory,
                    encoder_padding_mask=mask,
                    self_attention_cache=empty,
                    self_attention_cache_update_index=0,
                    cross_attention_cache=cross,
                    cross_attention_cache_update_index=0,
                )
                crosses.append(cache)
            # The same for all beams of a sentence, so they need not be gathered at each step.
            memory, mask, *crosses = (
                ops.repeat(t, num_beams, axis=0) for t in (memory, mask, *crosses)
            )

            def following(prompt, caches, index):
                token = ops.slice(prompt, [0, index - 1], [ops.shape(prompt)[0], 1])
                x = self.embedding(token, start_index=index - 1)
                updated = []
                for layer, cache, cross in zip(self.decoders, caches, crosses, strict=True):
                    x, cache, _ = layer(
                        x,
                        memory,
                        encoder_padding_mask=mask,
                        self_attention_cache=cache,
                        self_attention_cache_update_index=index - 1,
                        cross_attention_cache=cross,
                    )
                    updated.append(cache)
                return self.logits(x)[:, 0], None, updated

            caches = [empty for _ in self.decoders]
            sampler = keras_hub.samplers.GreedySampler()
            if num_beams > 1:
                sampler = keras_hub.samplers.BeamSampler(num_beams=num_beams)
            model = self.model if BACKEND == "jax" else None
            return sampler(following, prompt, caches, index=1, model=model)[:, 1:]

        if BACKEND != "tensorflow":
            return CompiledFunction(search, self.model.variables)
        import tensorflow as tf

        # A trace for each shape, as its models' `generate` does: static shapes suit it best.
        compiled = tf.function(search, autograph=False, jit_compile=args.jit)
        return lambda ids, steps: compiled(tf.constant(ids), int(steps)).numpy()


CONTENDERS = {"keras_attn": Ours, "keras_hub": Theirs}


def make_data(args):
    """Training batches, and batches of sources to decode with their numbers of steps."""
    rng = np.random.default_rng(args.seed)

    def pairs(count):
        source = np.exp(rng.normal(3.0, 0.5, count))
        target = source * np.exp(rng.normal(0.0, 0.15, count))
        lengths = np.clip(np.stack([source, target], 1).astype(int), 3, args.longest)
        return [[rng.integers(3, args.vocabulary, n).tolist() for n in pair] for pair in lengths]

    sources, targets = zip(*pairs(args.pairs), strict=True)
    batches = TokenBatches(
        sources, targets, start_id=START, end_id=END, tokens_per_batch=args.batch_tokens,
        max_shapes=4, shuffle=False,
    )  # fmt: skip
    training = [batches[i] for i in range(len(batches))]
    rows = sorted(pairs(args.sentences), key=lambda pair: len(pair[0]))
    decoding = []
    for i in range(0, len(rows), args.batch):
        sources, targets = zip(*rows[i : i + args.batch], strict=True)
        ids = np.zeros((len(sources), max(map(len, sources))), "int32")
        for row, source in zip(ids, sources, strict=True):
            row[: len(source)] = source
        decoding.append((ids, max(map(len, targets))))
    return training, decoding


def make_part(contender, part, training, decoding, args):
    """A function that does one round, and how much it does."""
    if part == "training":
        model = contender.model
        model.compile("adam", MaskedCrossEntropy(), jit_compile=args.jit)

        def train():
            for batch in training:
                loss = model.train_on_batch(*batch)
            return loss  # a number: all is done

        return train, sum(float(weight.sum()) for _, _, weight in training)

    search = contender.search(args.beams if part == "beam" else 1, args)
    if part == "greedy":
        check(contender.model, search, *decoding[0])

    def decode():
        return [search(ids, steps) for ids, steps in decoding]

    return decode, sum(len(ids) for ids, _ in decoding)


def check(model, search, ids, steps):
    """Greedy search step by step must be what the model says of the whole sequence."""
    tokens = np.asarray(search(ids, steps))
    targets = np.concatenate([np.full((len(ids), 1), START, "int32"), tokens[:, :-1]], axis=1)
    logits = model.predict_on_batch({"source_ids": ids, "target_ids": targets})
    logits = np.array(logits, "float32")
    share = np.mean(
        np.take_along_axis(logits, tokens[..., None], -1)[..., 0] >= logits.max(-1) - 1e-2
    )
    if tokens.shape != (len(ids), steps) or share < 0.99:
        raise RuntimeError(
            f"{share:.1%} of the tokens decoded are the model's; shape {tokens.shape}"
        )


def measure_times(args, parts):
    """Prints for each part the amount a second of each contender, and their ratio."""
    training, decoding = make_data(args)
    contenders = {name: make(args) for name, make in CONTENDERS.items()}
    clock = time.process_time if args.cpu_time else time.perf_counter
    for part in parts:
        runs = {
            name: make_part(contender, part, training, decoding, args)
            for name, contender in contenders.items()
        }
        for run, _ in runs.values():
            run()  # compiles
            run()
        times = {name: [] for name in runs}
        for number in range(args.rounds):
            order = list(runs.items())[:: 1 if number % 2 else -1]
            for name, (run, _) in order:
                began = clock()
                run()
                times[name].append(clock() - began)
        speeds = [runs[name][1] / statistics.median(times[name]) for name in runs]
        ours, theirs = times.values()
        ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
        title = PARTS[part].format(beams=args.beams)
        ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        print(f"| {title} | {speeds[0]:,.1f} | {speeds[1]:,.1f} | {ratio} |", flush=True)


def memory_now(field):
    """Megabytes of this process: `VmRSS` now, `VmHWM` at most. (`ru_maxrss` has the parent's.)"""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def device_peak():
    """Megabytes of GPU memory at most, or None without a GPU."""
    if BACKEND == "jax":
        import jax

        stats = jax.devices()[0].memory_stats() or {}
        return stats["peak_bytes_in_use"] / 2**20 if jax.default_backend() == "gpu" else None
    if BACKEND == "tensorflow":
        import tensorflow as tf

        if not tf.config.list_physical_devices("GPU"):
            return None
        return tf.config.experimental.get_memory_info("GPU:0")["peak"] / 2**20
    import torch

    return torch.cuda.max_memory_allocated() / 2**20 if torch.cuda.is_available() else None


def measure_memory(args):
    """Runs one part of one contender and prints its peak."""
    ops.matmul(ops.ones((8, 8)), ops.ones((8, 8)))  # the device is there
    before = memory_now("VmRSS") if os.path.exists("/proc/self/status") else None
    training, decoding = make_data(args)
    contender = CONTENDERS[args.only](args)
    run, _ = make_part(contender, args.part, training, decoding, args)
    for _ in range(2):
        run()
    peak = device_peak()
    if peak is None and before is not None:
        peak = memory_now("VmHWM") - before
    print(f"peak {peak}")


def child_memory(args, name, part):
    """Megabytes, measured in a process of its own."""
    command = [sys.executable, __file__, *sys.argv[1:], "--only", name, "--part", part]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
    peak = done.stdout.split("peak ")[-1].strip()
    return None if peak == "None" else float(peak)


def machine():
    """Processor and device, in words."""
    name = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as lines:
            models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
        name = models[0] if models else name
    device = "CPU"
    if has_gpu() and BACKEND == "jax":
        import jax

        device = jax.devices()[0].device_kind
    elif has_gpu() and BACKEND == "tensorflow":
        import tensorflow as tf

        gpu = tf.config.list_physical_devices("GPU")[0]
        device = tf.config.experimental.get_device_details(gpu).get("device_name", "GPU")
    elif has_gpu():
        import torch

        device = torch.cuda.get_device_name()
    return f"{name}, {os.cpu_count()} cores, computing on {device}"


def has_gpu():
    """Whether the backend computes on a GPU."""
    if BACKEND == "jax":
        import jax

        return jax.default_backend() == "gpu"
    if BACKEND == "tensorflow":
        import tensorflow as tf

        return bool(tf.config.list_physical_devices("GPU"))
    import torch

    return torch.cuda.is_available()


def backend_version():
    """Of the backend's package."""
    return __import__(
        {"torch": "torch", "jax": "jax", "tensorflow": "tensorflow"}[BACKEND]
    ).__version__


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--dim", type=int, default=256)
    add("--layers", type=int, default=4, help="of the encoder, and of the decoder")
    add("--heads", type=int, default=8)
    add("--intermediate", type=int, default=1024)
    add("--vocabulary", type=int, default=8000)
    add("--dropout", type=float, default=0.1, help="also of attention weights")
    add("--dtype", default="float32", help="a dtype policy, such as mixed_bfloat16")
    add("--longest", type=int, default=80, help="tokens of the longest sentence")
    add("--pairs", type=int, default=400, help="training pairs in a round")
    add("--batch-tokens", type=int, default=2048)
    add("--sentences", type=int, default=96, help="decoded in a round")
    add("--batch", type=int, default=32, help="sentences decoded at a time")
    add("--beams", type=int, default=4)
    add("--rounds", type=int, default=9)
    add("--jit", action="store_true", help="TensorFlow with XLA (on a GPU always; JAX always)")
    add("--cpu-time", action="store_true", help="seconds of the processor: other programs run too")
    add("--no-memory", action="store_true", help="leave out the processes that measure memory")
    add("--part", choices=list(PARTS), help="this part alone")
    add("--only", choices=list(CONTENDERS), help="one contender, and its memory alone")
    add("--seed", type=int, default=0)
    add("--quick", action="store_true", help="tiny sizes: does it run?")
    args = parser.parse_args()
    if args.quick:
        args.dim, args.layers, args.heads, args.intermediate, args.vocabulary = 32, 1, 2, 64, 200
        args.pairs, args.batch_tokens, args.sentences, args.batch = 24, 256, 8, 4
        args.longest, args.rounds = 24, 2
    if args.only and not args.part:
        parser.error("--only wants --part")
    args.jit = BACKEND == "jax" or (BACKEND == "tensorflow" and (args.jit or has_gpu()))
    return args


def main():
    args = parse_arguments()
    keras.config.set_dtype_policy(args.dtype)
    keras.utils.set_random_seed(args.seed)
    if args.only:
        measure_memory(args)
        return
    print(
        f"{machine()}; Python {platform.python_version()}, Keras {keras.__version__} on {BACKEND} "
        f"{backend_version()}, keras_hub {keras_hub.__version__}, keras_attn {__version__}\n\n"
        f"{', '.join(f'{k} {v}' for k, v in vars(args).items() if k not in ('only', 'part'))}\n"
    )
    print("| | keras_attn | keras_hub | keras_attn / keras_hub |\n|---|---|---|---|")
    parts = [part for part in PARTS if args.part in (None, part)]
    for part in [] if args.no_memory else parts:
        ours, theirs = (child_memory(args, name, part) for name in CONTENDERS)
        if ours is not None:
            title = PARTS[part].format(beams=args.beams).split(",")[0]
            print(
                f"| {title}, peak MB | {ours:,.0f} | {theirs:,.0f} | {ours / theirs:.2f} |",
                flush=True,
            )
    measure_times(args, parts)


if __name__ == "__main__":
    main()
