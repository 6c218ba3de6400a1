"""Vectors of texts: an encoder of the sizes of MiniLM, from ids to the mean of the last states.

The texts have log-normal lengths of 8 to 64 tokens. They come one at a time; in batches of any
lengths, as requests do; or in batches of similar lengths, as when a whole collection is sorted
before it is read. The peers pad a batch to its longest text, or to the next multiple of `multiple`
where each shape is compiled. keras_attn puts the texts of a batch into at most `shapes` buckets by
length (`TextBatches`), which is part of the measured time; the padding of the peers is not. ONNX
Runtime and OpenVINO run the model of keras_attn as `export_model` writes it.
"""

from benchmarks.suite import Case, Suite
from benchmarks.suites.families import BERT, HUB_BERT, ONNX_BERT, OPENVINO_BERT, TORCH_BERT
from benchmarks.summary import ratio

WANTED = 1.5


def cases(sizes: dict) -> list[Case]:
    """One text at a time, and many."""
    many = sizes["many"]
    int8 = ONNX_BERT.having("ONNX Runtime, int8", format="onnx-int8")
    families = (BERT, HUB_BERT, TORCH_BERT, ONNX_BERT, int8, OPENVINO_BERT)
    return [
        Case(name, "read_texts", families, values, "texts")
        for name, values in (
            ("batch 1", {"batch": 1, "texts": 2 * many, "sorted": False}),
            (f"batch {many}", {"batch": many, "texts": 8 * many, "sorted": False}),
            (f"batch {many}, by length", {"batch": many, "texts": 8 * many, "sorted": True}),
        )
    ]


def remarks(sizes: dict, rows: list[dict]) -> list[str]:
    """Ours on its fastest backend beside each peer on its fastest one."""
    lines = []
    for case in dict.fromkeys(row["case"] for row in rows):
        best = {}
        for row in rows:
            if row["case"] == case and "speed" in row:
                known = best.get(row["family"])
                if known is None or row["speed"]["median"] > known["speed"]["median"]:
                    best[row["family"]] = row
        ours = best.pop(BERT.title, None)
        for theirs in best.values() if ours else ():
            found = ratio(ours, theirs)
            lines.append(
                f"{case}: {ours['contender']} has {found['median']:.2f} "
                f"({found['least']:.2f} to {found['greatest']:.2f}) times the speed of "
                f"{theirs['contender']}; wanted: {WANTED:g} times."
            )
    return lines


SUITE = Suite(
    "encoder_inference",
    "vectors of texts from an encoder of the sizes of MiniLM",
    sizes={
        "dim": 384, "layers": 6, "heads": 12, "intermediate": 1536, "vocabulary": 30522,
        "shortest": 8, "longest": 64, "many": 32, "multiple": 8,
        "shapes": 3, "rows": 4,
    },
    quick={
        "dim": 32, "layers": 1, "heads": 2, "intermediate": 64, "vocabulary": 200, "many": 4,
        "longest": 24,
    },
    cases=cases,
    remarks=remarks,
)  # fmt: skip
