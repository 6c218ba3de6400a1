"""What ONNX and int8 cost a text classifier in accuracy.

    python -m benchmarks.onnx_score --model run/best.task --texts SST-2 --format sst2

exports a classifier as `onnx` and `onnx-int8`, classifies labelled texts in batches by ONNX
Runtime, and prints the accuracies and the share of answers that equal those of the task.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks import machine
from keras_attn.corpora import read_labelled_texts
from keras_attn.tasks import TextClassifier
from keras_attn_command import plain_output

FORMATS = ("onnx", "onnx-int8")


def answers(folder: Path, texts: Sequence[str], batch: int) -> list[str]:
    """Classifies texts by an exported folder."""
    import onnxruntime
    import tokenizers

    about = json.loads((folder / "model.json").read_text())
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / about["tokenizer"]))
    tokenizer.enable_truncation(about["max_length"])
    tokenizer.enable_padding(pad_id=about["pad_id"])
    session = onnxruntime.InferenceSession(folder / about["model"])
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    labels = [""] * len(texts)
    for start in range(0, len(order), batch):
        part = order[start : start + batch]
        rows = tokenizer.encode_batch([texts[i] for i in part])
        ids = np.array([row.ids for row in rows], "int32")
        known = {
            "token_ids": ids,
            "segment_ids": np.zeros_like(ids),
            "padding_mask": ids != about["pad_id"],
        }
        (logits,) = session.run(None, {name: known[name] for name in about["inputs"]})
        for i, row in zip(part, logits, strict=True):
            label = row.argmax() if len(row) > 1 else int(row[0] > 0)
            labels[i] = about["labels"][label]
    return labels


def main() -> None:
    """Exports, classifies and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--model", type=Path, required=True, help="file of a text classifier with an encoder")
    add("--texts", required=True, help="file or folder of labelled texts")
    add("--format", default="auto", help="its format (%(default)s)")
    add("--split", default="dev", help="of a folder: train, dev or test (%(default)s)")
    add("--batch", type=int, default=32, help="texts of a batch (%(default)s)")
    args = parser.parse_args()
    plain_output()
    classifier = TextClassifier.load(args.model)
    examples = read_labelled_texts(args.texts, args.format, args.split)
    texts, labels = examples.texts, examples.labels
    own = [prediction.label for prediction in classifier.predict(texts)]
    print(f"{machine.processor()}; {machine.versions()}")
    print(f"| {len(texts):,} texts | accuracy | answers equal to the task's |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        rows = {"the task": own}
        for name in FORMATS:
            classifier.export(Path(folder, name), format=name)
            rows[name] = answers(Path(folder, name), texts, args.batch)
    for name, predicted in rows.items():
        right = np.mean([a == b for a, b in zip(predicted, labels, strict=True)])
        equal = np.mean([a == b for a, b in zip(predicted, own, strict=True)])
        print(f"| {name} | {right:.2%} | {equal:.2%} |")


if __name__ == "__main__":
    main()
