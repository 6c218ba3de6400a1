"""A Marian of OPUS-MT's size as a SavedModel, from strings to strings.

All contenders have the same random weights, read the same sources and write the same number of
tokens. keras_attn imports the folder, exports it and calls the SavedModel in which the search is
compiled by XLA or not. int8 weights may give other tokens.
"""

from benchmarks.suite import OURS, Case, Family, Suite, Target

_SAVED = "benchmarks.peers.opus"
_CTRANSLATE = "benchmarks.peers.opus_ctranslate"
_NEEDS = ("tensorflow_text", "sentencepiece", "safetensors")
_GROUPS = ("TensorFlow", "TensorFlow XLA")
FAMILIES = (
    Family(OURS, _SAVED, requires=_NEEDS, only=_GROUPS),
    Family(f"{OURS}, int8", _SAVED, settings={"int8": True}, requires=_NEEDS, only=_GROUPS),
    Family(
        "Hugging Face MarianMT", "benchmarks.peers.opus_torch", keras=False,
        requires=("torch", "transformers", "sentencepiece"),
    ),
    *(
        Family(
            f"CTranslate2, {kind}", _CTRANSLATE, keras=False, settings={"compute": kind},
            requires=("ctranslate2", "torch", "transformers", "sentencepiece"),
        )
        for kind in ("float32", "int8")
    ),
)  # fmt: skip


def cases(sizes: dict) -> list[Case]:
    """Each search with each batch, and the sizes on the disk."""
    found = [
        Case(
            f"{'greedy' if beams == 1 else f'beam {beams}'}, batch {batch}",
            "translating",
            FAMILIES,
            {"beams": beams, "batch": batch},
            unit="sentences",
        )
        for beams in (1, sizes["beam"])
        for batch in (1, sizes["many"])
    ]
    return [*found, Case("size", "file", FAMILIES, {"beams": sizes["beam"], "batch": 1}, "bytes")]


def remarks(sizes: dict, rows: list[dict]) -> list[str]:
    """The sizes, and the shares of equal translations."""
    lines = []
    for row in rows:
        if row["case"] == "size" and "amount" in row:
            lines.append(f"{row['contender']}: {row['amount'] / 1e6:,.0f} MB.")
        elif row.get("same", 1.0) < 1:
            lines.append(f"{row['case']}, {row['contender']}: {row['same']:.0%} equal texts.")
    return lines


SUITE = Suite(
    "imported",
    "an imported translator of OPUS-MT's size as a SavedModel, from strings to strings",
    sizes={
        "dim": 512, "layers": 6, "heads": 8, "intermediate": 2048, "vocabulary": 58101,
        "pieces": 8000, "source": 32, "target": 32, "many": 32, "beam": 4,
    },
    quick={
        "dim": 32, "layers": 1, "heads": 2, "intermediate": 64, "vocabulary": 600,
        "pieces": 300, "source": 8, "target": 8, "many": 3, "beam": 2,
    },
    cases=cases,
    targets=(
        Target("[gb]*", "Hugging Face MarianMT", 2.0, ("TensorFlow XLA",)),
        Target("[gb]*", "CTranslate2, float32", 0.8, ("TensorFlow XLA",)),
    ),
    remarks=remarks,
)  # fmt: skip
