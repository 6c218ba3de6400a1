"""Cases of dot-product attention that every kernel has to compute, and how one is run.

Imported by tests in this process and by `kernel_script.py` in a process of another backend.
"""

import contextlib
import itertools

import keras
import numpy as np
from keras import ops

from keras_attn.ops import chunked_attention, dot_product_attention

B = 2
LENGTHS = ((5, 5), (9, 9), (7, 12), (11, 6))
HEADS = ((2, 2), (4, 2), (3, 1))


def _cases():
    """Every length with and without a causal mask; the other options in turn, of each length."""
    masks = itertools.cycle([None, "BNTS", "B1TS", "B11S", "TS", None, "1N1S"])
    biases = itertools.cycle([None, "1NTS", "1N1S", None, "BNT1", "11TS", "BNTS", "1111", "S"])
    heads, values = itertools.cycle(HEADS), itertools.cycle([None, 3, 7, None, 5])
    lengths, scales = itertools.cycle([False, True]), itertools.cycle([None, 0.7, None])
    windows = itertools.cycle([None, 3, 1, None, 4])
    cases = []
    for (T, S), causal, _ in itertools.product(LENGTHS, (False, True), range(4)):
        cases.append(
            {
                "T": T,
                "S": S,
                "heads": next(heads),
                "value_dim": next(values),
                "mask": next(masks),
                "bias": next(biases),
                "causal": causal,
                "lengths": next(lengths),
                "window": next(windows),
                "scale": next(scales),
            }
        )
        if len(cases) % 8 == 0:
            next(lengths)
    return cases


CASES = _cases()
# What goes to a kernel without a mask.
BARE = {"T": 9, "S": 9, "heads": (4, 2), "value_dim": None, "mask": None, "bias": None}
BARE = {**BARE, "causal": False, "lengths": False, "window": None, "scale": None}
CASES += [{**BARE, "causal": True}, {**BARE, "lengths": True}, {**BARE, "window": 2}]
CASES += [{**BARE, "causal": True, "lengths": True}, {**BARE, "causal": True, "window": 2}]
for case in CASES:
    case["options"] = ()
BARE = {**BARE, "T": 7, "S": 12, "options": ()}
EVERY_OPTION = len(CASES)
CASES += [
    {
        **BARE, "mask": "BNTS", "bias": "1NTS", "causal": True, "window": 3, "value_dim": 5,
        "options": ("softcap", "sinks", "sink_tokens", "score_mod", "mask_mod", "positions"),
    },
    {**BARE, "bias": "1N1S", "options": ("softcap",)},
    {**BARE, "mask": "BNTS", "options": ("sinks",)},
    {**BARE, "window": 3, "lengths": True, "options": ("sink_tokens",)},
    {**BARE, "causal": True, "options": ("mask_mod",)},
    {**BARE, "bias": "BNTS", "options": ("score_mod", "positions")},
    {**BARE, "window": 2, "causal": True, "options": ("sink_tokens", "mask_mod", "positions")},
]  # fmt: skip
SINK_TOKENS = 5  # a chunk of 4 and one key of the next


def fused(number):
    """Whether fused kernels have the options of a case."""
    return not {"softcap", "sinks", "score_mod"} & set(CASES[number]["options"])


def changed(scores, head, query, key):
    """A function of scores that bends them, each head otherwise."""
    if not isinstance(scores, np.ndarray):
        head, query, key = (ops.cast(x, ops.dtype(scores)) for x in (head, query, key))
    sine = np.sin if isinstance(scores, np.ndarray) else ops.sin
    return sine(scores) * (1.0 + 0.5 * head) - 0.1 * abs(query - key)


def shown(head, query, key):
    """A function of visibility: some distances, each head otherwise."""
    return (query - key) % 3 != head % 2


def _shape(letters, sizes):
    return tuple(sizes[letter] for letter in letters)


def make(number):
    """Tensors that are differentiated, and those that hide, as arrays of float64."""
    case = CASES[number]
    rng = np.random.default_rng(number)
    (N, K), T, S, H = case["heads"], case["T"], case["S"], 4
    sizes = {"B": B, "N": N, "T": T, "S": S, "1": 1}
    width = case["value_dim"] or H
    arrays = {
        "query": rng.normal(size=(B, T, N, H)),
        "key": rng.normal(size=(B, S, K, H)),
        "value": rng.normal(size=(B, S, K, width)),
        "upstream": rng.normal(size=(B, T, N, width)),
    }
    if case["mask"]:
        mask = rng.random(_shape(case["mask"], sizes)) > 0.3
        if case["mask"][-2:] == "TS":
            mask[..., 1, :] = False  # a query that sees no key
        arrays["mask"] = mask
    if case["bias"]:
        arrays["bias"] = rng.normal(size=_shape(case["bias"], sizes))
        if case["bias"][-1] == "S":
            arrays["bias"][..., 2] = -np.inf
    if case["lengths"]:
        arrays["key_lengths"] = np.array([S - 2, 0 if case["mask"] is None else S], "int32")
    if "sinks" in case["options"]:
        arrays["sinks"] = rng.normal(size=N)
    if "positions" in case["options"]:
        arrays["query_positions"] = rng.integers(0, 20, (B, T)).astype("int32")
        arrays["key_positions"] = rng.integers(0, 20, (1, S)).astype("int32")
    return arrays


def settings(number):
    """The arguments that are no tensors."""
    case = CASES[number]
    return {
        "scale": case["scale"],
        "use_causal_mask": case["causal"],
        "sliding_window": case["window"],
        "softcap": 0.8 if "softcap" in case["options"] else None,
        "sink_tokens": SINK_TOKENS if "sink_tokens" in case["options"] else 0,
        "score_mod": changed if "score_mod" in case["options"] else None,
        "mask_mod": shown if "mask_mod" in case["options"] else None,
    }


def head_and_positions(number, arrays):
    """The arguments of the functions, as arrays that broadcast to `(B, N, T, S)`."""
    case = CASES[number]
    S, T = case["S"], case["T"]
    query = arrays.get("query_positions", np.arange(S - T, S)[None])
    key = arrays.get("key_positions", np.arange(S)[None])
    head = np.arange(case["heads"][0])
    return head[None, :, None, None], query[:, None, :, None], key[:, None, None, :]


def visible(number, arrays):
    """Which key is seen by which query, `(B, N, T, S)`: by the words of the documentation."""
    case = CASES[number]
    N, T, S = case["heads"][0], case["T"], case["S"]
    seen = np.ones((B, N, T, S), bool)
    if "mask" in arrays:
        seen &= arrays["mask"]
    if "bias" in arrays:
        seen &= arrays["bias"] != -np.inf
    if "mask_mod" in case["options"]:
        seen &= shown(*head_and_positions(number, arrays))
    for b, t, s in itertools.product(range(B), range(T), range(S)):
        position = t + S - T
        ahead = case["causal"] and s > position
        after = "key_lengths" in arrays and s >= arrays["key_lengths"][b]
        far = case["window"] is not None and abs(position - s) >= case["window"]
        far &= s >= settings(number)["sink_tokens"]
        if ahead or after or far:
            seen[b, :, t, s] = False
    return seen


def reference(number, arrays):
    """The context, one softmax after the other, in float64."""
    case = CASES[number]
    q, k, v = arrays["query"], arrays["key"], arrays["value"]
    seen = visible(number, arrays)
    N, K = case["heads"]
    scale = case["scale"] or 1 / np.sqrt(q.shape[3])
    bias = np.broadcast_to(arrays.get("bias", 0.0), seen.shape)
    context = np.zeros((B, case["T"], N, v.shape[3]))
    head_of, t_of, s_of = (
        np.broadcast_to(x, seen.shape) for x in head_and_positions(number, arrays)
    )
    for b, n, t in itertools.product(range(B), range(N), range(case["T"])):
        keys = np.flatnonzero(seen[b, n, t])
        if len(keys):
            head = n // (N // K)
            scores = k[b, keys, head] @ q[b, t, n] * scale
            if "softcap" in case["options"]:
                scores = 0.8 * np.tanh(scores / 0.8)
            scores = scores + bias[b, n, t, keys]
            if "score_mod" in case["options"]:
                at = (b, n, t, keys)
                scores = changed(scores, head_of[at], t_of[at], s_of[at])
            weights = np.exp(scores)
            total = weights.sum() + (np.exp(arrays["sinks"][n]) if "sinks" in arrays else 0)
            context[b, t, n] = weights / total @ v[b, keys, head]
    return context


DIFFERENTIATED = ("query", "key", "value", "bias", "sinks")
HIDING = ("mask", "key_lengths", "query_positions", "key_positions")


def run(number, kernel, dtype="float32", arrays=None, jit=None, unknown=False):
    """The context and the gradients of what is differentiated, as float64 arrays by name."""
    arrays = arrays or make(number)
    names = [name for name in DIFFERENTIATED if name in arrays]
    tensors = [ops.convert_to_tensor(arrays[name], dtype) for name in names]
    upstream = ops.convert_to_tensor(arrays["upstream"], dtype)
    hiding = {n: ops.convert_to_tensor(arrays[n]) for n in HIDING if n in arrays}

    def attend(*tensors, **hiding):
        return dot_product_attention(
            **dict(zip(names, tensors, strict=True)), **hiding, **settings(number), kernel=kernel
        )

    backend = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}[keras.backend.backend()]
    context, gradients = backend(attend, tensors, hiding, upstream, jit, unknown)
    results = dict(zip(["context", *names], [context, *gradients], strict=True))
    assert keras.backend.standardize_dtype(context.dtype) == dtype
    return {n: np.asarray(ops.convert_to_numpy(ops.cast(x, "float64"))) for n, x in results.items()}


def _tensorflow(attend, tensors, hiding, upstream, jit, unknown):
    import tensorflow as tf

    def both(tensors, hiding, upstream):
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            context = attend(*tensors, **hiding)
        return context, tape.gradient(context, tensors, output_gradients=upstream)

    if jit is not None:

        def spec(x, known):
            """Sizes of 1 and the axes `known` stay known."""
            shape = [s if s == 1 or a in known else None for a, s in enumerate(x.shape)]
            return tf.TensorSpec(shape if unknown else x.shape, x.dtype)

        signature = [
            [*(spec(x, (2, 3)) for x in tensors[:3]), *(spec(x, (1,)) for x in tensors[3:])],
            {name: spec(x, (1,) if len(x.shape) == 4 else ()) for name, x in hiding.items()},
            spec(upstream, (2, 3)),
        ]
        both = tf.function(both, input_signature=signature, jit_compile=jit, autograph=False)
    return both(tensors, hiding, upstream)


def _jax(attend, tensors, hiding, upstream, jit, unknown):
    import jax

    def both(tensors, hiding, upstream):
        context, vjp = jax.vjp(lambda *x: attend(*x, **hiding), *tensors)
        return context, vjp(upstream)

    return (both if jit is False else jax.jit(both))(tensors, hiding, upstream)


def _torch(attend, tensors, hiding, upstream, jit, unknown):
    tensors = [x.clone().requires_grad_(True) for x in tensors]
    context = attend(*tensors, **hiding)
    context.backward(upstream)
    return context.detach(), [x.grad for x in tensors]


@contextlib.contextmanager
def chunks_of(size):
    """Makes chunks small, so that there are some."""
    before, chunked_attention.CHUNK = chunked_attention.CHUNK, size
    try:
        yield
    finally:
        chunked_attention.CHUNK = before


def largest_difference(number, results, expected, arrays=None):
    """Of all results, relative to 1 where they are larger; infinite where rows are not exact.

    A query that sees no key has a context and a gradient of exactly zero, and a key that no query
    sees has a gradient of zero.
    """
    seen = visible(number, arrays or make(number)).any(-1)  # (B, N, T)
    unseeing = ~np.moveaxis(seen, 1, 2)
    largest = 0.0
    for name, wanted in expected.items():
        found = results[name]
        if not np.isfinite(found).all() or found.shape != wanted.shape:
            return float("inf")
        if name in ("context", "query") and (found[unseeing] != 0).any():
            return float("inf")
        difference = np.abs(found - wanted) / np.maximum(np.abs(wanted), 1)
        largest = max(largest, float(difference.max()))
    return largest
