"""What classifiers looked at: which have attention, what is refused, gradients of all kinds."""

import functools

import keras
import numpy as np
import pytest
from keras import ops
from model_toys import numpy, randomize

from keras_attn import collect_attention
from keras_attn.explain.attributions import (
    GradientPath,
    attention_function,
    encoder_gradient_function,
    gradient_function,
    has_attention,
    log_odds,
    pair_gradient_function,
    split_pairs_evenly,
)
from keras_attn.layers import MultiHeadSelfAttention
from keras_attn.layers.collect import traced_attention
from keras_attn.models import (
    BagClassifierConfig,
    BertConfig,
    EntailmentConfig,
    RecurrentClassifierConfig,
    TransformerClassifierConfig,
    with_heads,
)
from keras_attn.models.text_classifier import embedding_and_rest

BASE = {"vocabulary_size": 13, "num_classes": 3, "dim": 8}
RECURRENT = {**BASE, "units": 6}
TRANSFORMER = {**BASE, "num_heads": 2, "intermediate_dim": 12, "num_layers": 1}
CONFIGS = {
    "bag": (BagClassifierConfig(**BASE, pair_buckets=40), True),
    "bag, bare": (
        BagClassifierConfig(**BASE, token_weights="none", hidden_dim=5, pair_buckets=0),
        False,
    ),
    "rnn": (RecurrentClassifierConfig(**RECURRENT), True),
    "rnn, last": (RecurrentClassifierConfig(**RECURRENT, pooling="last"), False),
    "rnn, max": (RecurrentClassifierConfig(**RECURRENT, cell="gru", pooling="max"), False),
    "transformer": (TransformerClassifierConfig(**TRANSFORMER), True),
    "transformer, first": (TransformerClassifierConfig(**TRANSFORMER, pooling="first"), False),
}
IDS = np.array([[5, 3, 9, 3, 1, 12], [7, 7, 2, 0, 0, 0], [4, 0, 0, 0, 0, 0], [0] * 6], "int32")
TOKEN = IDS != 0
EACH = pytest.mark.parametrize("name", CONFIGS)
QUICK = ("bag", "transformer, first")


@functools.cache
def make(name, dtype=None):
    """Shared: a test that changes weights gives them back."""
    model = CONFIGS[name][0].build(dtype)
    randomize(model)
    return model


@pytest.mark.quick("transformer, first")
@EACH
def test_attention_where_there_is_some(name):
    model = make(name)
    assert has_attention(model) == CONFIGS[name][1]
    if not has_attention(model):
        with pytest.raises(ValueError, match=r"pools tokens without weights.*gradients"):
            attention_function(model)
        return
    look = attention_function(model)
    logits, weights = map(numpy, look(IDS))
    np.testing.assert_allclose(logits, numpy(model(IDS)), atol=1e-6)
    assert weights.min() >= 0
    assert not weights[~TOKEN].any()
    np.testing.assert_allclose(weights.sum(1), [1, 1, 1, 0], atol=1e-6)
    wide = np.pad(IDS, [[0, 0], [0, 3]])
    np.testing.assert_allclose(numpy(look(wide)[1])[:, :6], weights, atol=1e-6)
    # A collector of the user's sees nothing of it.
    with collect_attention() as maps:
        look(IDS)
    assert not maps


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in CONFIGS]
)
def test_gradients(name):
    model = make(name)
    ask = gradient_function(model)
    several = gradient_function(model, multi_label=True)
    best = numpy(model(IDS)).argmax(1)
    of_class = []
    for c in range(3):
        logits, weights = map(numpy, ask(IDS, np.full(4, c, "int32")))
        np.testing.assert_allclose(logits, numpy(model(IDS)), atol=1e-6)
        assert np.isfinite(weights).all()
        assert not weights[~TOKEN].any()
        assert np.abs(weights[0]).max() > 1e-4
        of_class.append(weights)
        again = numpy(ask(np.pad(IDS, [[0, 0], [0, 3]]), np.full(4, c, "int32"))[1])
        np.testing.assert_allclose(again[:, :6], weights, atol=1e-5)
    of_logit = np.array([numpy(several(IDS, np.full(4, c, "int32"))[1]) for c in range(3)])
    # The slope of log p / (1 - p) is that of a logit and those of the others, by their share.
    logits = numpy(model(IDS)).astype("float64")
    for c in range(3):
        others = np.exp(logits)
        others[:, c] = 0
        others /= others.sum(1, keepdims=True)
        expected = of_logit[c] - np.einsum("bk,kbs->bs", others, of_logit)
        np.testing.assert_allclose(of_class[c], expected, atol=1e-5)
    # A number below 0 asks for the most probable one, and rows may ask for different ones.
    chosen = numpy(ask(IDS, np.full(4, -1, "int32"))[1])
    np.testing.assert_allclose(chosen, np.array(of_class)[best, np.arange(4)], atol=1e-6)
    mixed = numpy(ask(IDS, np.array([2, 0, 1, -1], "int32"))[1])
    np.testing.assert_allclose(mixed[:3], np.array(of_class)[[2, 0, 1], range(3)], atol=1e-6)


def compiled(function):
    """As tasks call it; TensorFlow takes long over each step of a loop otherwise."""
    import tensorflow as tf

    return tf.function(function, autograph=False)


PATH = GradientPath(12, (0, 1))  # 1 is a special token, which is in a text and in its blank text


@pytest.mark.quick("transformer, first")
@EACH
def test_integrated_gradients_sum_to_the_difference(name):
    """From the blank text to the text, pairs of tokens included."""
    model, chosen = make(name), np.array([2, 0, 1, -1], "int32")
    best = numpy(model(IDS)).argmax(1)
    classes = np.where(chosen < 0, best, chosen)
    logits, weights = map(numpy, compiled(gradient_function(model, path=PATH))(IDS, chosen))
    np.testing.assert_allclose(logits, numpy(model(IDS)), atol=1e-6)
    blank = np.where(IDS > 1, 12, IDS)
    np.testing.assert_array_equal(numpy(PATH.blank(ops.convert_to_tensor(IDS))), blank)
    assert not weights[~TOKEN].any()
    embed, rest = embedding_and_rest(model)  # a bag weighs its tokens by the ids of the text
    of_blank = rest([*embed(ops.convert_to_tensor(blank)), ops.convert_to_tensor(IDS)])
    gained = numpy(log_odds(logits, classes)) - numpy(log_odds(of_blank, classes))
    assert np.abs(gained).max() > 0.05
    errors = np.abs(weights.sum(1) - gained)
    assert (errors <= 0.02 * np.abs(weights).sum(1) + 1e-4).all()
    if name != "bag":  # where the pair of a special token and a word changes
        assert weights[0, 4] == 0
    # Other texts of a batch change nothing, although they may need more points.
    ask = compiled(gradient_function(model, path=PATH))
    alone = np.concatenate([numpy(ask(IDS[i : i + 1], chosen[i : i + 1])[1]) for i in range(4)])
    np.testing.assert_allclose(alone, weights, atol=1e-5)


def test_integrated_gradients_by_hand():
    """Of a model that is linear in its embeddings, where all points have the same gradient, and of
    a square, whose gradient at half of the way is the mean."""
    config = BagClassifierConfig(13, 2, dim=8, token_weights="none", pair_buckets=0)
    model, classes = randomize(config.build()), np.array([0, 1, -1, 0], "int32")
    weights = numpy(gradient_function(model, path=PATH)(IDS, classes)[1])
    table, kernel = (numpy(model.get_layer(x).weights[0]) for x in ("embedding", "head"))
    classes[2] = numpy(model(IDS))[2].argmax()
    ways = (table[IDS] - table[np.where(IDS > 1, 12, IDS)]) @ (kernel[:, 0] - kernel[:, 1])
    counts = np.maximum(TOKEN.sum(1, keepdims=True), 1)
    expected = ways / counts * np.where(classes == 0, 1, -1)[:, None]
    np.testing.assert_allclose(weights, expected, atol=1e-6)

    class Square(keras.layers.Layer):
        def call(self, x):
            return ops.square(x)

    ids = keras.Input((None,), dtype="int32")
    embedded = keras.layers.Embedding(13, 4)(ids)
    pooled = keras.layers.GlobalAveragePooling1D()(Square()(embedded))
    model = keras.Model(ids, keras.layers.Dense(2)(pooled))
    table, kernel, bias = model.weights
    table.assign(numpy(table) * (np.arange(13) != 12)[:, None])  # the blank text has zero vectors
    squares = numpy(table)[IDS] ** 2
    # The first class is the more probable one at the texts, and the second one near zero.
    kernel.assign(np.abs(numpy(kernel)) * [1, -1])
    slope = numpy(kernel)[:, 0] - numpy(kernel)[:, 1]
    bias.assign([0.0, 0.9 * (squares.mean(1) @ slope).min()])
    assert set(numpy(model(IDS)).argmax(1)) == {0}
    path = GradientPath(12, ())
    weights = numpy(gradient_function(model, path=path)(IDS, np.full(4, -1, "int32"))[1])
    np.testing.assert_allclose(weights, squares @ slope / IDS.shape[1], atol=1e-6)


def test_more_points_where_a_sum_is_wrong():
    """Of a step between two of the 32 points: its height is found by 96 or 288 points. A text whose
    sum is right has 32 points, also beside another text."""

    class Step(keras.layers.Layer):
        def call(self, x):
            return ops.sigmoid(600 * (x[..., :1] - 0.5)) + x[..., 1:]

    ids = keras.Input((None,), dtype="int32")
    vectors = keras.layers.Embedding(4, 2, name="embedding")(ids)
    pooled = keras.layers.GlobalMaxPooling1D()(Step()(vectors))
    model = keras.Model(ids, keras.layers.Dense(1)(pooled))
    table, kernel, _ = model.weights
    table.assign([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 0.5]])
    kernel.assign([[3.0]])
    asked = np.array([[2], [3]], "int32")
    ask = gradient_function(model, True, path=GradientPath(0, ()))
    weights = numpy(ask(asked, np.zeros(2, "int32"))[1])
    assert weights[0, 0] == pytest.approx(3.0, abs=0.06)
    assert weights[1, 0] == pytest.approx(1.5, abs=1e-5)
    points = (np.arange(32) + 0.5) / 32
    coarse = np.exp(-np.abs(600 * (points - 0.5)))
    coarse = 3 * 600 * (coarse / (1 + coarse) ** 2).mean()
    assert abs(coarse - 3.0) > 0.5  # 32 points are not enough


@pytest.mark.slow
def test_integrated_gradients_of_encoders_and_pairs():
    config = BertConfig(20, dim=8, num_layers=1, num_heads=2, intermediate_dim=8)
    model = randomize(with_heads(config, ("masked_words",)))
    ids = ops.convert_to_tensor(np.array([[2, 9, 4, 3, 0]], "int32"))
    inputs = {"token_ids": ids, "segment_ids": ids * 0, "padding_mask": ids != 0}
    inputs = {**inputs, "masked_positions": ops.convert_to_tensor(np.array([[2]], "int32"))}
    inputs = {name: inputs[name] for name in model.input}

    def pick(logits, index):
        return logits["masked_words"][:, 0, 7]

    path = GradientPath(5, (0, 2, 3))
    logits, weights = compiled(encoder_gradient_function(model, pick, path))(inputs)
    weights = numpy(weights)
    assert not weights[0, [0, 3, 4]].any()
    blank = {**inputs, "token_ids": ops.convert_to_tensor(np.array([[2, 5, 5, 3, 0]], "int32"))}
    gained = numpy(pick(logits, None)) - numpy(pick(model(blank), None))
    assert abs(gained[0]) > 0.01
    assert np.abs(weights.sum(1) - gained) <= 0.02 * np.abs(weights).sum()

    model = randomize(EntailmentConfig(13, 3, dim=8, units=6).build())
    ids = {"premise_ids": IDS[:3], "hypothesis_ids": IDS[[1, 0, 0]]}
    blank = {name: ops.convert_to_tensor(np.where(x > 0, 12, x)) for name, x in ids.items()}
    ids = {name: ops.convert_to_tensor(x) for name, x in ids.items()}
    classes = np.array([2, 0, -1], "int32")
    path = GradientPath(12, (0,))
    logits, weights = compiled(pair_gradient_function(model, path))(ids, classes)
    classes[2] = numpy(logits)[2].argmax()
    gained = numpy(log_odds(logits, classes)) - numpy(log_odds(model(blank), classes))
    assert np.abs(gained).max() > 0.1
    values = [numpy(x) for x in weights.values()]
    errors = np.abs(sum(x.sum(1) for x in values) - gained)
    assert (errors <= 0.02 * sum(np.abs(x).sum(1) for x in values)).all()


@pytest.mark.slow
def test_large_logits_have_finite_gradients():
    model = make("transformer")
    head = model.get_layer("head")
    former = numpy(head.kernel)
    head.kernel.assign(former * 1e6)
    weights = numpy(gradient_function(model)(IDS, np.full(4, -1, "int32"))[1])
    head.kernel.assign(former)
    assert np.isfinite(weights).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("transformer", "float16"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [
                ("bag", "float16"),
                ("rnn", "mixed_bfloat16"),
                ("bag", "mixed_bfloat16"),
                ("rnn", "float16"),
                ("transformer", "mixed_bfloat16"),
            ]
        ),
    ],
)
def test_half_precision(name, dtype):
    exact, model = make(name), make(name, dtype)
    model.set_weights(exact.get_weights())
    ids = IDS[:3]
    classes = np.array([0, 1, 2], "int32")
    for mine, other in (
        (attention_function(model)(ids), attention_function(exact)(ids)),
        (gradient_function(model)(ids, classes), gradient_function(exact)(ids, classes)),
    ):
        assert keras.backend.standardize_dtype(mine[1].dtype) == "float32"
        np.testing.assert_allclose(
            numpy(mine[1]), numpy(other[1]), atol=0.1 * np.abs(numpy(other[1])).max()
        )


def test_pairs_are_split_evenly():
    values = np.array([[2.0, 4.0, 8.0, 0.0], [1.0, 0.0, 0.0, 0.0]], "float32")
    found = numpy(split_pairs_evenly(ops.convert_to_tensor(values)))
    np.testing.assert_array_equal(found, [[1, 3, 6, 4], [0.5, 0.5, 0, 0]])


def test_gradients_of_masked_words():
    """The head reads the table of the embedding too, which is no part of what the tokens added."""
    config = BertConfig(20, dim=8, num_layers=1, num_heads=2, intermediate_dim=8)
    model = with_heads(config, ("masked_words",))
    ask = encoder_gradient_function(model, lambda logits, index: logits["masked_words"][:, 0, 7])
    ids = ops.convert_to_tensor(np.array([[2, 9, 4, 3, 0]], "int32"))
    inputs = {"token_ids": ids, "segment_ids": ids * 0, "padding_mask": ids != 0}
    inputs = {**inputs, "masked_positions": ops.convert_to_tensor(np.array([[2]], "int32"))}
    logits, weights = ask({name: inputs[name] for name in model.input})
    wanted = model({name: inputs[name] for name in model.input})["masked_words"]
    np.testing.assert_allclose(numpy(logits["masked_words"]), numpy(wanted), atol=1e-5)
    assert np.abs(numpy(weights)[0, :4]).min() > 0 and numpy(weights)[0, 4] == 0


def test_other_models_are_refused():
    x = keras.Input((None, 8))
    other = keras.Model(x, MultiHeadSelfAttention(2)(x))
    assert not has_attention(other)
    with pytest.raises(ValueError, match="Expected a model that weights its tokens"):
        attention_function(other)
    with pytest.raises(TypeError, match="a layer that makes vectors"):
        gradient_function(other)


def test_traced_attention_collects_within_graphs():
    import tensorflow as tf

    layer = MultiHeadSelfAttention(2, name="attend")
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    with traced_attention() as calls:
        layer(x)
        layer(x[:, :3])
    assert [(found.name, role, tuple(w.shape)) for found, role, w in calls] == [
        ("attend", "self", (2, 2, 5, 5)),
        ("attend", "self", (2, 2, 3, 3)),
    ]

    @tf.function(input_signature=[tf.TensorSpec([None, None, 8])], autograph=False)
    def weights(x):
        with traced_attention() as inner:
            layer(x)
        ((_, _, found),) = inner
        return found

    with collect_attention() as maps:
        plain = layer(x, return_attention_scores=True)[1]
    assert len(maps) == 1
    np.testing.assert_allclose(weights(x), plain, atol=1e-6)
    before = len(calls)
    layer(x)  # after the block nothing is collected
    assert len(calls) == before == 2
