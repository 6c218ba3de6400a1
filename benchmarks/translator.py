"""One translator for all contenders: its weights, sources to decode and pairs to train with.

A post-norm encoder-decoder Transformer (Vaswani et al., 2017) with ReLU, sinusoidal positions, and
one vocabulary whose embedding, scaled by sqrt(D), is the output's matrix. NumPy alone.
"""

from collections.abc import Iterator

import numpy as np

PAD, START, END = 0, 1, 2
FIRST = 3  # of the ordinary tokens

Case = dict

# Of the initial weights, beside Glorot's: sharp attention, so that what is decoded varies.
GAINS = {
    "self": {"query": 4.5, "key": 4.5, "value": 1.5, "output": 6.0},
    "cross": {"query": 4.5, "key": 4.5, "value": 1.5, "output": 0.5},
}


def sublayers(case: Case) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The side, the prefix and the attentions of each block."""
    for side, attentions in (("encoder", ("self",)), ("decoder", ("self", "cross"))):
        for i in range(case["layers"]):
            yield side, f"{side}.{i}", attentions


def make_weights(case: Case) -> dict[str, np.ndarray]:
    """Random weights by name, kernels `(in, out)`; the end token never wins."""
    rng = np.random.default_rng(0)
    D, F, V = case["dim"], case["intermediate"], case["vocabulary"]
    weights = {}

    def dense(name, rows, columns, gain):
        limit = gain * np.sqrt(6.0 / (rows + columns))
        weights[f"{name}.kernel"] = rng.uniform(-limit, limit, (rows, columns))
        weights[f"{name}.bias"] = rng.normal(0.0, 0.01, columns)

    def norm(name):
        weights[f"{name}.gamma"] = rng.normal(1.0, 0.05, D)
        weights[f"{name}.beta"] = rng.normal(0.0, 0.05, D)

    weights["embedding"] = rng.normal(0.0, D**-0.5, (V, D))
    weights["embedding"][[PAD, END]] = 0.0  # a logit of 0, far below the greatest of the others
    for _, prefix, attentions in sublayers(case):
        for attention in attentions:
            for part, gain in GAINS[attention].items():
                dense(f"{prefix}.{attention}.{part}", D, D, gain)
            norm(f"{prefix}.{attention}.norm")
        dense(f"{prefix}.hidden", D, F, 1.5)
        dense(f"{prefix}.output", F, D, 0.15)
        norm(f"{prefix}.norm")
    return {name: value.astype("float32") for name, value in weights.items()}


def sinusoids(length: int, dim: int) -> np.ndarray:
    """Positions `(length, dim)`, sine and cosine in turns."""
    rates = 10000.0 ** (-(np.arange(dim) // 2 * 2) / dim)
    angles = np.arange(length)[:, None] * rates
    return np.where(np.arange(dim) % 2, np.cos(angles), np.sin(angles)).astype("float32")


def sources(case: Case) -> np.ndarray:
    """Sources to decode `(batch, source)`, right-padded, half to all of the positions."""
    rng = np.random.default_rng(1)
    ids = rng.integers(FIRST, case["vocabulary"], (case["batch"], case["source"]))
    lengths = rng.integers(-(-case["source"] // 2), case["source"] + 1, case["batch"])
    lengths[0] = case["source"]
    return np.where(np.arange(case["source"]) < lengths[:, None], ids, PAD).astype("int32")


def make_pairs(case: Case) -> tuple[list[list[int]], list[list[int]]]:
    """Sources and targets of log-normal lengths, median 20, at most `longest`."""
    rng = np.random.default_rng(2)
    source = np.exp(rng.normal(3.0, 0.6, case["pairs"]))
    target = source * np.exp(rng.normal(0.0, 0.15, case["pairs"]))
    lengths = np.clip(np.stack([source, target]).astype(int), 3, case["longest"] - 1)
    return tuple(
        [rng.integers(FIRST, case["vocabulary"], n).tolist() for n in side] for side in lengths
    )


def plain_batches(case: Case) -> Iterator[tuple[dict, np.ndarray, np.ndarray]]:
    """Shuffled batches of `sentences` pairs, padded to the longest of the batch.

    Lengths are multiples of `multiple`, as in `TokenBatches`: fewer shapes for compilers.
    """
    sides = make_pairs(case)
    order = np.random.default_rng(3).permutation(case["pairs"])
    for first in range(0, case["pairs"], case["sentences"]):
        rows = order[first : first + case["sentences"]]
        padded = []
        for side, start in zip(sides, ([], [START]), strict=True):
            lists = [[*start, *side[row], END] for row in rows]
            width = max(map(len, lists)) - len(start)
            width = -(-width // case["multiple"]) * case["multiple"] + len(start)
            ids = np.full((len(rows), width), PAD, "int32")
            for row, values in zip(ids, lists, strict=True):
                row[: len(values)] = values
            padded.append(ids)
        source, target = padded
        labels = target[:, 1:]
        inputs = np.where(labels != PAD, target[:, :-1], PAD)
        yield (
            {"source_ids": source, "target_ids": inputs},
            labels,
            (labels != PAD).astype("float32"),
        )
