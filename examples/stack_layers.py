"""Stacks five layers in a Keras model of your own: build, fit, save, reload, export.

    python examples/stack_layers.py

The model learns to reverse strings of digits, a task that needs attention: the first output is
the last input. It takes some seconds on a CPU.
"""

import argparse
import tempfile
from pathlib import Path

from keras_attn_command import plain_output

plain_output()  # before anything heavy is imported

import keras
import numpy as np

import keras_attn
from keras_attn.layers import TokenEmbedding

PAD, START = 0, 1  # digits are the ids 2 ... 11
VOCABULARY = 12


def build_model() -> keras.Model:
    """Stacks the layers beside those of Keras. Masks start in the embedding and are kept."""
    source = keras.Input((None,), dtype="int32", name="source")
    target = keras.Input((None,), dtype="int32", name="target")
    embed = TokenEmbedding(VOCABULARY, 64)  # id 0 is padding
    positions = keras_attn.PositionalEncoding()

    memory = positions(embed(source))
    memory = keras_attn.TransformerEncoderBlock(num_heads=4, intermediate_dim=128)(memory)
    memory = keras_attn.MultiHeadSelfAttention(num_heads=4)(memory)

    x = positions(embed(target))
    x = keras_attn.DecoderBlock(num_heads=4, intermediate_dim=128)(x, memory)
    context = keras_attn.AdditiveAttention(units=32)(x, memory)
    x = keras.layers.Concatenate()([x, context])
    return keras.Model([source, target], keras.layers.Dense(VOCABULARY)(x))


def make_data(count: int, seed: int = 0) -> tuple[list[np.ndarray], np.ndarray]:
    """Strings of 3 to 8 digits and their reverses, padded."""
    random = np.random.default_rng(seed)
    source, target, labels = (np.full((count, 8), PAD, "int32") for _ in range(3))
    for row, length in enumerate(random.integers(3, 9, count)):
        digits = random.integers(2, VOCABULARY, length)
        source[row, :length] = digits
        labels[row, :length] = digits[::-1]
        target[row, :length] = [START, *digits[:0:-1]]
    return [source, target], labels


def main(arguments: list[str] | None = None) -> float:
    """Trains, saves, reloads and exports; returns the share of right digits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8, help="(%(default)s)")
    parser.add_argument("--examples", type=int, default=8192, help="(%(default)s)")
    parser.add_argument("--run-dir", type=Path, help="a temporary folder if not given")
    args = parser.parse_args(arguments)
    folder = args.run_dir or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(0)

    model = build_model()
    model.compile(
        keras.optimizers.Adam(2e-3),
        keras_attn.training.MaskedCrossEntropy(),  # padding does not count
        weighted_metrics=[keras_attn.metrics.MaskedAccuracy(name="accuracy")],
        jit_compile=False,  # faster on a CPU
    )
    inputs, labels = make_data(args.examples)
    test_inputs, test_labels = make_data(500, seed=1)
    model.fit(inputs, labels, batch_size=64, epochs=args.epochs, verbose=2)
    accuracy = model.evaluate(test_inputs, test_labels, verbose=0, return_dict=True)["accuracy"]
    print(f"{accuracy:.1%} of the digits of unseen strings are right")

    model.save(folder / "reverse.keras")
    reloaded = keras.saving.load_model(folder / "reverse.keras")
    expected = model.predict(test_inputs, verbose=0)
    np.testing.assert_allclose(reloaded.predict(test_inputs, verbose=0), expected, atol=1e-5)
    print(f"reloaded from {folder / 'reverse.keras'}: the same predictions")

    one = [rows[:1] for rows in test_inputs]
    for key, weights in keras_attn.attention_maps(model, one).items():
        print(f"{key.role:<6}{key.path:<45}{weights.shape}")

    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        model.export(folder / "saved_model", verbose=False)
        loaded = tf.saved_model.load(str(folder / "saved_model"))
        served = loaded.serve(test_inputs)
        np.testing.assert_allclose(served, expected, atol=1e-5)
        print(f"SavedModel in {folder / 'saved_model'}: the same predictions")
    return float(accuracy)


if __name__ == "__main__":
    main()
