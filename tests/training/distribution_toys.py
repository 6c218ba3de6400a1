"""A small model and uneven batches, for the scripts that train on several devices."""

import csv

import keras
import numpy as np

from keras_attn.batches import EpochOrder, TokenBatches
from keras_attn.cli import main
from keras_attn.layers import DecoderBlock, MultiHeadAttention, TokenEmbedding
from keras_attn.metrics import Perplexity
from keras_attn.tasks.base.compiling import make_adam
from keras_attn.training import MaskedCrossEntropy, num_data_shards, seed_everything
from keras_attn.training.distribution import whole_value


def make_batches(**settings):
    """22 pairs of 1 to 8 tokens, in 4 batches of 6 at most: no multiple of 4."""
    rng = np.random.default_rng(0)
    sources = [rng.integers(3, 24, n).tolist() for n in rng.integers(1, 8, 22)]
    return TokenBatches(
        sources,
        [row[::-1] for row in sources],
        start_id=1,
        end_id=2,
        tokens_per_batch=48,
        **{"max_shapes": 1, "rows_multiple_of": num_data_shards(), **settings},
    )


def tiny_model():
    """On JAX a block; on TensorFlow, which takes longer to make graphs, an attention.

    Without biases: the gradient of those of keys is 0, and Adam would make steps of rounding.
    """
    source = keras.Input((None,), dtype="int32", name="source_ids")
    target = keras.Input((None,), dtype="int32", name="target_ids")
    embed = TokenEmbedding(24, 16)
    if keras.backend.backend() == "jax":
        y = DecoderBlock(4, intermediate_dim=32, use_bias=False)(embed(target), embed(source))
    else:
        y = MultiHeadAttention(4, use_bias=False)(embed(target), embed(source))
    return keras.Model({"source_ids": source, "target_ids": target}, embed(y, reverse=True))


def compiled(wrap=None, **settings):
    """The model, and what trains it: itself, or what `wrap` makes of it."""
    seed_everything(3, deterministic=False)
    model = tiny_model()
    training = model if wrap is None else wrap(model)
    policy = keras.DTypePolicy("float32")
    training.compile(
        make_adam(0.01, policy, **{"clip_norm": 0.1, "ema_momentum": 0.5, **settings}),
        MaskedCrossEntropy(0.1),
        weighted_metrics=[Perplexity()] if wrap is None else None,
        jit_compile=keras.backend.backend() == "jax",
    )
    return model, training


def fitted(batches=None, **settings):
    """A trained model, and its history."""
    model, training = compiled(**settings)
    batches = make_batches() if batches is None else batches
    settings = {"epochs": 2, "shuffle": False, "verbose": 0, "callbacks": [EpochOrder(batches)]}
    return model, training.fit(batches, **settings).history


def values(model):
    return [whole_value(v) for v in model.trainable_variables]


def difference(one, other):
    """Greatest difference of weights, as a share of the greatest change that training made."""
    seed_everything(3, deterministic=False)
    begun = values(tiny_model())
    change = max(np.abs(a - b).max() for a, b in zip(one, begun, strict=True))
    return float(max(np.abs(a - b).max() for a, b in zip(one, other, strict=True)) / change)


def message(function):
    """Of the error that a function raises."""
    try:
        function()
    except (ValueError, RuntimeError) as error:
        return str(error)
    return ""


class After(keras.callbacks.Callback):
    """Ends the training after some batches, as a signal does."""

    def __init__(self, batches, checkpoint):
        super().__init__()
        self.left, self.checkpoint = batches, checkpoint

    def on_train_batch_end(self, batch, logs=None):
        self.left -= 1
        if not self.left:
            self.checkpoint._agreed = (0, 0, 0.0)  # the processes ask each other at once
            self.checkpoint._interrupt(15)


def commanded(folder, devices):
    """Exit code of `keras-attn text-classification fit`, and its log losses of the dev texts."""
    data, run = f"{folder}/texts.csv", f"{folder}/run-{devices}"
    with open(data, "w", encoding="utf-8") as file:
        file.write("text,label\n")
        for n in range(60):
            word, label = (("dull", "no"), ("great", "yes"))[n % 2]
            file.write(f"film {n} of {n % 11} was {word},{label}\n")
    settings = {
        "train": data, "dev": data, "run-dir": run, "device": "cpu", "devices": devices,
        "epochs": 2, "batch-size": 7, "vocabulary-size": 80, "dim": 8, "pair-buckets": 20,
        "dropout": 0, "word-dropout": 0, "learning-rate": 0.03,
    }  # fmt: skip
    try:
        arguments = [f"--{name}={value}" for name, value in settings.items()]
        main(["text-classification", "fit", *arguments])
    except SystemExit as ended:
        code = ended.code
    with open(f"{run}/log.csv", encoding="utf-8", newline="") as file:
        return code, [float(row["val_log_loss"]) for row in csv.DictReader(file)]
