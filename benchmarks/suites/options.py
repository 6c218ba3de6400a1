"""What options of a model and of its training cost and save: time and peak memory of steps."""

from benchmarks.suite import Case, Suite
from benchmarks.suites.families import ADAM, KERAS_ADAM, KERAS_ATTN, PYTORCH

DEEP = (
    KERAS_ATTN.having(),
    KERAS_ATTN.having("keras_attn, rematerialize", rematerialize=True),
    KERAS_ATTN.having("keras_attn, mixed_bfloat16", policy="mixed_bfloat16"),
)
STEPS = (
    KERAS_ATTN.having("keras_attn, one batch at a time", at_once=1),
    KERAS_ATTN.having("keras_attn, several batches at a time", at_once=8),
)
UPDATES = (
    ADAM,
    KERAS_ADAM,
    PYTORCH.having("PyTorch", fused=False),
    PYTORCH.having("PyTorch, fused", fused=True),
)


def cases(sizes: dict) -> list[Case]:
    """A deep stack in several ways, an epoch of small batches of a small one, updates alone."""
    small = {
        "dim": sizes["small"], "heads": 2, "intermediate": 4 * sizes["small"], "layers": 1,
        "batch": 4, "length": 16,
    }  # fmt: skip
    updated = {"dim": sizes["width"], "layers": 6, "vocabulary": sizes["vocabulary"]}
    return [
        Case("deep stack", "deep_stack", DEEP, {}, "tokens"),
        Case("small batches", "small_batches", STEPS, small, "batches"),
        Case("update", "update", UPDATES, updated, "weights"),
    ]


SUITE = Suite(
    "options",
    "blocks that are computed again, half precision, several batches at a time, updates",
    sizes={
        "dim": 128, "heads": 4, "intermediate": 512, "layers": 12, "batch": 16, "length": 128,
        "small": 32, "batches": 64, "width": 384, "vocabulary": 30522,
    },
    quick={
        "dim": 16, "heads": 2, "intermediate": 32, "layers": 2, "batch": 2, "length": 8,
        "small": 8, "batches": 8, "width": 8, "vocabulary": 50,
    },
    cases=cases,
)  # fmt: skip
