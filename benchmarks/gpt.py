"""One GPT for all contenders: its weights, rows to learn from, and prompts to continue.

A decoder of GPT-2's kind (Radford et al., 2019): norms before the sublayers, learned positions, a
tied output, biases everywhere. NumPy alone.
"""

import numpy as np

Case = dict


def blocks(case: Case) -> list[str]:
    """The prefix of each block."""
    return [f"block.{i}" for i in range(case["layers"])]


def make_weights(case: Case) -> dict[str, np.ndarray]:
    """Random weights by name, kernels `(in, out)`."""
    rng = np.random.default_rng(0)
    D, F, V = case["dim"], 4 * case["dim"], case["vocabulary"]
    weights = {}

    def dense(name, rows, columns):
        weights[f"{name}.kernel"] = rng.normal(0.0, rows**-0.5, (rows, columns))
        weights[f"{name}.bias"] = rng.normal(0.0, 0.02, columns)

    def norm(name):
        weights[f"{name}.gamma"] = rng.normal(1.0, 0.05, D)
        weights[f"{name}.beta"] = rng.normal(0.0, 0.05, D)

    for name, rows in (("tokens", V), ("positions", case["context"])):
        weights[name] = rng.normal(0.0, D**-0.5, (rows, D))
    for prefix in blocks(case):
        norm(f"{prefix}.norm_1")
        dense(f"{prefix}.qkv", D, 3 * D)
        dense(f"{prefix}.output", D, D)
        norm(f"{prefix}.norm_2")
        dense(f"{prefix}.hidden", D, F)
        dense(f"{prefix}.back", F, D)
    norm("norm")
    return {name: value.astype("float32") for name, value in weights.items()}


def rows(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Random rows of `steps` batches, and the tokens that come next, `(rows, context)` each."""
    rng = np.random.default_rng(1)
    size = case["steps"] * case["batch"], case["context"] + 1
    ids = rng.integers(1, case["vocabulary"], size).astype("int32")
    return ids[:, :-1], ids[:, 1:]


def prompts(case: Case) -> np.ndarray:
    """Ids `(batch, prompt)`."""
    rng = np.random.default_rng(2)
    return rng.integers(1, case["vocabulary"], (case["batch"], case["prompt"])).astype("int32")
