"""Training steps: forward, backward, Adam.

The suite measures a stack of encoder blocks, compared with only its matrix products, a stack of
decoder blocks, on vectors, a recurrent decoder, and the whole translator with embeddings and loss.
The translator trains on pairs of log-normal lengths, each contender with its usual batches:
keras_attn's are bucketed by length (`TokenBatches`); the others' are shuffled, contain `sentences`
pairs each, and are padded to the longest. For other sizes, choose `sentences` so that the others
have as many batches as keras_attn.
"""

from benchmarks.suite import Case, Suite, Target
from benchmarks.suites.families import (
    KERAS_ATTN,
    KERAS_HUB,
    PRODUCTS,
    STOCK,
    TORCH,
    TORCH_COMPILED,
)

RNN = (
    KERAS_ATTN.having("keras_attn, dot product", attention="dot"),
    KERAS_ATTN.having("keras_attn, additive", attention="additive"),
    STOCK.having("keras.layers.RNN, then Attention", attention="after"),
    STOCK.having("keras.layers.RNN, no attention", attention=None),
    TORCH,
)


def cases(sizes: dict) -> list[Case]:
    """Each model, without dropout and with it."""
    found = []
    for rate in (0.0, sizes["dropout"]):
        values, ending = {"dropout": rate}, f", dropout {rate:g}" if rate else ""
        everyone = (KERAS_ATTN, KERAS_HUB, STOCK, TORCH, TORCH_COMPILED)
        bound = () if rate else (PRODUCTS,)
        found += [
            Case(f"encoder stack{ending}", "encoder_stack", (*everyone, *bound), values, "tokens"),
            Case(
                f"encoder-decoder{ending}",
                "encoder_decoder",
                (KERAS_ATTN, KERAS_HUB, TORCH, TORCH_COMPILED),
                {**values, "batch": 0},
                "target tokens",
            ),
        ]
    values = {"dropout": 0.0}
    both = (KERAS_ATTN, KERAS_HUB)
    found.insert(1, Case("decoder stack", "decoder_stack", both, values, "tokens"))
    values = {"source": sizes["length"], "target": sizes["length"]}
    return [*found, Case("RNN decoder", "rnn_decoder", RNN, values, "tokens")]


COMPILED = ("TensorFlow XLA", "JAX")
SUITE = Suite(
    "training",
    "training steps of stacks, of a translator and of a recurrent decoder",
    sizes={
        "dim": 256, "layers": 4, "heads": 8, "intermediate": 1024, "vocabulary": 8000,
        "batch": 32, "length": 64, "steps": 2, "dropout": 0.1,
        "longest": 128, "pairs": 256, "batch_tokens": 2048, "sentences": 43, "multiple": 8,
        "shapes": 4,
    },
    quick={
        "dim": 32, "layers": 1, "heads": 2, "intermediate": 64, "vocabulary": 200,
        "batch": 4, "length": 8, "longest": 32, "pairs": 24, "batch_tokens": 256, "sentences": 8,
        "multiple": 16, "shapes": 2,
    },
    cases=cases,
    targets=(
        Target("encoder stack*", "keras_hub", 1.3, COMPILED),
        Target("encoder-decoder*", "keras_hub", 1.5),
    ),
)  # fmt: skip
