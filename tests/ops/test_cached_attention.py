"""Attention to a cache, against the formula in float64 and against the attention of a whole."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.ops import dot_product_attention
from keras_attn.ops.cached_attention import cached_attention, to_cache, write_cache
from keras_attn.ops.compilers import tracing_for

B, S, H, HV = 3, 6, 4, 5


def arrays(N, K, T, repeats, seed=0):
    rng = np.random.default_rng(seed)
    shapes = [(B * repeats, T, N, H), (B, S, K, H), (B, S, K, HV)]
    return [rng.normal(size=shape).astype("float32") for shape in shapes]


def reference(query, key, value, visible, bias, scale):
    """Query by query, with numpy in float64."""
    M, T, N, _ = query.shape
    R, G = M // B, N // key.shape[2]
    context, weights = np.zeros((M, T, N, HV)), np.zeros((M, N, T, S))
    for m, t, n in np.ndindex(M, T, N):
        b, k = m // R, n // G
        scores = scale * key[b, :, k].astype("float64") @ query[m, t, n].astype("float64")
        if bias is not None:
            scores = scores + bias[m % len(bias), n, t]
        w = np.exp(scores - scores.max()) * visible[b]
        w = w / w.sum() if visible[b].any() else w
        weights[m, n, t] = w
        context[m, t, n] = w @ value[b, :, k]
    return context, weights


@pytest.mark.parametrize("scale", [None, 0.3])
@pytest.mark.parametrize("repeats", [1, 4])
@pytest.mark.parametrize("T", [1, 3])
@pytest.mark.parametrize("heads", [(4, 4), (4, 2), (4, 1)])
def test_is_the_formula(heads, T, repeats, scale):
    query, key, value = arrays(*heads, T, repeats)
    visible = np.array([[1] * 6, [1, 0, 1, 1, 0, 0], [0] * 6], bool)
    bias = None
    if repeats == 1:
        bias = np.random.default_rng(1).normal(size=(B, heads[0], T, S)).astype("float32")
    context, weights = cached_attention(
        *map(ops.convert_to_tensor, (query,)),
        to_cache(ops.convert_to_tensor(key)),
        to_cache(ops.convert_to_tensor(value)),
        ops.convert_to_tensor(visible),
        None if bias is None else ops.convert_to_tensor(bias),
        scale,
        return_attention_scores=True,
    )
    expected = reference(query, key, value, visible, bias, H**-0.5 if scale is None else scale)
    np.testing.assert_allclose(ops.convert_to_numpy(context), expected[0], atol=1e-6)
    np.testing.assert_allclose(ops.convert_to_numpy(weights), expected[1], atol=1e-6)
    assert not ops.convert_to_numpy(context)[2 * repeats :].any()  # a query that sees no key


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(dtype):
    query, key, value = arrays(4, 2, 1, 2)
    half = [ops.cast(ops.convert_to_tensor(x), dtype) for x in (query, key, value)]
    context = cached_attention(half[0], to_cache(half[1]), to_cache(half[2]))
    assert keras.backend.standardize_dtype(context.dtype) == dtype
    expected = reference(query, key, value, np.ones((B, S), bool), None, H**-0.5)[0]
    np.testing.assert_allclose(
        ops.convert_to_numpy(ops.cast(context, "float32")), expected, atol=0.03
    )


def test_unknown_shapes_in_a_graph():
    """Several rows of queries a row of the cache, with all of B, T and S unknown."""
    tf = pytest.importorskip("tensorflow", reason="the graph is TensorFlow's")
    if keras.backend.backend() != "tensorflow":
        pytest.skip("the graph is TensorFlow's")
    query, key, value = arrays(4, 2, 3, 2)

    @tf.function(
        autograph=False,
        input_signature=[
            tf.TensorSpec([None, None, 4, H]),
            tf.TensorSpec([None, None, 2, H]),
            tf.TensorSpec([None, None, 2, HV]),
        ],
    )
    def run(query, key, value):
        return cached_attention(query, to_cache(key), to_cache(value), return_attention_scores=True)

    context, weights = run(query, key, value)
    expected = reference(query, key, value, np.ones((B, S), bool), None, H**-0.5)
    np.testing.assert_allclose(context, expected[0], atol=1e-6)
    np.testing.assert_allclose(weights, expected[1], atol=1e-6)


def test_equals_the_attention_of_a_whole():
    query, key, value = map(ops.convert_to_tensor, arrays(4, 2, 3, 1))
    expected = dot_product_attention(query, key, value)
    actual = cached_attention(query, to_cache(key), to_cache(value))
    np.testing.assert_allclose(
        ops.convert_to_numpy(actual), ops.convert_to_numpy(expected), atol=1e-6
    )


def test_a_cache_is_written_slot_by_slot():
    key = arrays(2, 2, 1, 1)[1]
    cache = ops.zeros((B, 2, S, H))
    for slot in (4, 0, 5, 2, 1, 3):
        cache = write_cache(cache, ops.convert_to_tensor(slot), key[:, slot : slot + 1])
    np.testing.assert_array_equal(ops.convert_to_numpy(cache), key.transpose(0, 2, 1, 3))


@pytest.mark.parametrize("way", ["eager", "graph", "xla"])
def test_what_is_not_used_need_not_be_read(way):
    """Each number of used slots, in a cache with NaN behind what has to be read."""
    L, lengths = 130, (65, 130)
    rng = np.random.default_rng(2)
    query = rng.normal(size=(2, 1, 4, H)).astype("float32")
    key, value = (rng.normal(size=(2, 2, L, size)).astype("float32") for size in (H, HV))
    bias = rng.normal(size=(2, 4, 1, L)).astype("float32")

    def attend(key, value, used):
        return cached_attention(
            *map(ops.convert_to_tensor, (query, key, value)),
            ops.broadcast_to(ops.arange(L) < used, (2, L)),
            ops.convert_to_tensor(bias),
            used=used,
        )

    if way != "eager":
        attend = compiled(attend, key, value, xla=way == "xla")
    for used in (1, 64, 65, 66, 129, 130):
        expected = cached_attention(
            *map(ops.convert_to_tensor, (query, key[:, :, :used], value[:, :, :used])),
            bias=ops.convert_to_tensor(bias[..., :used]),
        )
        read = min(n for n in lengths if n >= used)
        holed = [np.where(np.arange(L)[:, None] < read, x, np.nan) for x in (key, value)]
        found = attend(*map(ops.convert_to_tensor, holed), ops.convert_to_tensor(used))
        np.testing.assert_allclose(
            ops.convert_to_numpy(found), ops.convert_to_numpy(expected), atol=1e-6
        )


def compiled(function, key, value, xla):
    """The function in a graph of the backend, for any length without XLA."""
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(function)
    if keras.backend.backend() == "torch":
        pytest.skip("PyTorch does not compile here")
    import tensorflow as tf

    def traced(*inputs):
        with tracing_for(xla=xla):
            return function(*inputs)

    specs = [tf.TensorSpec(x.shape if xla else (2, 2, None, x.shape[3])) for x in (key, value)]
    signature = [*specs, tf.TensorSpec([], "int32")]
    return tf.function(traced, input_signature=signature, jit_compile=xla, autograph=False)
