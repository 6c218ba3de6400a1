"""Kernels of dot-product attention: one result whichever computes it."""

import itertools
from pathlib import Path

import extreme_cases
import kernel_cases
import numpy as np
import pytest
import tensorflow as tf
import torch
from keras import Input, ops
from kernel_cases import CASES, largest_difference, make, reference, run, settings, visible
from processes import answer

from keras_attn.ops import attention_kernels, choose_attention_kernel, dot_product_attention
from keras_attn.ops.chunk_ranges import ChunkRanges

HERE = Path(__file__).parent
KERNELS = ("plain", "chunked")
NUMBERS = range(len(CASES))
EVERY = kernel_cases.EVERY_OPTION
HALF = (*NUMBERS[1:EVERY:6], EVERY)


def expected(number, arrays=None):
    """The context by NumPy, and gradients by PyTorch's autograd of the formula: in float64."""
    arrays = arrays or make(number)
    names = [name for name in kernel_cases.DIFFERENTIATED if name in arrays]
    finite = {name: np.where(np.isinf(arrays[name]), 0, arrays[name]) for name in names}
    tensors = {name: torch.tensor(x, requires_grad=True) for name, x in finite.items()}
    seen = torch.tensor(visible(number, arrays))
    N, K = CASES[number]["heads"]
    key, value = (tensors[n].repeat_interleave(N // K, dim=2) for n in ("key", "value"))
    scale = settings(number)["scale"] or tensors["query"].shape[3] ** -0.5
    scores = torch.einsum("btnh,bsnh->bnts", tensors["query"], key) * scale
    options = CASES[number]["options"]
    if "softcap" in options:
        scores = 0.8 * torch.tanh(scores / 0.8)
    scores = scores + tensors.get("bias", 0)
    if "score_mod" in options:
        places = kernel_cases.head_and_positions(number, arrays)
        head, t, s = (torch.tensor(x).double() for x in places)
        scores = torch.sin(scores) * (1 + 0.5 * head) - 0.1 * (t - s).abs()
    exponentials = torch.exp(scores) * seen
    total = exponentials.sum(-1, keepdim=True)
    if "sinks" in tensors:
        total = total + torch.exp(tensors["sinks"])[:, None, None]
    weights = exponentials / total.clamp(min=1e-300)
    context = torch.einsum("bnts,bsnh->btnh", weights, value)
    context.backward(torch.tensor(arrays["upstream"]))
    results = {"context": reference(number, arrays)}
    np.testing.assert_allclose(context.detach(), results["context"], atol=1e-12)
    return results | {name: x.grad.numpy() for name, x in tensors.items()}


@pytest.fixture(scope="module")
def all_expected():
    return [expected(number) for number in NUMBERS]


def test_the_cases_are_many_and_different():
    for option in ("mask", "bias", "lengths", "window", "value_dim", "scale"):
        for causal in (False, True):
            values = [case[option] for case in CASES if case["causal"] == causal]
            assert len(set(values)) >= (4 if option in ("mask", "bias") else 2)
    hidden = [(~visible(number, make(number)).any(-1)).any() for number in NUMBERS]
    assert 5 < sum(hidden) < len(CASES) - 5


def some(numbers, quick):
    """Cases; all but the quick ones are marked slow."""
    return [pytest.param(n, marks=() if n in quick else pytest.mark.slow) for n in numbers]


@pytest.mark.quick(slow=["12-chunked", "32-chunked", "36-chunked", "40-chunked"])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("number", some(NUMBERS, quick=(*NUMBERS[::4], EVERY)))
def test_kernel(number, kernel, all_expected):
    """Values and gradients, with every option."""
    with kernel_cases.chunks_of(4):
        if number % 5 == 0:
            assert largest_difference(number, run(number, kernel), all_expected[number]) < 1e-5
        found = run(number, kernel, "float64")
        assert largest_difference(number, found, all_expected[number]) < 1e-12


@pytest.mark.quick(
    "1-plain-float16-0.01",
    "1-plain-bfloat16-0.1",
    "1-chunked-float16-0.01",
    "1-chunked-bfloat16-0.1",
)
@pytest.mark.parametrize("dtype, tolerance", [("float16", 0.01), ("bfloat16", 0.1)])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("number", some(HALF, quick=HALF[::2]))
def test_half_precision(number, kernel, dtype, tolerance, all_expected):
    with kernel_cases.chunks_of(4):
        found = run(number, kernel, dtype)
    assert largest_difference(number, found, all_expected[number]) < tolerance


@pytest.mark.slow
@pytest.mark.parametrize("unknown", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("number", some([*NUMBERS[::9], EVERY], quick=(9, 27, EVERY)))
def test_compiled(number, jit, unknown, all_expected):
    """In a graph, by XLA, and with a batch and lengths that only the tensors know."""
    with kernel_cases.chunks_of(4):
        found = run(number, "chunked", jit=jit, unknown=unknown)
    assert largest_difference(number, found, all_expected[number]) < 1e-5


@pytest.mark.slow
def test_chunks_as_they_are():
    """Not of the size that tests make them."""
    rng = np.random.default_rng(0)
    q, k, v = (ops.convert_to_tensor(rng.normal(size=(1, 1100, 2, 4)), "float32") for _ in "qkv")
    for options in ({}, {"use_causal_mask": True}, {"sliding_window": 600}):
        a, b = (dot_product_attention(q, k, v, kernel=kernel, **options) for kernel in KERNELS)
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_values_that_would_overflow_as_a_sum():
    """In float16 the sum of a chunk's values is beyond its range, and their mean is not."""
    x = ops.full((1, 600, 1, 4), 3.0e3, dtype="float16")
    context = dot_product_attention(x, x, x, scale=0.0, kernel="chunked")
    np.testing.assert_allclose(context, np.full((1, 600, 1, 4), 3.0e3), rtol=1e-3)


@pytest.mark.parametrize(
    "window, sinks", [(None, 0), (1, 0), (3, 0), (8, 0), (1, 1), (3, 4), (2, 6)]
)
@pytest.mark.parametrize("causal", [False, True])
def test_only_what_cannot_be_seen_is_left_out(causal, window, sinks):
    """Of all blocks, and nothing else: counted by hand."""
    for T, S, rows, columns in itertools.product((6, 13), (5, 12), (2, 5), (3, 4)):
        chunks = -(-T // rows), -(-S // columns)
        blocks = ChunkRanges(
            sizes=(rows, columns),
            chunks=chunks,
            lengths=(T, S),
            causal=causal,
            window=window,
            sink_tokens=sinks,
        )
        distance = np.arange(chunks[0] * rows)[:, None] + S - T - np.arange(chunks[1] * columns)
        seen = np.ones(distance.shape, bool)
        if window:
            seen &= (np.abs(distance) < window) | (np.arange(distance.shape[1]) < sinks)
        if causal:
            seen &= distance >= 0
        seen = seen.reshape(chunks[0], rows, chunks[1], columns).any(axis=(1, 3))
        for i in range(chunks[0]):
            visited = []
            blocks.over_keys(i, lambda j, so_far, visited=visited: visited.append(j) or so_far, ())
            assert [int(j) for j in visited] == np.flatnonzero(seen[i]).tolist()
        for j in range(chunks[1]):
            lower, upper = blocks.queries_of(j)
            assert list(range(lower, upper)) == np.flatnonzero(seen[:, j]).tolist()


def check_extreme(found):
    """Contexts and gradients by kernel, beside PyTorch's autograd of the formula in float64."""
    arrays = {name: torch.tensor(x) for name, x in extreme_cases.extreme().items()}
    tensors = [arrays[name].requires_grad_(True) for name in ("query", "key", "value")]
    scores = torch.einsum("btnh,bsnh->bnts", *tensors[:2]) * 0.5 + arrays["bias"]
    context = torch.einsum("bnts,bsnh->btnh", torch.softmax(scores, -1), tensors[2])
    context.backward(arrays["upstream"])
    expected = [context.detach(), *(x.grad for x in tensors)]
    for kernel, results in found.items():
        for name, wanted in zip(extreme_cases.NAMES, expected, strict=True):
            np.testing.assert_allclose(results[name], wanted, atol=2e-6, err_msg=f"{kernel} {name}")


def test_biases_far_from_zero():
    """Gradients too: the sum of the exponentials must not get lost beside a large maximum."""
    check_extreme({kernel: extreme_cases.gradients(kernel) for kernel in KERNELS})


@pytest.mark.slow
def test_nan_is_seen():
    assert extreme_cases.lost(KERNELS) == []


@pytest.mark.quick("eager")
@pytest.mark.parametrize("how", ["eager", "graph", "XLA"])
def test_gradients_of_gradients(how):
    """`plain` has them; of `chunked` they are an error, as what can be recorded of it is wrong."""
    x = np.random.default_rng(0).normal(size=(1, 4, 1, 2)).astype("float32")

    def second(kernel):
        def of(x):
            with tf.GradientTape() as outer:
                outer.watch(x)
                with tf.GradientTape() as inner:
                    inner.watch(x)
                    total = ops.sum(ops.square(dot_product_attention(x, x, x, kernel=kernel)))
                first = inner.gradient(total, x)
                total = ops.sum(ops.square(first))
            return outer.gradient(total, x)

        return of if how == "eager" else tf.function(of, jit_compile=how == "XLA", autograph=False)

    def total(x):
        weights = torch.softmax(x[0, :, 0] @ x[0, :, 0].T / 2**0.5, -1)
        return ((weights @ x[0, :, 0]) ** 2).sum()

    given = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(total(given), given, create_graph=True)
    (wanted,) = torch.autograd.grad((first**2).sum(), given)
    np.testing.assert_allclose(second("plain")(tf.constant(x)), wanted, rtol=1e-4)
    with pytest.raises(LookupError, match="first derivatives only"):
        second("chunked")(tf.constant(x))


@pytest.mark.slow
def test_first_derivatives_of_a_tape_that_is_kept():
    """A persistent tape makes TensorFlow prepare derivatives of functions that nobody asks for."""
    x = tf.constant(np.random.default_rng(0).normal(size=(1, 4, 1, 2)), "float32")
    found = []
    for kernel in KERNELS:
        attend = tf.function(
            lambda x, kernel=kernel: dot_product_attention(x, x, x, kernel=kernel),
            autograph=False,
        )
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            context = attend(x)
        found.append(tape.gradient(context, x))
    np.testing.assert_allclose(found[1], found[0], atol=1e-6)


@pytest.fixture(scope="module")
def expected_file(all_expected, tmp_path_factory):
    path = tmp_path_factory.mktemp("expected") / "expected.npz"
    arrays = {
        f"{number} {name}": x for number in NUMBERS for name, x in all_expected[number].items()
    }
    np.savez(path, **arrays)
    return path


def check_differences(result):
    tolerances = {"float16": 0.01, "bfloat16": 0.1}
    for name, difference in result["differences"].items():
        assert difference < tolerances.get(name.split()[0], 1e-5), name


@pytest.mark.slow
def test_torch(expected_file):
    result = answer("torch", HERE / "kernel_script.py", expected_file)
    check_differences(result)
    for kernel in ("flash", "chunked", "plain", "one chunk"):
        numbers = [n for n in NUMBERS if kernel != "flash" or kernel_cases.fused(n)]
        assert {f"{kernel} {number}" for number in numbers} <= set(result["differences"])
    assert result["chosen"] == ["flash", "plain", "flash", "plain"]
    assert result["flash"] == "flash"
    assert "first derivatives only" in result["second gradient"]
    assert result["unknown length"] < 1e-6
    check_extreme(result["extreme"])
    assert result["lost"] == []
    for name, found in result["traced"].items():
        if name.startswith("chunked"):
            assert "cannot trace its loops" in found
        else:
            assert found == pytest.approx(0, abs=1e-6), name
    assert len(result["traced"]) == 10


@pytest.mark.slow
@pytest.mark.parametrize("every", [pytest.param(2, marks=pytest.mark.slow), 12])
def test_jax(expected_file, every):
    """JAX compiles each case for a second or two: the quick test takes every twelfth."""
    result = answer("jax", HERE / "kernel_script.py", expected_file, every)
    check_differences(result)
    numbers = {*NUMBERS[::every], EVERY}
    assert {f"chunked {number}" for number in numbers} <= set(result["differences"])
    assert result["chosen"] == ["plain", "plain", "chunked", "plain"]
    assert "needs a CUDA GPU" in result["flash"]
    assert "first derivatives only" in result["second gradient"]
    assert result["unknown length"] < 1e-6
    check_extreme(result["extreme"])
    assert result["lost"] == []
    # Memory: that of weights is T S numbers for each head, that of chunks grows as T does.
    largest = result["largest"]
    assert largest["plain 4096"] >= 2 * 4096**2
    assert largest["plain 4096"] == 4 * largest["plain 2048"]
    assert largest["chunked 4096"] <= 2 * 512**2
    assert largest["chunked 4096"] <= 2 * largest["chunked 2048"]


@pytest.mark.slow
def test_cudnn(expected_file):
    """What cuDNN is told and what is done around it; JAX's own kernel computes in its place.

    Where there is a CUDA GPU the script leaves that to cuDNN.
    """
    result = answer("jax", HERE / "cudnn_script.py", expected_file)
    assert result["here"] == "flash" or "needs a CUDA GPU" in result["here"]
    for number, difference in result["differences"].items():
        assert difference < 0.1, number
    assert len(result["differences"]) == EVERY // 2 + 3
    told = {name: given for name, (_, given) in result["told"].items()}
    chosen = {name for name, (kernel, _) in result["told"].items() if kernel == "flash"}
    assert chosen == {"bare", "causal", "lengths", "causal lengths", "window"}
    without = {"implementation": "cudnn", "scale": 1 / 12**0.5, "is_causal": False}
    square = {**without, "shapes": [[2, 130, 4, 16], [2, 130, 2, 16]]}
    whole = {"mask": [2, 1, 130, 130]}
    for name, given in {
        "bare": square,
        "short": {**without, "shapes": [[2, 1, 4, 16], [2, 130, 2, 16]]},
        "causal": {**square, "is_causal": True},
        "lengths": {
            **without,
            "shapes": [[2, 131, 4, 16], [2, 131, 2, 16]],
            "key_value_seq_lengths": [2],
        },
        "causal lengths": {**square, "is_causal": True, "key_value_seq_lengths": [2]},
        "window": {**square, "is_causal": True, "local_window_size": [6, 0]},
        "window lengths": {**square, "is_causal": True, **whole},
        "both ways": {**square, "mask": [1, 1, 130, 130]},
        "not square": {
            **without,
            "shapes": [[2, 130, 4, 16], [2, 132, 2, 16]],
            "mask": [1, 1, 130, 132],
        },
        "mask": {
            **without,
            "shapes": [[2, 130, 4, 16], [2, 132, 2, 16]],
            "mask": [2, 1, 130, 132],
        },
        "bias": {**square, "is_causal": True, "mask": [1, 4, 130, 130], "bias": [1, 4, 130, 130]},
    }.items():
        assert told[name] == given, name
    words = ["flash", "float16 and bfloat16", "width of 256", "flash", "width of 128", "flash"]
    for reason, word in zip(result["reasons"], [*words, "8.0 or more"], strict=True):
        assert word in reason


def x(T=4, H=4, dtype="float32"):
    return ops.ones((1, T, 2, H), dtype=dtype)


def test_what_is_chosen_here(monkeypatch):
    """TensorFlow has no flash attention; long sequences are those of known lengths."""
    assert choose_attention_kernel(x(), x(), x()) == "plain"
    assert choose_attention_kernel(x(), x(), x(), kernel="chunked") == "chunked"
    monkeypatch.setitem(attention_kernels.CHUNKED_FROM, "tensorflow", 20)
    assert choose_attention_kernel(x(4), x(4), x(4)) == "plain"
    assert choose_attention_kernel(x(4), x(5), x(5)) == "chunked"
    assert choose_attention_kernel(x(4), x(5), x(5), dropout=0.1) == "plain"
    assert choose_attention_kernel(x(4), x(5), x(5), return_attention_scores=True) == "plain"
    assert choose_attention_kernel(x(9), x(9), x(9), kernel="plain") == "plain"
    chosen = []

    @tf.function(input_signature=[tf.TensorSpec((None, None, 2, 4))], autograph=False)
    def call(x):
        chosen.append(choose_attention_kernel(x, x, x))
        return dot_product_attention(x, x, x)

    call(x(9))
    assert set(chosen) == {"plain"}
    # "auto" is what was chosen.
    calls = []
    monkeypatch.setattr(
        "keras_attn.ops.attention.chunked_attention", lambda *a: calls.append(a) or a[2]
    )
    dot_product_attention(x(9), x(9), x(9))
    dot_product_attention(x(4), x(4), x(4))
    assert len(calls) == 1


@pytest.mark.parametrize(
    "kernel, options, words",
    [
        ("chunked", {"return_attention_scores": True}, "attention_maps"),
        ("chunked", {"dropout": 0.1}, "dropout=0.1"),
        ("flash", {}, "KERAS_BACKEND=jax"),
        ("flash", {"return_attention_scores": True}, "attention_maps"),
        ("flash", {"softcap": 2.0}, "no `softcap`"),
        ("flash", {"sinks": np.zeros(2, "float32")}, "no `sinks`"),
        ("flash", {"score_mod": lambda scores, *_: scores}, "no `score_mod`"),
        ("fast", {}, "'auto', 'plain', 'chunked', 'flash'"),
    ],
)
def test_a_kernel_that_cannot_be_had(kernel, options, words):
    for function in (choose_attention_kernel, dot_product_attention):
        with pytest.raises(ValueError, match=words) as error:
            function(x(), x(), x(), kernel=kernel, **options)
        assert kernel in str(error.value)


def test_symbolic_tensors():
    """A function alone, in a functional model: the formula can be traced, kernels cannot."""
    inputs = Input((4, 2, 3))
    assert tuple(dot_product_attention(inputs, inputs, inputs).shape) == (None, 4, 2, 3)
    with pytest.raises(ValueError, match="within a layer"):
        dot_product_attention(inputs, inputs, inputs, kernel="chunked")


@pytest.mark.parametrize(
    "options, words",
    [
        ({"key_lengths": [1, 2]}, r"\(1,\).*\(2,\)"),
        ({"key_lengths": [1.0]}, "float32"),
        ({"key_lengths": [[1]]}, r"\(1, 1\)"),
        ({"sliding_window": 0}, "Received: 0"),
        ({"sliding_window": 2.5}, "Received: 2.5"),
        ({"sliding_window": True}, "Received: True"),
        ({"sink_tokens": 2}, "sink_tokens=2 without"),
        ({"sliding_window": 2, "sink_tokens": -1}, "Received: -1"),
        ({"softcap": 0.0}, "Received: 0.0"),
        ({"softcap": True}, "Received: True"),
        ({"sinks": np.zeros(3, "float32")}, r"\(2,\).*\(3,\)"),
        ({"query_positions": [[0, 1, 2, 3]]}, "Received: neither"),
        ({"mask_mod": lambda head, q, k: q >= k, "key_positions": [[1]]}, r"\(1, 1\)"),
        ({"mask_mod": lambda head, q, k: ops.cast(q, "float32")}, "float32"),
        ({"mask_mod": lambda head, q, k: (q >= k)[0]}, "broadcast"),
        ({"score_mod": lambda scores, *_: scores[..., :1]}, r"\(1, 2, 4, 1\)"),
    ],
)
def test_lengths_and_windows_that_are_none(options, words):
    with pytest.raises(ValueError, match=words):
        dot_product_attention(x(), x(), x(), **options)


@pytest.mark.parametrize("T, S", [(1, 1), (3, 1), (1, 4), (0, 3), (2, 0)])
def test_short_and_empty(T, S):
    for options in ({}, {"use_causal_mask": True}, {"key_lengths": np.array([1])}):
        found = dot_product_attention(x(T), x(S), x(S), kernel="chunked", **options)
        wanted = dot_product_attention(x(T), x(S), x(S), kernel="plain", **options)
        np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["quick", pytest.param("whole", marks=pytest.mark.slow)])
def test_training_for_a_gpu_is_lowered_to_cudnn(how):
    """On a machine without one: the kernels are in the program, and what they do without is not."""
    result = answer("jax", HERE / "lowering_script.py", how)
    differences = result.pop("differences")
    assert differences["by lengths"]
    assert differences["calls"] == 4  # traces
    assert differences["largest"] < 0.02  # of bfloat16
    cudnn = ["__cudnn$fmhaSoftmax", "__cudnn$fmhaSoftmaxBackward"]
    for name, found in result.items():
        case = name.split()[0]
        asks = case in ("mask", "block", "causal")
        assert found["kernels"] == ([] if case in ("each", "plain") else cudnn), name
        assert found["conditional"] == asks, name
        # Where the mask decides the plain way is beside them, and hands no weights on.
        assert found["of all pairs"] == (asks or case in ("each", "plain")), name
        assert not found["kept for gradients"], name
    assert len(result) == (14 if how == "whole" else 8)
