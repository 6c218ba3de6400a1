"""Models of questions about pictures: equations by hand, padding, and several questions."""

import math

import keras
import numpy as np
import pytest

from keras_attn import attention_maps
from keras_attn.layers import DecoderBlock
from keras_attn.models import VISUAL_QUESTION_MODELS, picture_questions, small_cnn_encoder
from keras_attn.models.question_rows import QuestionBlock, QuestionRows

SIZES = {"vocabulary_size": 12, "num_classes": 5, "region_dim": 6, "grid": (2, 3)}
SMALL = {"dim": 8, "num_heads": 2, "dropout": 0.0}
IDS = np.array([[[5, 6, 7], [8, 0, 0]], [[9, 3, 4], [0, 0, 0]]], "int32")
REGIONS = np.random.default_rng(0).normal(size=(2, 6, 6)).astype("float32")
_erf = np.vectorize(math.erf)


def make(kind="cross-attention", **settings):
    """A model whose weights are not flat."""
    config = VISUAL_QUESTION_MODELS.make({"model": kind, **SMALL, **settings}, **SIZES)
    model = config.build()
    rng = np.random.default_rng(1)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(scale=0.5, size=weight.shape))
    return model


def call(model, regions=REGIONS, ids=IDS):
    inputs = {"regions": regions, "question_ids": ids}
    return keras.ops.convert_to_numpy(model(inputs, training=False))


def part(model, name):
    """What a layer gives."""
    inner = keras.Model(model.input, model.get_layer(name).output)
    return np.asarray(call(inner), "float64")


def norm(layer, x):
    gamma, beta = (np.asarray(w, "float64") for w in (layer.gamma, layer.beta))
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + layer.epsilon) * gamma + beta


def dense(layer, x):
    return x @ np.asarray(layer.kernel, "float64") + np.asarray(layer.bias, "float64")


def attend(query, key, value, heads=2):
    """The weights and the result of attention, a head at a time."""
    found, width = [], query.shape[1] // heads
    for h in range(heads):
        q, k, v = (x[:, h * width : (h + 1) * width] for x in (query, key, value))
        scores = q @ k.T / np.sqrt(width)
        powers = np.exp(scores - scores.max(1, keepdims=True))
        weights = powers / powers.sum(1, keepdims=True)
        found.append((weights, weights @ v))
    return np.stack([w for w, _ in found]), np.concatenate([x for _, x in found], axis=1)


@pytest.mark.parametrize("question", ["transformer", pytest.param("rnn", marks=pytest.mark.slow)])
def test_the_equations(question):
    """From the words and the memory to the logits, a question at a time, in float64."""
    model = make(question_encoder=question, pooling="average", num_layers=1)
    words = part(model, "picture_words").reshape(2, 2, 3, 8)
    memory, block = part(model, "region_dropout"), model.get_layer("block_0")
    (maps,) = attention_maps(model, {"regions": REGIONS, "question_ids": IDS}).select(
        "cross", "block_0"
    )
    logits = call(model)
    for b, q, length in [(0, 0, 3), (0, 1, 1), (1, 0, 3)]:
        x = words[b, q, :length]
        own = block.self_attention
        h = norm(block.self_attention_norm, x)
        product = dense(own.qkv_dense, h) if hasattr(own, "qkv_dense") else None
        parts = np.split(product, 3, axis=1)
        x = x + dense(own.output_dense, attend(*parts)[1])
        across = block.cross_attention
        h = dense(across.query_dense, norm(block.cross_attention_norm, x))
        keys, values = (dense(d, memory[b]) for d in (across.key_dense, across.value_dense))
        weights, found = attend(h, keys, values)
        np.testing.assert_allclose(maps[b, :, 3 * q : 3 * q + length], weights, atol=2e-6)
        x = x + dense(across.output_dense, found)
        network = block.feed_forward
        h = dense(network.hidden_dense, norm(block.feed_forward_norm, x))
        x = x + dense(network.output_dense, h * 0.5 * (1 + _erf(h / np.sqrt(2))))
        pooled = norm(model.get_layer("norm"), x).mean(0)
        np.testing.assert_allclose(logits[b, q], dense(model.get_layer("head"), pooled), atol=1e-5)


def test_the_concatenation_by_hand():
    model = make("concatenation", units=7)
    words = part(model, "pooling").reshape(2, 2, 8)
    seen = dense(model.get_layer("picture_units"), REGIONS.reshape(2, -1).astype("float64"))
    asked = words @ np.asarray(model.get_layer("question_units").kernel, "float64")
    x = np.maximum(seen[:, None] + asked, 0)
    x = np.maximum(dense(model.get_layer("hidden"), x), 0)
    np.testing.assert_allclose(call(model), dense(model.get_layer("head"), x), atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "question"),
    [
        ("cross-attention", "transformer"),
        pytest.param("cross-attention", "rnn", marks=pytest.mark.slow),
        pytest.param("concatenation", "rnn", marks=pytest.mark.slow),
    ],
)
def test_questions_and_padding_change_nothing(kind, question):
    """Each question alone, without padding, has the answer that it has among others."""
    model = make(
        kind, question_encoder=question, **({"region_layers": 1} if kind[1] == "r" else {})
    )
    together = call(model)
    for b, q, length in [(0, 0, 3), (0, 1, 1), (1, 0, 3)]:
        alone = call(model, REGIONS[b : b + 1], IDS[b : b + 1, q : q + 1, :length])
        np.testing.assert_allclose(together[b, q], alone[0, 0], rtol=1e-5, atol=1e-5)
    assert np.isfinite(together).all()
    longer = np.pad(IDS, [(0, 0), (0, 1), (0, 2)])
    np.testing.assert_allclose(call(model, ids=longer)[:, :2], together, rtol=1e-5, atol=1e-5)
    other = IDS.copy()
    other[0, 1, 0] = 3
    assert np.abs(call(model, ids=other) - together)[0, 1].max() > 1e-3
    assert np.abs(call(model, REGIONS[::-1]) - together)[0, 0].max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("positions", ["sinusoidal", "none"])
def test_positions_of_regions(positions):
    model = make(region_positions=positions)
    mixed = call(model, REGIONS[:, ::-1])
    assert np.allclose(mixed, call(model), atol=1e-5) == (positions == "none")


@pytest.mark.slow
def test_joined_and_saved(tmp_path):
    encoder = small_cnn_encoder((4, 6), filters=(6,))
    joined = picture_questions(encoder, make())
    images = np.random.default_rng(2).integers(0, 256, (2, 9, 9, 3)).astype("float32")
    inputs = {"images": images, "question_ids": IDS}
    regions = keras.ops.convert_to_numpy(encoder(images))
    expected = call(joined.get_layer("visual_questions"), regions)
    np.testing.assert_allclose(joined(inputs, training=False), expected, atol=1e-5)
    joined.save(tmp_path / "m.keras")
    loaded = keras.models.load_model(tmp_path / "m.keras")
    np.testing.assert_allclose(loaded(inputs, training=False), expected, atol=1e-5)


def test_rows():
    words = keras.ops.reshape(keras.ops.arange(36, dtype="float32"), (2, 3, 2, 3))
    ids = keras.ops.ones((2, 3, 2), "int32")
    flat = keras.ops.reshape(words, (6, 2, 3))
    assert np.array_equal(QuestionRows("pictures")(flat, ids)[1], np.arange(18, 36).reshape(6, 3))
    assert tuple(QuestionRows("answers")(flat[:, 0], ids).shape) == (2, 3, 3)
    with pytest.raises(ValueError, match="`form` must be one of"):
        QuestionRows("columns")


def test_a_block_is_a_decoder_block_with_a_mask_between_questions():
    """With its weights, for the words of all questions in one row."""
    block = QuestionBlock(2, intermediate_dim=16, attention_dropout=0.1, normalize_first=True)
    words = np.random.default_rng(3).normal(size=(2, 6, 8)).astype("float32")
    found = block(words, REGIONS, IDS)
    assert isinstance(block, DecoderBlock) and "attention_dropout" in block.get_config()
    plain = DecoderBlock(2, intermediate_dim=16, normalize_first=True)
    plain(words, REGIONS)
    plain.set_weights(block.get_weights())
    expected = plain(
        words,
        REGIONS,
        padding_mask=(IDS != 0).reshape(2, 6),
        attention_mask=np.kron(np.eye(2), np.ones((3, 3)))[None].repeat(2, 0).astype(bool),
        use_causal_mask=False,
    )
    real = (IDS != 0).reshape(2, 6)
    found, expected = (keras.ops.convert_to_numpy(x)[real] for x in (found, expected))
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_wrong_settings():
    for settings, message in [
        ({"dim": 9}, "even and divisible"),
        ({"num_heads": 3}, "even and divisible"),
        ({"question_encoder": "bag"}, "`question_encoder`"),
        ({"num_layers": 0}, "`num_layers`"),
        ({"region_positions": "polar"}, "`region_positions`"),
    ]:
        with pytest.raises(ValueError, match=message):
            VISUAL_QUESTION_MODELS.make({**SMALL, **settings}, **SIZES)
    with pytest.raises(ValueError, match="Expected the `grid`"):
        VISUAL_QUESTION_MODELS.make(SMALL, **{**SIZES, "grid": None}).build()
    with pytest.raises(ValueError, match=r"`grid` must be \(rows, columns\)"):
        VISUAL_QUESTION_MODELS.make(SMALL, **{**SIZES, "grid": (0, 3)})
