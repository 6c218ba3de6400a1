"""The text classifiers: numbers, padding, the split at the embeddings, files, a toy task."""

import dataclasses
import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from model_toys import compile_for, compiled, numpy, randomize

from keras_attn import attention_maps
from keras_attn.models import (
    TEXT_CLASSIFIERS,
    BagClassifierConfig,
    BertClassifierConfig,
    ModernBertClassifierConfig,
    RecurrentClassifierConfig,
    TransformerClassifierConfig,
    classifier_kind,
    embedding_and_rest,
)

V, C = 13, 3
BASE = {"vocabulary_size": V, "num_classes": C, "dim": 8}
RECURRENT = {**BASE, "units": 6}
TRANSFORMER = {**BASE, "num_heads": 2, "intermediate_dim": 12, "num_layers": 2}
CONFIGS = {
    "bag": BagClassifierConfig(**BASE, pair_buckets=0),
    "bag, bare": BagClassifierConfig(
        **BASE, token_weights="none", combiner="sqrtn", pair_buckets=0
    ),
    "bag, pairs": BagClassifierConfig(**BASE, pair_buckets=40, pair_dim=5),
    "bag, all": BagClassifierConfig(
        **BASE, pair_buckets=40, word_dropout=0.2, hidden_dim=7, combiner="sqrtn"
    ),
    "rnn": RecurrentClassifierConfig(**RECURRENT),
    "rnn, average": RecurrentClassifierConfig(**RECURRENT, cell="gru", pooling="average"),
    "rnn, max": RecurrentClassifierConfig(**RECURRENT, num_layers=2, pooling="max"),
    "rnn, last": RecurrentClassifierConfig(**RECURRENT, pooling="last", recurrent_dropout=0.1),
    "transformer": TransformerClassifierConfig(**TRANSFORMER, attention_dropout=0.1),
    "transformer, average": TransformerClassifierConfig(
        **TRANSFORMER, pooling="average", positions="learned", sequence_length=20
    ),
    "transformer, max": TransformerClassifierConfig(
        **TRANSFORMER, pooling="max", normalize_first=False
    ),
    "transformer, first": TransformerClassifierConfig(**TRANSFORMER, pooling="first"),
    "bert": BertClassifierConfig(**TRANSFORMER, sequence_length=20),
    "bert, average": BertClassifierConfig(**TRANSFORMER, pooling="average", sequence_length=20),
}
IDS = np.array([[5, 3, 9, 3, 1, 12], [7, 7, 2, 0, 0, 0], [4, 0, 0, 0, 0, 0], [0] * 6], "int32")


def each(quick):
    """All of them; of some of a class, which share their layers with others, slowly."""
    return pytest.mark.parametrize(
        "config",
        [
            pytest.param(config, id=name, marks=() if name in quick else pytest.mark.slow)
            for name, config in CONFIGS.items()
        ],
    )


# All poolings; of the two bags those without any and with all options.
EACH = each(
    (
        "bag, bare",
        "bag, all",
        "rnn",
        "rnn, last",
        "transformer, average",
        "bert",
    )
)
ONE_A_CLASS = each(("bag, all", "rnn", "transformer, average", "bert"))


@functools.cache
def toy(config):
    """One model for all tests that leave its weights alone, and what calls it compiled."""
    model = make(config)
    return model, compiled(model)


def make(config, dtype=None):
    model = config.build(dtype)
    seeds = [w for w in model.weights if "seed" in w.path]
    kept = [numpy(w) for w in seeds]
    randomize(model)
    for weight, value in zip(seeds, kept, strict=True):
        weight.assign(value)
    return model


@pytest.mark.quick("transformer, average")
@EACH
def test_padding_changes_nothing(config):
    model, forward = toy(config)
    logits = numpy(model(IDS))
    assert logits.shape == (4, C)
    assert np.abs(logits - logits[:1]).max(1)[1:].min() > 1e-3
    padded = np.pad(IDS, [[0, 0], [0, 5]])
    np.testing.assert_allclose(numpy(model(padded)), logits, atol=1e-5)
    np.testing.assert_allclose(numpy(forward(padded)), logits, atol=1e-5)
    if config is CONFIGS["rnn"]:  # what is traced has been tried by the line above
        np.testing.assert_allclose(model.predict(padded, verbose=0), logits, atol=1e-5)
    for row in range(3):
        alone = IDS[row : row + 1, IDS[row] != 0]
        np.testing.assert_allclose(numpy(forward(alone))[0], logits[row], atol=1e-5)


@pytest.mark.slow
@EACH
def test_left_padding_and_no_token(config):
    model, forward = toy(config)
    # Positions of these count from the left.
    if TEXT_CLASSIFIERS.name_of(config) not in ("transformer", "bert"):
        left = np.array([[0, 0, 0, 5, 3, 9, 3, 1, 12]], "int32")
        np.testing.assert_allclose(numpy(forward(left))[0], numpy(forward(IDS))[0], atol=1e-5)
    head = model.get_layer("head")
    width = head.kernel.shape[0]
    if "hidden" not in [layer.name for layer in model.layers]:
        nothing = np.zeros((1, width), "float32")
        if "pooler" in [layer.name for layer in model.layers]:
            nothing = numpy(model.get_layer("pooler")(nothing))
        nothing = numpy(head(nothing))
        np.testing.assert_allclose(numpy(forward(IDS))[3:], nothing, atol=1e-6)


@pytest.mark.quick("bert")
@ONE_A_CLASS
def test_embedding_and_rest(config):
    model, _ = toy(config)
    paths = [w.path for w in model.weights]
    embed, rest = embedding_and_rest(model)
    ids = ops.convert_to_tensor(IDS)
    embedded = embed(ids)
    assert isinstance(embedded, list)
    widths = [8, config.pair_dim] if getattr(config, "pair_buckets", 0) else [8]
    assert [tuple(x.shape) for x in embedded] == [(4, 6, width) for width in widths]
    np.testing.assert_allclose(numpy(rest([*embedded, ids])), numpy(model(IDS)), atol=1e-6)
    assert [w.path for w in model.weights] == paths
    # Gradients reach the embeddings of tokens, and not those of padding.
    with tf.GradientTape() as tape:
        tape.watch(embedded)
        first = rest([*embedded, ids])[:, 0]
    gradients = tape.gradient(first, embedded)
    token = IDS != 0
    pair = token & np.pad(token[:, 1:], [[0, 0], [0, 1]])
    for gradient, there in zip(gradients, (token, pair), strict=False):
        size = np.abs(numpy(gradient)).sum(-1)
        assert np.isfinite(size).all()
        assert (size[~there] == 0).all()
        assert size[there].max() > 1e-5
    # They are the slopes of the logit (where there is no maximum with its corners).
    if "max" not in str(config):
        step = np.random.default_rng(0).normal(size=embedded[0].shape).astype("float32") * 1e-2
        up, down = (rest([embedded[0] + s * step, *embedded[1:], ids])[:, 0] for s in (1, -1))
        slope = (numpy(gradients[0]) * step).sum((1, 2))
        np.testing.assert_allclose(numpy(up - down) / 2, slope, rtol=0.02, atol=2e-4)


@pytest.mark.slow
@each(("bag, all", "rnn", "transformer, average"))
def test_files(config, tmp_path):
    model, _ = toy(config)
    embedding_and_rest(model)  # what was split is still the same model
    model.save(tmp_path / "m.keras")
    loaded = keras.models.load_model(tmp_path / "m.keras", safe_mode=True)
    np.testing.assert_allclose(numpy(loaded(IDS)), numpy(model(IDS)), atol=1e-6)
    assert classifier_kind(loaded) == classifier_kind(model) == TEXT_CLASSIFIERS.name_of(config)
    embed, rest = embedding_and_rest(loaded)
    ids = ops.convert_to_tensor(IDS)
    np.testing.assert_allclose(numpy(rest([*embed(ids), ids])), numpy(model(IDS)), atol=1e-6)
    assert type(config)(**config.to_dict()) == config
    assert TEXT_CLASSIFIERS.make(TEXT_CLASSIFIERS.describe(config)) == config


@ONE_A_CLASS
def test_dropout_is_in_training_only(config):
    model, _ = toy(config)
    still = numpy(model(IDS, training=False))
    np.testing.assert_array_equal(numpy(model(IDS, training=False)), still)
    assert np.abs(numpy(model(IDS, training=True)) - still).max() > 1e-3


def test_a_bag_by_hand():
    """Weights times embeddings, over the number of tokens; pairs likewise."""
    model, _ = toy(CONFIGS["bag, pairs"])
    value = {w.path: numpy(w).astype("float64") for w in model.weights}
    pair_ids = numpy(model.get_layer("pairs")(IDS)).astype(int)
    parts = []
    for ids, prefix in ((IDS, ""), (pair_ids, "pair_")):
        rows = value[f"{prefix}embedding/embedding/embeddings"]
        weights = np.log1p(np.exp(value[f"{prefix}weighting/table"]))
        sums = [(weights[i, None] * rows[i]).sum(0) for i in (r[r > 0] for r in ids)]
        parts.append(np.stack(sums) / np.maximum((ids > 0).sum(1), 1)[:, None])
    expected = np.concatenate(parts, 1) @ value["head/kernel"] + value["head/bias"]
    np.testing.assert_allclose(numpy(model(IDS)), expected, atol=1e-5)


def test_a_bag_knows_no_order_without_pairs():
    turned = IDS[:1, ::-1].copy()
    for name, same in (("bag", True), ("bag, pairs", False)):
        model, _ = toy(CONFIGS[name])
        difference = np.abs(numpy(model(turned)) - numpy(model(IDS[:1]))).max()
        assert (difference < 1e-5) == same


def test_unseen_pairs_say_nothing():
    model = CONFIGS["bag, pairs"].build()
    assert (numpy(model.get_layer("pair_embedding").embedding.embeddings) == 0).all()
    assert (model.get_layer("weighting").get_token_weights() - 1 < 1e-6).all()


def test_word_dropout_takes_whole_tokens():
    config = BagClassifierConfig(**BASE, word_dropout=0.5, token_weights="none", dropout=0.0)
    config = dataclasses.replace(config, pair_buckets=0)
    layer = config.build().get_layer("word_dropout")
    kept = numpy(layer(np.ones((3, 50, 8), "float32"), training=True))
    assert set(np.unique(kept)) == {0.0, 2.0}
    assert (kept == kept[..., :1]).all()
    assert 0.3 < (kept > 0).mean() < 0.7


@pytest.mark.slow
def test_weights_of_attention():
    roles = {"bag": ["weighting"], "bag, pairs": ["weighting"] * 2, "rnn": ["pooling"]}
    roles["transformer"] = ["self", "self", "pooling"]
    for name, expected in roles.items():
        maps = attention_maps(toy(CONFIGS[name])[0], IDS)
        assert [key.role for key in maps] == expected
        if expected[-1] == "pooling":
            weights = maps.select("pooling")[0]
            assert weights.shape == (4, 6)
            np.testing.assert_allclose(weights.sum(1), [1, 1, 1, 0], atol=1e-5)
            assert (weights[IDS == 0] == 0).all()


@pytest.mark.slow
def test_mixed_precision():
    for name in ("bag, pairs", "rnn", "transformer"):
        model = make(CONFIGS[name], "mixed_bfloat16")
        logits = model(IDS)
        assert keras.backend.standardize_dtype(logits.dtype) == "bfloat16"
        exact = numpy(toy(CONFIGS[name])[0](IDS))
        np.testing.assert_allclose(numpy(logits), exact, atol=0.15)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "bag, pairs",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("rnn", "transformer")),
    ],
)
def test_a_saved_model(name, tmp_path):
    model, forward = toy(CONFIGS[name])
    model.export(tmp_path / "exported", verbose=False)
    served = tf.saved_model.load(tmp_path / "exported")
    logits = served.serve(tf.constant(IDS))
    np.testing.assert_allclose(numpy(logits), numpy(forward(IDS)), atol=1e-5)


def decided(rows, length=24, seed=0):
    """The class is the one of the tokens 1 to 3 that stands somewhere in the first half."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(4, V, (rows, length)).astype("int32")
    labels = rng.integers(0, C, rows)
    ids[np.arange(rows), rng.integers(0, length // 2, rows)] = labels + 1
    lengths = rng.integers(length // 2, length + 1, rows)
    return np.where(np.arange(length) < lengths[:, None], ids, 0), labels


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["bag", "rnn", pytest.param("transformer", marks=pytest.mark.slow)]
)
def test_a_token_far_from_the_end_decides(kind, tmp_path):
    """Fits in seconds, and finds the token."""
    config = {
        "bag": BagClassifierConfig(V, C, dim=16, pair_buckets=500, dropout=0.0),
        "rnn": RecurrentClassifierConfig(V, C, dim=16, units=16, dropout=0.0),
        "transformer": TransformerClassifierConfig(
            V, C, dim=16, num_layers=1, num_heads=2, intermediate_dim=32, dropout=0.0
        ),
    }[kind]
    model = config.build()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    compile_for(model, keras.optimizers.Adam(0.02), loss)
    model.fit(*decided(512), batch_size=32, epochs=6, verbose=0)
    ids, labels = decided(256, seed=1)
    logits = numpy(model(ids))
    assert (logits.argmax(1) == labels).mean() > 0.97
    model.save(tmp_path / "m.keras")
    loaded = keras.models.load_model(tmp_path / "m.keras", safe_mode=True)
    np.testing.assert_allclose(numpy(loaded(ids)), logits, atol=1e-5)
    # Gradient x input is largest there.
    embed, rest = embedding_and_rest(loaded)
    tensor = ops.convert_to_tensor(ids)
    embedded = embed(tensor)
    with tf.GradientTape() as tape:
        tape.watch(embedded)
        logits = tf.gather(rest([*embedded, tensor]), labels, axis=1, batch_dims=1)
    share = np.abs(numpy(tape.gradient(logits, embedded)[0] * embedded[0]).sum(-1))
    decides = (ids > 0) & (ids <= C)
    assert decides.sum() == len(ids)
    assert share[decides].mean() > 3 * share[(ids > 0) & ~decides].mean()


@pytest.mark.slow
def test_a_modern_bert_without_pooler():
    config = ModernBertClassifierConfig(**TRANSFORMER, pooler_activation=None, pooling="average")
    model = make(config)
    layers = {layer.name: layer for layer in model.layers}
    assert not {"pooler", "pooler_norm"} & layers.keys()
    (states,) = numpy(keras.Model(model.input, layers["encoder"].output)(IDS[:1]))
    kernel, bias = (numpy(weight) for weight in layers["head"].weights)
    logits = states.mean(axis=0) @ kernel + bias
    np.testing.assert_allclose(numpy(model(IDS[:1]))[0], logits, atol=1e-5)


def test_errors():
    for config, message in (
        (lambda: BagClassifierConfig(V, 0), "num_classes"),
        (lambda: BagClassifierConfig(V, C, pair_buckets=1), "pair_buckets"),
        (lambda: BagClassifierConfig(V, C, combiner="sum"), "combiner"),
        (lambda: BagClassifierConfig(V, C, word_dropout=1.0), "word_dropout"),
        (lambda: RecurrentClassifierConfig(V, C, units=5), "even"),
        (lambda: RecurrentClassifierConfig(V, C, cell="rnn"), "cell"),
        (lambda: RecurrentClassifierConfig(V, C, pooling="first"), "pooling"),
        (
            lambda: RecurrentClassifierConfig(V, C, pooling="max", attention_units=3),
            "is only used with",
        ),
        (lambda: TransformerClassifierConfig(V, C, pooling="last"), "pooling"),
        (lambda: TransformerClassifierConfig(V, C, dim=10), "divisible"),
        (lambda: TransformerClassifierConfig(V, C, sequence_length=10), "is only used with"),
    ):
        with pytest.raises(ValueError, match=rf"{message}.*Received"):
            config()
    with pytest.raises(TypeError, match=r"BagClassifierConfig.*Received: dict"):
        TEXT_CLASSIFIERS.name_of({})
    other = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="head")])
    for call, expected in (
        (classifier_kind, "Expected a text classifier"),
        (embedding_and_rest, "Expected a functional model with a layer that makes vectors"),
    ):
        with pytest.raises(TypeError, match=expected):
            call(other)
