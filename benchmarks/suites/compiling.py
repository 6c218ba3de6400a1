"""The first training step in a new process: building, tracing, compiling, and the step."""

from benchmarks.suite import Case, Suite, Target
from benchmarks.suites.families import KERAS_ATTN, KERAS_HUB, STOCK, TORCH_COMPILED


def cases(sizes: dict) -> list[Case]:
    """A stack, and the translator with one shape of batches."""
    values = {"warm_up": False}
    stack = (KERAS_ATTN, KERAS_HUB, STOCK, TORCH_COMPILED)
    return [
        Case("encoder stack", "encoder_stack", stack, values),
        Case("encoder-decoder", "encoder_decoder", (KERAS_ATTN, KERAS_HUB), values),
    ]


SUITE = Suite(
    "compile",
    "the first training step in a new process",
    sizes={
        "dim": 256, "layers": 4, "heads": 8, "intermediate": 1024, "vocabulary": 8000,
        "batch": 4, "length": 32, "steps": 1, "dropout": 0.1,
        "longest": 32, "pairs": 8, "batch_tokens": 256, "sentences": 8, "multiple": 32,
        "shapes": 1,
    },
    quick={
        "dim": 32, "layers": 1, "heads": 2, "intermediate": 64, "vocabulary": 200,
        "length": 8,
    },
    cases=cases,
    targets=(Target("*", "keras_hub", 1.0),),
    fresh=True,
)  # fmt: skip
