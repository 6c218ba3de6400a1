"""Greedy and beam search of one translator, compared with only its matrix products.

All translators have the same weights, and decode the same sources for the same number of steps: the
end token cannot win. So all must give the same tokens. The products choose none.
"""

from benchmarks.suite import Case, Suite, Target
from benchmarks.suites.families import CTRANSLATE, KERAS_ATTN, KERAS_HUB, MARIAN, PRODUCTS


def cases(sizes: dict) -> list[Case]:
    """Each search with each batch."""
    return [
        Case(
            f"{'greedy' if beams == 1 else f'beam {beams}'}, batch {batch}",
            "decoding",
            (KERAS_ATTN, KERAS_HUB, MARIAN, CTRANSLATE, PRODUCTS),
            {"beams": beams, "batch": batch},
            unit="sentences",
        )
        for beams in (1, sizes["beam"])
        for batch in (1, sizes["many"])
    ]


SUITE = Suite(
    "decoding",
    "greedy and beam search of one translator, with caches",
    sizes={
        "dim": 256, "layers": 4, "heads": 8, "intermediate": 1024, "vocabulary": 8000,
        "source": 32, "target": 32, "many": 32, "beam": 4,
    },
    quick={
        "dim": 32, "layers": 1, "heads": 2, "intermediate": 64, "vocabulary": 200,
        "source": 8, "target": 8, "many": 4, "beam": 2,
    },
    cases=cases,
    targets=(
        Target("*", "keras_hub", 2.0),
        Target("*", "Hugging Face MarianMT", 3.0),
        Target("*", "CTranslate2", 1.0),
    ),
)  # fmt: skip
