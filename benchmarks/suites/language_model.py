"""Training steps of GPTs: from ids to a step of Adam on the next tokens.

The sizes are nanoGPT's for a CPU (0.8 million weights, context 64, batches of 12, no dropout) and
four times as many weights. All contenders read the same rows, have the same initial weights, and
minimize the same loss.
"""

from benchmarks.suite import Case, Suite
from benchmarks.suites.families import GPT, PRODUCTS, TORCH_GPT


def cases(sizes: dict) -> list[Case]:
    """Both sizes, the larger one with dropout too. A run is a call of `fit` of so many steps."""
    names = "dim", "context", "batch", "steps"
    columns = (sizes[name] for name in ("dims", "contexts", "batches", "runs"))
    small, large = (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))
    families = (
        GPT,
        TORCH_GPT.having("PyTorch", compiled=False),
        TORCH_GPT.having("PyTorch, torch.compile", compiled=True),
    )
    return [
        Case(
            f"width {values['dim']}, context {values['context']}"
            + (f", dropout {rate:g}" if rate else ""),
            "language_model",
            families if rate else (*families, PRODUCTS),
            {**values, "dropout": rate},
            "tokens",
        )
        for values, rate in ((small, 0.0), (large, 0.0), (large, sizes["dropout"]))
    ]


SUITE = Suite(
    "language_model",
    "training steps of GPTs on the next tokens",
    sizes={
        "layers": 4, "heads": 4, "vocabulary": 65, "activation": "gelu", "dropout": 0.2,
        "dims": [128, 256], "contexts": [64, 128], "batches": [12, 32], "runs": [100, 16],
    },
    quick={
        "layers": 1, "heads": 2, "dims": [16, 32], "contexts": [8, 16], "batches": [2, 3],
        "runs": [2, 2],
    },
    cases=cases,
)  # fmt: skip
