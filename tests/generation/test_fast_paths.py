"""What is computed in another way under XLA, without it, for single rows or few: the same."""

import keras
import numpy as np
import pytest
from generation_toys import END, START, small_transformer, sources
from keras import ops

from keras_attn.generation import CompiledFunction, beam_search, greedy_search
from keras_attn.generation.greatest import greatest
from keras_attn.layers import PositionalEncoding, TokenEmbedding, TransformerDecoder
from keras_attn.layers.quantization import quick_deletions
from keras_attn.models import SequenceDecoder, TokenDecoder
from keras_attn.ops.cached_attention import write_cache
from keras_attn.ops.compilers import compiler, is_one_row, on_cpu, tracing_for

on_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="of graphs of TensorFlow"
)


def test_the_innermost_says_what_compiles():
    outside = compiler()
    with tracing_for(xla=True, one_row=True):
        assert compiler() == "xla"
        with tracing_for(xla=False):
            assert compiler() == ("xla" if keras.backend.backend() == "jax" else "none")
        assert compiler() == "xla"
    assert compiler() == outside


@on_tensorflow
def test_rows_are_one_where_shapes_or_tracing_say_so():
    import tensorflow as tf

    found = []

    @tf.function(input_signature=[tf.TensorSpec([None, 3])], autograph=False)
    def function(x):
        found.append(is_one_row(x))
        with tracing_for(xla=True, one_row=True):
            found.append(is_one_row(x))
        return x

    function(tf.ones((1, 3)))
    assert found == [False, True]


@pytest.mark.parametrize("xla", [False, True])
@pytest.mark.parametrize("size", [7, 511, 4000, 4001])
@pytest.mark.parametrize("values", [3, 10**6])
def test_the_first_of_the_greatest_with_any_compiler(size, values, xla):
    if xla and keras.backend.backend() == "torch":
        pytest.skip("XLA compiles nothing of PyTorch")
    x = np.random.default_rng(size).integers(-values, values, (5, size)).astype("float32")
    x[0], x[1, :-1] = 0.0, -np.inf
    with tracing_for(xla=xla):
        value, index = map(ops.convert_to_numpy, greatest(ops.convert_to_tensor(x)))
    np.testing.assert_array_equal(value, x.max(-1))
    np.testing.assert_array_equal(index, x.argmax(-1))


@on_tensorflow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("told", [None, False, True])
def test_caches_are_written_one_slot_at_a_time(told, dtype):
    """Unknown compilers, which may be XLA, included; nothing else of the cache changes."""
    import tensorflow as tf

    rng = np.random.default_rng(0)
    cache = ops.cast(rng.normal(size=(3, 2, 5, 4)), dtype)
    news = ops.cast(rng.normal(size=(2, 3, 1, 2, 4)), dtype)
    expected = ops.convert_to_numpy(ops.cast(cache, "float32")).copy()
    for slot, new in ((1, news[0]), (4, news[1])):
        expected[:, :, slot] = ops.convert_to_numpy(ops.cast(new, "float32"))[:, 0]

    def written(cache, first, second):
        cache = write_cache(cache, ops.convert_to_tensor(1), first)
        return write_cache(cache, ops.convert_to_tensor(4), second)

    traced = written if told is None else tracing_for(xla=told)(written)
    for jit_compile in {None: (False, True), False: (False,), True: (True,)}[told]:
        run = tf.function(traced, autograph=False, jit_compile=jit_compile)
        found = ops.convert_to_numpy(ops.cast(run(cache, *news), "float32"))
        np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
@on_tensorflow
@pytest.mark.parametrize("num_beams", [None, 3])
def test_a_function_of_the_users_own_under_xla(num_beams):
    """TensorFlow does not tell that XLA compiles: what is traced must suit it all the same."""
    import tensorflow as tf

    sequences = SequenceDecoder(small_transformer())
    search = beam_search if num_beams else greedy_search
    settings = {"num_beams": num_beams} if num_beams else {}

    def translated(ids):
        memory, mask = sequences.encode(ids)
        prompt = ops.zeros_like(ids[:, :1]) + START
        inputs = (sequences.decoder, prompt, None, memory, mask)
        return search(*inputs, max_length=6, end_id=END, **settings).tokens

    ids = tf.constant(sources([5, 3], 5))
    plain = translated(ids)
    compiled = tf.function(translated, autograph=False, jit_compile=True)(ids)
    np.testing.assert_array_equal(plain, compiled)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "num_beams", "how"),
    [
        (2, 3, "eager"),
        (1, 1, "as for one row of XLA"),
        # Compiling takes long; `test_step_by_step.py` and `test_compiled.py` compare what is
        # compiled, by XLA too, with whole models.
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [
                (1, 1, "graph"),
                (2, 3, "graph"),
                (1, 1, "XLA"),
                (2, 1, "XLA"),
                (1, 3, "XLA"),
            ]
        ),
    ],
)
def test_logits_of_the_matrix_laid_out_anew(monkeypatch, rows, num_beams, how):
    """The searches find what they find with the embedding itself, whatever the rows."""
    model = small_transformer()
    sequences = SequenceDecoder(model)

    def translated(ids, max_length):
        memory, mask = sequences.encode(ids)
        prompt = ops.zeros_like(ids[:, :1]) + START
        inputs = (sequences.decoder, prompt, None, memory, mask)
        return beam_search(*inputs, num_beams=num_beams, max_length=max_length, end_id=END)

    def run():
        ids = sources([5, 3][:rows], 5)
        if how == "eager":
            return keras.tree.map_structure(ops.convert_to_numpy, translated(ids, 6))
        if how == "as for one row of XLA":
            with tracing_for(xla=True, one_row=True):
                return translated(ids, 6)
        return CompiledFunction(translated, model.variables, how == "XLA")(ids, 6)

    laid_out = []
    kernel = TokenEmbedding.output_kernel
    monkeypatch.setattr(
        TokenEmbedding, "output_kernel", lambda self: laid_out.append(1) or kernel(self)
    )
    found = run()
    assert sequences.decoder._kernel is None  # its own stays as it is
    backend = keras.backend.backend()
    known_to_be_one = rows == 1 and (backend == "jax" or how != "graph")
    assert bool(laid_out) == (on_cpu() and not (known_to_be_one and num_beams == 1))
    if not laid_out:
        return  # it is the embedding itself
    monkeypatch.setattr(TokenEmbedding, "output_kernel", lambda self: None)
    plain = run()
    np.testing.assert_array_equal(found.tokens, plain.tokens)
    np.testing.assert_allclose(found.scores, plain.scores, atol=1e-6)


class Wrapped:
    """A decoder that has the two methods alone."""

    def __init__(self, decoder):
        self.prefill, self.step = decoder.prefill, decoder.step


@pytest.mark.slow
def test_a_decoder_around_another():
    """States have the batch first: anybody's `repeat` and `reorder` can take rows of them."""
    sequences = SequenceDecoder(small_transformer())
    memory, mask = sequences.encode(ops.convert_to_tensor(sources([5, 3], 5)))
    prompt = ops.full((2, 1), START, dtype="int32")
    found = [
        beam_search(decoder, prompt, None, memory, mask, num_beams=3, max_length=6, end_id=END)
        for decoder in (sequences.decoder, Wrapped(sequences.decoder))
    ]
    np.testing.assert_array_equal(*(ops.convert_to_numpy(f.tokens) for f in found))


def test_an_embedding_of_the_users_own_makes_the_logits():
    class Shifted(TokenEmbedding):
        def call(self, x, *, reverse=False, mask=None):
            y = super().call(x, reverse=reverse, mask=mask)
            return y + 100.0 if reverse else y

    embedding = Shifted(11, 8)
    embedding.build()
    decoder = TokenDecoder(embedding, None, None)
    assert decoder.laid_out() is decoder
    logits = decoder.laid_out().logits(ops.zeros((2, 8)))
    assert (ops.convert_to_numpy(logits) == 100.0).all()
    head = TokenDecoder(TokenEmbedding(11, 8), None, None, head=keras.layers.Dense(11))
    assert head.laid_out() is head


def test_layers_that_the_search_builds():
    embedding = TokenEmbedding(11, 8)
    stack = TransformerDecoder(num_layers=1, num_heads=2, intermediate_dim=16)
    stack.build((None, None, 8))
    decoder = TokenDecoder(embedding, PositionalEncoding(), stack)
    prompt = ops.full((2, 1), START, dtype="int32")
    assert tuple(greedy_search(decoder, prompt, max_length=3, end_id=END).tokens.shape) == (2, 3)


@pytest.mark.skipif(not on_cpu(), reason="embeddings are not copied elsewhere")
def test_logits_have_the_dtype_of_the_embedding(monkeypatch):
    embedding = TokenEmbedding(11, 8, dtype="bfloat16")
    embedding.build()
    decoder = TokenDecoder(embedding, None, None)
    x = ops.convert_to_tensor(np.random.default_rng(0).normal(size=(2, 8)), "float32")
    assert ops.dtype(decoder.laid_out().logits(x)) == ops.dtype(decoder.logits(x)) == "bfloat16"
    monkeypatch.setattr("keras_attn.models.token_decoder.LARGEST_COPY", 87)
    assert decoder.laid_out() is decoder


@pytest.mark.skipif(not on_cpu(), reason="embeddings are not copied elsewhere")
@pytest.mark.parametrize("xla", [True, False])
def test_a_large_embedding_is_not_copied_for_the_xla_of_tensorflow(monkeypatch, xla):
    embedding = TokenEmbedding(11, 8)
    embedding.build()
    decoder = TokenDecoder(embedding, None, None)
    for most, large in ((11, False), (10, True)):
        monkeypatch.setattr("keras_attn.models.token_decoder.MOST_TOKENS_XLA", most)
        with tracing_for(xla=xla):
            copied = decoder.laid_out() is not decoder
        assert copied != (large and xla and keras.backend.backend() == "tensorflow")


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_the_output_kernel_is_the_transposed_embedding(policy):
    embedding = TokenEmbedding(11, 4, dtype=policy)
    embedding.build()
    x = ops.cast(np.random.default_rng(0).normal(size=(3, 4)), embedding.compute_dtype)
    expected, kernel = embedding(x, reverse=True), embedding.output_kernel()
    assert tuple(kernel.shape) == (4, 11)
    assert ops.dtype(expected) == ops.dtype(kernel)
    found = ops.cast(ops.matmul(x, kernel), "float32")
    tolerance = 1e-6 if policy == "float32" else 2e-2
    expected = ops.convert_to_numpy(ops.cast(expected, "float32"))
    np.testing.assert_allclose(ops.convert_to_numpy(found), expected, atol=tolerance)
    with_lora = TokenEmbedding(11, 4)
    with_lora.build()
    with_lora.embedding.enable_lora(2)
    with_lora.embedding.lora_embeddings_b.assign(np.ones((2, 4), "float32"))
    x = ops.cast(x, "float32")
    expected = ops.convert_to_numpy(with_lora(x, reverse=True))
    found = ops.convert_to_numpy(ops.matmul(x, with_lora.output_kernel()))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    with quick_deletions():
        with_lora.embedding.quantize("int8")
    assert with_lora.output_kernel() is None
