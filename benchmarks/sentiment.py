"""Text classifiers beside the same models of stock Keras layers: training and serving.

    python benchmarks/sentiment.py                   # on the backend of KERAS_BACKEND
    python benchmarks/sentiment.py --quick           # about a minute: does it run?

Two tables. Texts a second in training: `model.train_on_batch` of a bag of tokens with learned
weights, a bidirectional LSTM with attention pooling and a Transformer encoder, each beside a model
of the same sizes of `keras.layers` alone (with KerasHub's encoder block for the Transformer), over
random ids, padded to random lengths. Texts a second in serving (TensorFlow): from strings to
probabilities by the SavedModel of `TextClassifier.export`, which gives the weights of the tokens
too, beside one of the stock model with `keras.layers.TextVectorization`, which gives probabilities
alone.

Each pair takes turns, round by round, so that a machine that slows down slows both; a ratio is the
median of the rounds' ratios. Where other programs use the same cores, `--cpu-time` counts seconds
of the processor, of all threads, instead of the clock's.
"""

import argparse
import os
import platform
import statistics
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import keras_hub
import numpy as np
from keras import ops

from keras_attn.models import (
    BagClassifierConfig,
    RecurrentClassifierConfig,
    TransformerClassifierConfig,
)
from keras_attn.tasks import TextClassifier
from keras_attn.text import WordPieceTokenizer
from keras_attn.version import __version__

BACKEND = keras.backend.backend()
KINDS = ("bag", "rnn", "transformer")


def our_config(kind, args):
    """The settings of one of our models."""
    sizes = {"vocabulary_size": args.vocabulary, "num_classes": 2, "dim": args.dim}
    sizes["word_dropout"] = 0.0
    if kind == "bag":
        return BagClassifierConfig(**sizes, pair_buckets=0)
    if kind == "rnn":
        return RecurrentClassifierConfig(**sizes, units=args.dim)
    return TransformerClassifierConfig(**sizes, num_layers=2, num_heads=4, intermediate_dim=256)


def stock_model(kind, args):
    """The same model of stock layers: masks by `mask_zero`, attention by a softmax of a Dense."""
    layers = keras.layers
    ids = keras.Input((None,), dtype="int32")
    if kind == "transformer":
        x = keras_hub.layers.TokenAndPositionEmbedding(args.vocabulary, args.length, args.dim)(ids)
        x = layers.Dropout(0.1)(x)
        for _ in range(2):
            x = keras_hub.layers.TransformerEncoder(
                256, 4, dropout=0.1, activation="gelu", normalize_first=True
            )(x, padding_mask=ops.not_equal(ids, 0))
        x = layers.LayerNormalization()(x)
    else:
        x = layers.Embedding(args.vocabulary, args.dim, mask_zero=True)(ids)
    if kind == "rnn":
        x = layers.SpatialDropout1D(0.3)(x)
        x = layers.Bidirectional(layers.LSTM(args.dim // 2, return_sequences=True))(x)
    if kind == "bag":
        weights = layers.Embedding(args.vocabulary, 1, embeddings_initializer="ones")(ids)
        x = layers.Multiply()([x, weights])
        x = layers.GlobalAveragePooling1D()(x, mask=ops.not_equal(ids, 0))
    else:
        scores = layers.Dense(1, use_bias=False)(layers.Dense(args.dim, "tanh")(x))
        weights = layers.Softmax(axis=1)(scores, mask=ops.expand_dims(ops.not_equal(ids, 0), 2))
        x = ops.sum(weights * x, axis=1)
    x = layers.Dropout(0.2)(x)
    return keras.Model(ids, layers.Dense(2)(x))


def batch(args):
    """Random ids, padded to random lengths, and labels."""
    rng = np.random.default_rng(0)
    ids = rng.integers(5, args.vocabulary, (args.batch, args.length))
    lengths = rng.integers(args.length // 2, args.length + 1, args.batch)
    ids = np.where(np.arange(args.length) < lengths[:, None], ids, 0).astype("int32")
    return ids, rng.integers(2, size=args.batch).astype("int32")


def timed(function, args):
    """Seconds of one call."""
    clock = time.process_time if args.cpu_time else time.perf_counter
    start = clock()
    function()
    return clock() - start


def compare(ours, stock, args):
    """Median seconds of both, and the sorted ratios stock / ours of the rounds."""
    for function in (ours, stock, ours, stock):
        function()
    pairs = [(timed(ours, args), timed(stock, args)) for _ in range(args.rounds)]
    first, second = (statistics.median(column) for column in zip(*pairs, strict=True))
    return first, second, sorted(b / a for a, b in pairs)


def print_row(kind, texts, found):
    ours, stock, ratios = found
    print(
        f"| {kind} | {texts / ours:,.0f} | {texts / stock:,.0f} | {statistics.median(ratios):.2f} "
        f"({ratios[0]:.2f} to {ratios[-1]:.2f}) |",
        flush=True,
    )


def training(args):
    """The table of training."""
    ids, labels = batch(args)
    print(
        f"\nTraining, texts a second: batch {args.batch} of up to {args.length} tokens, {args.dim} "
        f"wide, a vocabulary of {args.vocabulary:,}\n\n"
        "| model | keras_attn | stock | keras_attn / stock |\n|---|---|---|---|"
    )
    for kind in KINDS:
        models = (our_config(kind, args).build(), stock_model(kind, args))
        for model in models:
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            jit = args.jit if BACKEND == "tensorflow" else "auto"
            model.compile("adam", loss, jit_compile=jit)
        ours, stock = ((lambda model=model: model.train_on_batch(ids, labels)) for model in models)
        print_row(kind, args.batch, compare(ours, stock, args))


def export_stock(model, vectorize, path):
    """Exports a stock model from strings to probabilities."""
    import tensorflow as tf

    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.track(vectorize)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def serve(text):
        return {"probabilities": tf.nn.softmax(model(vectorize(text), training=False))}

    archive.add_endpoint("serve", serve)
    archive.write_out(path, verbose=False)


def serving(args):
    """The table of SavedModels."""
    import tensorflow as tf

    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdefghijkl"), rng.integers(2, 8))) for _ in range(5000)]
    texts = [" ".join(rng.choice(words, rng.integers(args.length // 2, args.length)))
             for _ in range(args.batch)]  # fmt: skip
    given = tf.constant(texts)
    tokenizer = WordPieceTokenizer.train(texts, args.vocabulary, allow_fewer=True)
    print(
        f"\nServing, texts a second: {args.batch} strings of {args.length // 2} to {args.length} "
        "words\n\n| model | keras_attn | stock | keras_attn / stock |\n|---|---|---|---|"
    )
    for kind in KINDS:
        config = our_config(kind, args)
        classifier = TextClassifier(
            tokenizer, ["no", "yes"], model=config, data={"max_length": args.length}
        )
        vectorize = keras.layers.TextVectorization(
            args.vocabulary, output_sequence_length=args.length
        )
        vectorize.adapt(texts)
        vectorize(texts)  # builds it
        stock = stock_model(kind, args)
        with tempfile.TemporaryDirectory() as folder:
            classifier.export(Path(folder) / "ours")
            export_stock(stock, vectorize, f"{folder}/stock")
            mine = tf.saved_model.load(f"{folder}/ours").signatures["serving_default"]
            theirs = tf.saved_model.load(f"{folder}/stock")
            found = compare(
                lambda mine=mine: mine(text=given)["probabilities"].numpy(),
                lambda theirs=theirs: theirs.serve(given)["probabilities"].numpy(),
                args,
            )
        print_row(kind, args.batch, found)


def main():
    """Prints the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--batch", type=int, default=64)
    add("--length", type=int, default=128, help="most tokens of a text (128)")
    add("--dim", type=int, default=128)
    add("--vocabulary", type=int, default=8000)
    add("--rounds", type=int, default=9)
    add("--only", choices=["training", "serving"])
    add("--jit", action="store_true", help="XLA on TensorFlow")
    add("--cpu-time", action="store_true")
    add("--quick", action="store_true", help="small sizes, two rounds")
    args = parser.parse_args()
    if args.quick:
        args.batch, args.length, args.dim, args.vocabulary, args.rounds = 4, 16, 16, 500, 2
    print(
        f"keras_attn {__version__}, keras {keras.__version__}, {BACKEND}, Python "
        f"{platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores, "
        f"{'processor' if args.cpu_time else 'wall'} time, {args.rounds} rounds"
    )
    if args.only in (None, "training"):
        training(args)
    if args.only in (None, "serving") and BACKEND == "tensorflow":
        serving(args)


if __name__ == "__main__":
    main()
