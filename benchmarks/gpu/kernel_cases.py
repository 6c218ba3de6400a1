"""Cases of dot-product attention with their values and gradients in float64. NumPy alone.

Shapes: B batch, T queries, S keys, N query heads, K key and value heads, H their width.
"""

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

Case = dict[str, Any]
Arrays = dict[str, np.ndarray]

B = 2
DIFFERENTIATED = ("query", "key", "value", "bias")

# name: what hides keys
HIDING: dict[str, dict[str, Any]] = {
    "nothing": {},
    "lengths": {"lengths": True},
    "causal": {"causal": True},
    "causal, lengths": {"causal": True, "lengths": True},
    "causal, window": {"causal": True, "window": True},
    "window": {"window": True},
    "right padding": {"mask": "right"},
    "left padding": {"mask": "left"},
    "mask (B,T,S)": {"mask": "BTS"},
    "mask (B,1,T,S)": {"mask": "B1TS"},
    "mask (B,N,T,S)": {"mask": "BNTS"},
    "mask (1,1,T,S)": {"mask": "11TS"},
    "a hidden row": {"mask": "row"},
    "a batch row of no keys": {"lengths": True, "none": True},
    "causal, left padding": {"causal": True, "mask": "left"},
    "causal, window, lengths": {"causal": True, "window": True, "lengths": True},
    "causal, window, right padding": {"causal": True, "window": True, "mask": "right"},
    "bias": {"bias": "BNTS"},
    "causal, bias of the keys": {"causal": True, "bias": "B11S"},
    "bias that hides": {"bias": "1NTS", "minus_infinity": True},
}
# What cuDNN gets without a mask of all pairs: with every length.
BARE = ("nothing", "lengths", "causal", "causal, lengths", "causal, window")


def cases(lengths: list[list[int]], heads: list[list[int]], width: int) -> Iterator[Case]:
    """Every way to hide with lengths T, S and heads N, K in turns; the bare ones with all lengths.

    Args:
        lengths: Pairs T, S; the first one is the usual one.
        heads: Pairs N, K.
        width: Width H of a head.
    """
    count = 0
    for number, (name, hidden) in enumerate(HIDING.items()):
        several = lengths if name in BARE else {0: 0, 1 + number % (len(lengths) - 1): 0}
        for each in several:
            T, S = each if name in BARE else lengths[each]
            N, K = heads[count % len(heads)]
            case = {"T": T, "S": S, "heads": (N, K), "width": width, **hidden}
            yield {"name": f"{name}, {T} x {S}, {N}/{K} heads", **case}
            count += 1


def make(case: Case) -> Arrays:
    """What is differentiated, and what hides."""
    rng = np.random.default_rng(zlib.crc32(case["name"].encode()))
    (N, K), T, S, H = case["heads"], case["T"], case["S"], case["width"]
    arrays = {
        "query": rng.normal(size=(B, T, N, H)),
        "key": rng.normal(size=(B, S, K, H)),
        "value": rng.normal(size=(B, S, K, H)),
        "upstream": rng.normal(size=(B, T, N, H)),
    }
    shown = max(1, S - S // 4)
    sizes = {"B": B, "N": N, "T": T, "S": S, "1": 1}
    kind = case.get("mask")
    if kind in ("right", "left"):
        mask = np.ones((B, 1, 1, S), bool)
        mask[1, ..., slice(shown, None) if kind == "right" else slice(0, S - shown)] = False
        arrays["mask"] = mask
    elif kind:
        letters = "B1TS" if kind in ("row", "BTS") else kind
        arrays["mask"] = rng.random([sizes[letter] for letter in letters]) > 0.3
        if kind == "row":
            arrays["mask"][:, :, T // 2] = False
    if case.get("bias"):
        arrays["bias"] = rng.normal(size=[sizes[letter] for letter in case["bias"]])
        if case.get("minus_infinity"):
            arrays["bias"][..., S // 2] = -np.inf
    if case.get("lengths"):
        arrays["key_lengths"] = np.array([0 if case.get("none") else S, shown], "int32")
    return arrays


def window(case: Case) -> int | None:
    """How many keys a query sees back."""
    return max(1, case["S"] // 3) if case.get("window") else None


def visible(case: Case, arrays: Arrays) -> np.ndarray:
    """Which key is seen by which query, `(B, N, T, S)`: by the words of the documentation."""
    T, S = case["T"], case["S"]
    seen = np.ones((B, case["heads"][0], T, S), bool)
    if "mask" in arrays:
        seen &= arrays["mask"]
    if "bias" in arrays:
        seen &= arrays["bias"] != -np.inf
    if "key_lengths" in arrays:
        seen &= np.arange(S) < arrays["key_lengths"][:, None, None, None]
    ahead = np.arange(S) - (np.arange(T)[:, None] + S - T)  # of the query's own key
    if case.get("causal"):
        seen &= ahead <= 0
    if case.get("window"):
        seen &= np.abs(ahead) < window(case)
    return seen


def reference(case: Case, arrays: Arrays) -> Arrays:
    """The context and the gradients, by their formulas.

    W = softmax(s Q K^T + b), C = W V;
    dV = W^T dC;  dX = W (dC V^T - sum(dC C));  dQ = s dX K;  dK = s dX^T Q;  db = dX
    """
    q, k, v, upstream = (arrays[n] for n in ("query", "key", "value", "upstream"))
    N, K = case["heads"]
    k, v = (np.repeat(x, N // K, axis=2) for x in (k, v))
    scale = 1.0 / np.sqrt(q.shape[3])
    seen = visible(case, arrays)
    bias = np.broadcast_to(arrays.get("bias", 0.0), seen.shape)
    scores = np.where(seen, np.einsum("btnh,bsnh->bnts", q, k) * scale + bias, -np.inf)
    greatest = np.max(scores, axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(greatest), greatest, 0.0))
    total = weights.sum(-1, keepdims=True)
    weights = weights / np.where(total > 0, total, 1.0)
    context = np.einsum("bnts,bsnh->btnh", weights, v)
    of_weights = np.einsum("btnh,bsnh->bnts", upstream, v)
    of_scores = weights * (of_weights - (weights * of_weights).sum(-1, keepdims=True))
    found = {
        "context": context,
        "query": scale * np.einsum("bnts,bsnh->btnh", of_scores, k),
        "key": _of_groups(scale * np.einsum("bnts,btnh->bsnh", of_scores, q), K),
        "value": _of_groups(np.einsum("bnts,btnh->bsnh", weights, upstream), K),
    }
    if "bias" in arrays:
        shape = arrays["bias"].shape
        axes = tuple(axis for axis, size in enumerate(shape) if size != of_scores.shape[axis])
        found["bias"] = of_scores.sum(axes, keepdims=True)
    return found


def _of_groups(x: np.ndarray, K: int) -> np.ndarray:
    rows, length, N, H = x.shape
    return x.reshape(rows, length, K, N // K, H).sum(3)


def largest_error(case: Case, arrays: Arrays, found: Arrays, wanted: Arrays) -> tuple[float, str]:
    """The largest difference, relative to 1 where numbers are larger, and where it is.

    Infinite where a number is not finite, or a query that sees no key has a context or a gradient
    other than zero.
    """
    unseeing = ~np.moveaxis(visible(case, arrays).any(-1), 1, 2)  # (B, T, N)
    largest, where = 0.0, ""
    for name, expected in wanted.items():
        given = found[name]
        if given.shape != expected.shape or not np.isfinite(given).all():
            return float("inf"), name
        if name in ("context", "query") and (given[unseeing] != 0).any():
            return float("inf"), f"{name} of a query that sees no key"
        error = float((np.abs(given - expected) / np.maximum(np.abs(expected), 1.0)).max())
        if error > largest:
            largest, where = error, name
    return largest, where
