"""int8 beside float32, and LoRA beside the training of all weights: size, speed, agreement.

The first contender of a case is float32, or trains all weights; ratios above 1 are in its favour.
"""

from dataclasses import replace

from benchmarks.suite import OURS, Case, Family, Suite

LIGHTER = "benchmarks.peers.lighter"
FLOAT = Family(f"{OURS}, float32", LIGHTER, settings={"int8": False})
INT8 = Family(f"{OURS}, int8", LIGHTER, settings={"int8": True})


def cases(sizes: dict) -> list[Case]:
    """A file, a forward pass, greedy search, training."""
    both, many = (FLOAT, INT8), sizes["many"]
    once = tuple(replace(family, only=("TensorFlow",)) for family in both)
    rank = sizes["rank"]
    trained = (
        Family(f"{OURS}, all weights", LIGHTER, settings={"rank": 0}),
        Family(f"{OURS}, LoRA of rank {rank}", LIGHTER, settings={"rank": rank}),
    )
    return [
        Case("file", "saving", once, {"batch": many}, unit="bytes"),
        Case("forward pass", "reading", both, {"batch": many}, unit="tokens"),
        *(
            Case(
                f"greedy, batch {batch}",
                "decoding",
                both,
                {"beams": 1, "batch": batch},
                unit="sentences",
            )
            for batch in (1, many)
        ),
        Case("training", "training", trained, {"batch": many}, unit="steps"),
    ]


def remarks(sizes: dict, rows: list[dict]) -> list[str]:
    """How large the files are, and how many tokens agree."""
    lines = []
    for row in rows:
        if row["case"] == "file" and "amount" in row:
            lines.append(f"{row['contender']}: {row['amount']:,.0f} bytes of weights.")
        elif "same" in row and row["family"] == INT8.title:
            lines.append(f"{row['case']}, {row['contender']}: {row['same']:.1%} of the tokens.")
    return lines


SUITE = Suite(
    "quantization",
    "int8 beside float32, LoRA beside training all weights: size, speed, agreement",
    sizes={
        "dim": 256, "layers": 4, "heads": 8, "intermediate": 1024, "vocabulary": 8000,
        "source": 32, "target": 32, "many": 32, "rank": 8,
    },
    quick={
        "dim": 32, "layers": 1, "heads": 2, "intermediate": 64, "vocabulary": 200,
        "source": 8, "target": 8, "many": 4, "rank": 2,
    },
    cases=cases,
    remarks=remarks,
)  # fmt: skip
