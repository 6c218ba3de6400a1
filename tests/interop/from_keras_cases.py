"""Layers and models of Keras and KerasHub beside ours; run as a script on the backend it finds.

KERAS_BACKEND=jax python tests/interop/from_keras_cases.py
"""

import os
import tempfile

import keras
import keras_hub
import numpy as np
from keras import layers, ops

import keras_attn

L2, NON_NEGATIVE = keras.regularizers.L2(0.1), keras.constraints.NonNeg()
RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.normal(size=shape).astype("float32")


X, Y, KEY = normal(2, 5, 8), normal(2, 7, 6), normal(2, 7, 3)
PADDING = np.arange(7) < np.array([[7], [4]])
SOME = (RNG.random((2, 5, 7)) > 0.4) | (np.arange(7) == 0)
BLOCK = {"intermediate_dim": 12, "num_heads": 2}
HEADS = {
    "value_dim": 3, "output_shape": 5, "kernel_regularizer": L2, "bias_regularizer": "l1",
    "kernel_constraint": NON_NEGATIVE, "seed": 3,
    "dropout": 0.1,  # without, Keras fails on JAX if `value_dim` differs from `key_dim`
}  # fmt: skip


def heads(**settings):
    return layers.MultiHeadAttention(2, 4, **settings)


def hub(kind, **settings):
    return getattr(keras_hub.layers, kind)(**BLOCK, **settings)


# How to make the layer, its inputs, and masks by the names of Keras and by ours.
MASKS = {"value_mask": PADDING, "attention_mask": SOME}
CAUSAL = {"use_causal_mask": True}
SELF = SOME[:, :, :5]
CASES = {
    "heads": (lambda: heads(**HEADS), (X, Y, KEY), MASKS, MASKS),
    "causal": (lambda: heads(use_bias=False, dropout=0.1), (X, X), CAUSAL, CAUSAL),
    "grouped": (lambda: layers.GroupQueryAttention(4, 4, 2), (X, Y), MASKS, MASKS),
    "dot": (
        layers.Attention, ([Y[:, :5], Y],), {"mask": [None, ops.array(PADDING)]},
        {"value_mask": PADDING},
    ),
    "scaled": (lambda: layers.Attention(use_scale=True), ([X, X, X],), {}, {}),
    "additive": (layers.AdditiveAttention, ([Y[:, :5], Y],), {}, {}),
    "encoder": (
        lambda: hub("TransformerEncoder", activation="gelu", layer_norm_epsilon=1e-3), (X,),
        {"padding_mask": PADDING[:, 2:], "attention_mask": SELF},
        {"padding_mask": PADDING[:, 2:], "attention_mask": SELF},
    ),
    "decoder": (
        lambda: hub("TransformerDecoder", normalize_first=True), (X, Y),
        {
            "decoder_padding_mask": PADDING[:, 2:], "encoder_padding_mask": PADDING,
            "encoder_attention_mask": SOME,
        },
        {"padding_mask": PADDING[:, 2:], "memory_mask": PADDING, "cross_attention_mask": SOME},
    ),
    "decoder_alone": (lambda: hub("TransformerDecoder"), (X,), {}, {}),
}  # fmt: skip


def randomize(layer):
    for weight in layer.weights:
        weight.assign(0.5 * RNG.normal(size=weight.shape))


def close(actual, expected, atol=1e-5):
    actual, expected = (ops.convert_to_numpy(x) for x in (actual, expected))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=atol)


def check_layer(name):
    """Outputs with masks and without, losses, and the result reloaded."""
    make, inputs, theirs, ours = CASES[name]
    layer = make()
    expected = layer(*inputs)
    randomize(layer)
    made = keras_attn.from_keras(layer)
    flat = inputs[0] if isinstance(inputs[0], list) else inputs
    given = (inputs, flat)
    for masks in ((theirs, ours), ({}, {})):
        expected, actual = layer(*given[0], **masks[0]), made(*given[1], **masks[1])
        rows = PADDING[:, 2:] if "padding_mask" in masks[1] else np.ones((2, 5), bool)
        close(ops.convert_to_numpy(actual)[rows], ops.convert_to_numpy(expected)[rows])
    close(sum(made.losses, 0.0), sum(layer.losses, 0.0), 1e-4)
    again = type(made).from_config(made.get_config())
    again.build(*[x.shape for x in flat])
    again.set_weights(made.get_weights())
    close(again(*flat), actual)
    assert made.name == layer.name and made.dtype_policy == layer.dtype_policy


def model():
    """A classifier with every kind of layer, one of them shared, in a nested model and not."""
    ids, memory = (
        keras.Input((None,), dtype="int32", name="ids"),
        keras.Input((7, 6), name="memory"),
    )
    x = layers.Embedding(20, 8)(ids)
    x = hub("TransformerEncoder", name="encoder")(x)
    shared = heads(name="shared")
    x = layers.LayerNormalization()(layers.Add()([x, shared(x, value=memory)]))
    x = layers.Add()([x, shared(x, memory)])
    q, v = keras.Input((None, 8)), keras.Input((None, 8))
    inner = keras.Model([q, v], layers.AdditiveAttention(name="additive")([q, v]), name="inner")
    x = layers.Add()([x, inner([x, x])])
    x = layers.Add()([x, layers.Attention(use_scale=True, name="scaled")([x, x])])
    x = hub("TransformerDecoder", name="decoder")(x, memory)
    x = layers.Dense(3)(layers.GlobalAveragePooling1D()(x))
    return keras.Model({"ids": ids, "memory": memory}, x, name="classifier")


def check_model():
    """Outputs, the gradients of all weights by a step of training, and the result reloaded."""
    keras.utils.set_random_seed(0)
    theirs = model()
    theirs.get_layer("encoder").trainable = False
    theirs.compile(keras.optimizers.SGD(0.5), "mse")
    ours = keras_attn.from_keras(theirs)
    kinds = {layer.name: type(layer).__module__.partition(".")[0] for layer in ours.layers}
    kinds["additive"] = type(ours.get_layer("inner").get_layer("additive")).__module__.partition(
        "."
    )[0]
    names = ("encoder", "shared", "scaled", "decoder", "additive")
    assert {kinds[name] for name in names} == {"keras_attn"}
    batch = {"ids": RNG.integers(0, 20, (4, 5)).astype("int32"), "memory": normal(4, 7, 6)}
    close(ours(batch), theirs(batch))
    before = theirs.get_weights()
    assert len(ours.trainable_weights) < len(ours.weights)
    for each in (ours, theirs):
        each.compile(keras.optimizers.SGD(0.1), "mse")
        each.train_on_batch(batch, np.ones((4, 3), "float32"))
    assert any(
        np.abs(a - b).max() > 1e-3 for a, b in zip(before, theirs.get_weights(), strict=True)
    )
    for a, b in zip(ours.weights, keras_attn.from_keras(theirs).weights, strict=True):
        close(a, b)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.keras")
        ours.save(path)
        close(keras.models.load_model(path)(batch), ours(batch), 1e-6)


if __name__ == "__main__":
    for case in CASES:
        check_layer(case)
    check_model()
    print("equal on", keras.backend.backend())
