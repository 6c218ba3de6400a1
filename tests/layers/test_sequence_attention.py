"""Additive and Luong's attention: by hand, against NumPy, and windows."""

import keras
import numpy as np
import pytest
from keras import ops
from recurrent_references import additive_score, attend, luong_score

from keras_attn.layers import AdditiveAttention, LuongAttention, SequenceAttention

RNG = np.random.default_rng(0)
B, T, S = 3, 4, 6
MASK = np.array([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]], bool)


def numbers(*shape):
    return RNG.normal(size=shape).astype("float32")


def weights_of(layer):
    return {w.name if w.name != "kernel" else w.path.split("/")[-2]: w for w in layer.weights}


def randomize(layer):
    for weight in layer.weights:
        weight.assign(RNG.normal(size=weight.shape))
    return {
        name: ops.convert_to_numpy(w).astype("float64") for name, w in weights_of(layer).items()
    }


def expected(score, query, memory, mask=None, **window):
    contexts = np.zeros((B, T, memory.shape[-1]))
    weights = np.zeros((B, T, S))
    for b in range(B):
        for t in range(T):
            visible = None if mask is None else mask[b]
            contexts[b, t], weights[b, t] = attend(
                score,
                query[b, t].astype("float64"),
                memory[b].astype("float64"),
                visible,
                position=t,
                **window,
            )
    return contexts, weights


def check(layer, score, width=5, key_width=5, **window):
    query, memory = numbers(B, T, width), numbers(B, S, key_width)
    layer(query, memory)
    given = randomize(layer)
    more = {}
    if "window" in given:
        more = {"Wp": given["window"], "vp": given["window_scale"][:, 0]}
    for mask in (None, MASK):
        context, weights = layer(query, memory, value_mask=mask, return_attention_scores=True)
        wanted = expected(lambda q, k: score(q, k, given), query, memory, mask, **window, **more)
        np.testing.assert_allclose(ops.convert_to_numpy(context), wanted[0], atol=2e-5)
        np.testing.assert_allclose(ops.convert_to_numpy(weights), wanted[1], atol=5e-6)
    return given


def additive(q, k, w):
    gain = w.get("gain")
    return additive_score(q, k, w["query"], w["key"], w["scale"][:, 0], w.get("bias", 0.0), gain)


def luong(kind):
    def score(q, k, w):
        if kind == "concat":
            W = np.concatenate([w["query"], w["key"]])
            return luong_score(kind, q, k, W=W, v=w["scale"][:, 0])
        return luong_score(kind, q, k, W=w.get("key", np.zeros(0)).T, g=w.get("gain"))

    return score


WINDOWS = [None, ("monotonic", 1), ("monotonic", 2), ("predictive", 1), ("predictive", 3)]


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("normalize", [False, True])
def test_additive_is_that_of_the_papers(window, normalize):
    kind, size = window or (None, None)
    layer = AdditiveAttention(7, use_bias=True, normalize=normalize, window=kind, window_size=size)
    given = check(layer, additive, width=3, window=window)
    assert ("gain" in given) == normalize


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("kind", ["dot", "general", "concat", "scaled"])
def test_luong_is_that_of_the_paper(kind, window):
    name, size = window or (None, None)
    layer = LuongAttention(score=kind, window=name, window_size=size)
    check(layer, luong(kind), key_width=5 if kind in ("dot", "scaled") else 3, window=window)


def test_numbers_by_hand():
    """Scores 1 and 0 (dot); e / (e + 1) = .7311. Twice that by the factor 2: .8808."""
    query, memory = np.array([[[1.0, 0.0]]]), np.array([[[1.0, 0.0], [0.0, 4.0]]])
    for score, weight in [("dot", 0.7310586), ("scaled", 0.8807971)]:
        layer = LuongAttention(score=score)
        layer.build((1, 1, 2), (1, 2, 2))
        if score == "scaled":
            assert float(layer.gain) == pytest.approx(2**-0.5)
            layer.gain.assign(2.0)
        context, weights = layer(query, memory, return_attention_scores=True)
        np.testing.assert_allclose(ops.convert_to_numpy(weights)[0, 0], [weight, 1 - weight], 1e-5)
        # .7311 (1, 0) + .2689 (0, 4)
        expected = [weight, 4 * (1 - weight)]
        np.testing.assert_allclose(ops.convert_to_numpy(context)[0, 0], expected, 1e-5)
    # general with W = diag(3, 5): key (1, 0) gives 3, key (0, 4) gives 0; e^3 / (e^3 + 1) = .9526.
    layer = LuongAttention(score="general")
    layer.build((1, 1, 2), (1, 2, 2))
    layer.key_dense.kernel.assign([[3.0, 0.0], [0.0, 5.0]])
    _, weights = layer(query, memory, return_attention_scores=True)
    np.testing.assert_allclose(ops.convert_to_numpy(weights)[0, 0], [0.9525741, 0.0474259], 1e-5)
    # additive, one unit, v = 2: tanh(1 + 1) = .9640 and tanh(1 + 4) = .9999, times 2.
    layer = AdditiveAttention(1)
    layer.build((1, 1, 2), (1, 2, 2))
    layer.query_dense.kernel.assign(np.ones((2, 1)))
    layer.key_dense.kernel.assign(np.ones((2, 1)))
    layer.scale.assign([[2.0]])
    _, weights = layer(query, memory, return_attention_scores=True)
    ratio = np.exp(2 * (0.9999092 - 0.9640276))
    np.testing.assert_allclose(
        ops.convert_to_numpy(weights)[0, 0], [1 / (1 + ratio), ratio / (1 + ratio)], 1e-5
    )


def test_normalized_begins_with_length_one_over_root_of_units():
    layer = AdditiveAttention(16, normalize=True)
    layer.build((1, 1, 2), (1, 2, 2))
    assert float(layer.gain) == pytest.approx(0.25)
    query, memory = numbers(1, 2, 2), numbers(1, 3, 2)
    before = ops.convert_to_numpy(layer(query, memory))
    layer.scale.assign(7.0 * layer.scale)  # its length is of no account
    np.testing.assert_allclose(ops.convert_to_numpy(layer(query, memory)), before, atol=1e-6)


def test_a_window_by_hand():
    """D = 1, keys 0..3 that score alike; local-p at 1.5 sees 1 and 2 with exp(-.25 / .5)."""
    query, memory = np.zeros((1, 3, 2)), np.ones((1, 4, 2))
    _, weights = LuongAttention(score="dot", window="monotonic", window_size=1)(
        query, memory, return_attention_scores=True
    )
    expected = [[1 / 2, 1 / 2, 0, 0], [1 / 3, 1 / 3, 1 / 3, 0], [0, 1 / 3, 1 / 3, 1 / 3]]
    np.testing.assert_allclose(ops.convert_to_numpy(weights)[0], expected, atol=1e-6)
    _, weights = LuongAttention(score="dot", window="predictive", window_size=1)(
        query, np.ones((1, 3, 2)), return_attention_scores=True
    )  # a query of zeros: 3 sigmoid(0) = 1.5
    expected = [0, np.exp(-0.5) / 2, np.exp(-0.5) / 2]
    np.testing.assert_allclose(ops.convert_to_numpy(weights)[0, 0], expected, atol=1e-6)


def test_a_monotonic_window_can_be_told_where_it_is():
    layer = LuongAttention(score="dot", window="monotonic", window_size=1)
    query, memory = numbers(2, 5, 3), numbers(2, 8, 3)
    whole = ops.convert_to_numpy(layer(query, memory))
    for t in range(5):
        one = layer(query[:, t : t + 1], memory, positions=np.full((2, 1), t))
        np.testing.assert_allclose(ops.convert_to_numpy(one)[:, 0], whole[:, t], atol=1e-6)
    far, weights = layer(query, memory, positions=np.full((2, 5), 9), return_attention_scores=True)
    assert not ops.convert_to_numpy(far).any()  # past the end by more than the window
    assert not ops.convert_to_numpy(weights).any()


def test_the_backward_pass_is_that_of_the_formula():
    """Additive scores compute their hidden layer again; compared with plain differentiation."""
    import tensorflow as tf

    from keras_attn.ops import additive_scores

    values = [tf.constant(numbers(2, 3, 4)), tf.constant(numbers(2, 5, 4)), numbers(4)]
    values[2] = tf.constant(values[2])
    upstream = numbers(2, 3, 5)

    def plain(query, key, scale):
        return tf.reduce_sum(tf.tanh(query[:, :, None] + key[:, None]) * scale, axis=-1)

    found = []
    for function in (plain, additive_scores):
        with tf.GradientTape() as tape:
            tape.watch(values)
            y = function(*values)
            loss = tf.reduce_sum(y * upstream)
        found.append([y, *tape.gradient(loss, values)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_projected_keys_are_the_keys():
    for layer in (
        AdditiveAttention(4),
        *(LuongAttention(score=k) for k in ("general", "concat", "dot")),
    ):
        query, memory = numbers(2, 3, 5), numbers(2, 4, 5)
        whole = layer(query, memory)
        again = layer(query, memory, projected_key=layer.project_key(ops.convert_to_tensor(memory)))
        np.testing.assert_allclose(
            ops.convert_to_numpy(again), ops.convert_to_numpy(whole), atol=1e-6
        )


@pytest.mark.parametrize(
    ("score", "width", "count"),
    [("dot", 4, 0), ("scaled", 4, 1), ("general", 6, 24), ("concat", 6, 4 * 4 + 6 * 4 + 4)],
)
def test_numbers_of_weights(score, width, count):
    layer = LuongAttention(score=score)
    layer.build((None, None, 4), (None, None, width))
    assert layer.count_params() == count
    layer = LuongAttention(score=score, window="predictive")
    layer.build((None, None, 4), (None, None, width))
    assert layer.count_params() == count + 4 * 4 + 4


def test_errors():
    bad = [
        (lambda: LuongAttention(score="cosine"), r"'dot', 'general', 'concat', 'scaled'.*'cosine'"),
        (
            lambda: LuongAttention(score="dot", window="local"),
            r"'monotonic', 'predictive'.*'local'",
        ),
        (
            lambda: LuongAttention(score="dot", window="monotonic", window_size=0),
            "positive integer.*0",
        ),
        (lambda: AdditiveAttention(3, window="predictive", window_size=-1), "positive integer"),
        (lambda: LuongAttention(score="dot", window_size=3), "requires a `window`"),
        (lambda: LuongAttention(score="dot", units=3), "is only used with score='concat'"),
        (lambda: LuongAttention(score="concat", units=0), "positive integer"),
        (lambda: LuongAttention(score="dot")(numbers(1, 2, 3), numbers(1, 2, 4)), "same width"),
        (lambda: LuongAttention(score="scaled")(numbers(1, 2, 3), numbers(1, 2, 4)), "same width"),
        (lambda: LuongAttention()(numbers(1, 2, 3)), "needs a `value`"),
        (lambda: LuongAttention()(numbers(1, 2, 3), numbers(1, 3)), "expand_dims|must have shape"),
        (
            lambda: LuongAttention()(
                numbers(1, 2, 3), numbers(1, 2, 3), positions=np.zeros((1, 2))
            ),
            "is only used with window='monotonic'",
        ),
    ]
    for call, message in bad:
        with pytest.raises(ValueError, match=message):
            call()


def test_a_score_of_ones_own():
    """A subclass of three methods has masks, windows and scores."""

    @keras.saving.register_keras_serializable(package="test_sequence_attention")
    class Nearest(SequenceAttention):
        def build_scores(self, query_shape, key_shape):
            self.sharpness = self.add_weight(shape=(), initializer="ones", name="sharpness")

        def compute_scores(self, query, projected_key):
            gap = ops.expand_dims(query, 2) - ops.expand_dims(projected_key, 1)
            return -self.sharpness * ops.sum(ops.square(gap), axis=-1)

    layer = Nearest(window="predictive", window_size=2)
    query, memory = numbers(B, T, 5), numbers(B, S, 5)
    layer(query, memory)
    given = randomize(layer)
    sharpness = given["sharpness"]
    context = layer(query, memory, value_mask=MASK)
    wanted, _ = expected(
        lambda q, k: -sharpness * np.sum((q - k) ** 2),
        query,
        memory,
        MASK,
        window=("predictive", 2),
        Wp=given["window"],
        vp=given["window_scale"][:, 0],
    )
    np.testing.assert_allclose(ops.convert_to_numpy(context), wanted, atol=2e-5)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert again.get_config() == layer.get_config()


@pytest.mark.parametrize(
    "make",
    [
        lambda: AdditiveAttention(7, normalize=True, window="predictive", dtype="float64"),
        lambda: LuongAttention(score="concat", window="monotonic", dtype="float64"),
    ],
)
def test_float64_is_float64(make):
    """To 1e-12, which float32 on the way would not be."""
    layer = make()
    query, memory = RNG.normal(size=(B, T, 5)), RNG.normal(size=(B, S, 5))
    layer(query, memory)
    given = randomize(layer)
    context = layer(query, memory, value_mask=MASK)
    score = additive if "additive" in layer.name else luong("concat")
    more = {}
    if layer.window == "predictive":
        more = {"Wp": given["window"], "vp": given["window_scale"][:, 0]}
    wanted, _ = expected(
        lambda q, k: score(q, k, given), query, memory, MASK, window=(layer.window, 10), **more
    )
    np.testing.assert_allclose(ops.convert_to_numpy(context), wanted, rtol=0, atol=1e-12)
