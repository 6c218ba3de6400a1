"""One BERT for all contenders: its weights, texts with masked words, and texts to read.

A post-norm encoder of tokens, segments and positions (Devlin et al., 2019) with exact GELU, and the
head of masked words, whose matrix is the table of the tokens. NumPy alone.
"""

import numpy as np

FIRST = 5  # of the ordinary tokens; 0 is padding

Case = dict


def blocks(case: Case) -> list[str]:
    """The prefix of each block."""
    return [f"block.{i}" for i in range(case["layers"])]


def make_weights(case: Case, head: bool = False) -> dict[str, np.ndarray]:
    """Random weights by name, kernels `(in, out)`; with the head of masked words if asked for."""
    rng = np.random.default_rng(0)
    D, F, V = case["dim"], case["intermediate"], case["vocabulary"]
    weights = {}

    def dense(name, rows, columns):
        weights[f"{name}.kernel"] = rng.normal(0.0, rows**-0.5, (rows, columns))
        weights[f"{name}.bias"] = rng.normal(0.0, 0.02, columns)

    def norm(name):
        weights[f"{name}.gamma"] = rng.normal(1.0, 0.05, D)
        weights[f"{name}.beta"] = rng.normal(0.0, 0.05, D)

    for name, rows in (("tokens", V), ("positions", case["longest"]), ("segments", 2)):
        weights[name] = rng.normal(0.0, 0.02, (rows, D))
    norm("embedding.norm")
    for prefix in blocks(case):
        for part in ("query", "key", "value", "output"):
            dense(f"{prefix}.{part}", D, D)
        norm(f"{prefix}.attention.norm")
        dense(f"{prefix}.hidden", D, F)
        dense(f"{prefix}.back", F, D)
        norm(f"{prefix}.norm")
    if head:
        dense("head", D, D)
        norm("head.norm")
        weights["head.bias.tokens"] = rng.normal(0.0, 0.02, V)
    return {name: value.astype("float32") for name, value in weights.items()}


def number_masked(case: Case) -> int:
    """Places of masked words in a row of the greatest length."""
    return max(1, round(case["share"] * case["length"]))


def masked_rows(case: Case) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Rows with masked words, of `steps` batches: inputs, labels and weights.

    Nine rows of ten are full, as in BERT's training; the others have half of the positions or more.
    Places beyond those of a shorter row weigh nothing.
    """
    rng = np.random.default_rng(1)
    rows, length, places = case["steps"] * case["batch"], case["length"], number_masked(case)
    shorter = rng.integers(-(-length // 2), length + 1, rows)
    lengths = np.where(np.arange(rows) % 10 == 9, shorter, length)
    mask = np.arange(length) < lengths[:, None]
    ids = np.where(mask, rng.integers(FIRST, case["vocabulary"], (rows, length)), 0)
    segments = (np.arange(length) >= lengths[:, None] // 2) & mask
    count = np.clip(np.round(case["share"] * lengths).astype(int), 1, places)
    weights = np.arange(places) < count[:, None]
    positions = np.zeros((rows, places), int)
    for row, taken in zip(positions, zip(lengths, count, strict=True), strict=True):
        row[: taken[1]] = np.sort(rng.permutation(taken[0])[: taken[1]])
    labels = np.where(weights, rng.integers(FIRST, case["vocabulary"], weights.shape), 0)
    inputs = {
        "token_ids": ids.astype("int32"),
        "segment_ids": segments.astype("int32"),
        "padding_mask": mask,
        "masked_positions": positions.astype("int32"),
    }
    return inputs, labels.astype("int32"), weights.astype("float32")


def read_batches(case: Case, multiple: int = 1) -> list[np.ndarray]:
    """Ids `(batch, S)` of texts of log-normal lengths, median 20, from 8 to `longest` tokens.

    The texts come in any order, unless `sorted`: then they are sorted by length before they are
    put into batches. A batch is padded to its longest text.

    Args:
        case: Sizes.
        multiple: The padded lengths are multiples of it: fewer shapes for compilers.
    """
    rng = np.random.default_rng(2)
    lengths = np.exp(rng.normal(3.0, 0.6, case["texts"])).astype(int)
    lengths = np.clip(lengths, case["shortest"], case["longest"])
    texts = [rng.integers(FIRST, case["vocabulary"], n) for n in lengths]
    if case["sorted"]:
        texts.sort(key=len)
    made = []
    for first in range(0, case["texts"], case["batch"]):
        some = texts[first : first + case["batch"]]
        width = -(-max(map(len, some)) // multiple) * multiple
        ids = np.zeros((len(some), min(width, case["longest"])), "int32")
        for row, values in zip(ids, some, strict=True):
            row[: len(values)] = values
        made.append(ids)
    return made
