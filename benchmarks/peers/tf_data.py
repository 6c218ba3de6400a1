"""tf.data's own bucketing."""

import tensorflow as tf

from benchmarks import translator
from benchmarks.peers import Job
from benchmarks.translator import END, START


def batches(case: dict) -> Job:
    """An epoch of `bucket_by_sequence_length`; the amount is target tokens."""
    sources, targets = translator.make_pairs(case)
    ragged = [
        tf.ragged.constant([[*ids, END] for ids in sources], dtype="int32"),
        tf.ragged.constant([[START, *ids, END] for ids in targets], dtype="int32"),
    ]
    # Rows of ragged tensors; after any `map` they are plain ones.
    data = tf.data.Dataset.from_tensor_slices(tuple(ragged)).map(lambda *sides: sides)
    data = data.shuffle(case["pairs"], seed=0)
    bounds = [case["longest"] * i // case["shapes"] for i in range(1, case["shapes"])]
    bounds = sorted({-(-b // case["multiple"]) * case["multiple"] for b in bounds})
    ends = [*bounds, case["longest"]]
    sizes = [max(1, case["batch_tokens"] // end) for end in ends]

    def split(source, target):
        inputs = {"source_ids": source, "target_ids": target[:, :-1]}
        labels = target[:, 1:]
        return inputs, labels, tf.cast(labels != 0, tf.float32)

    data = data.bucket_by_sequence_length(
        lambda source, target: tf.maximum(tf.size(source), tf.size(target) - 1),
        [bound + 1 for bound in bounds],
        sizes,
    ).map(split, num_parallel_calls=tf.data.AUTOTUNE)
    data = data.prefetch(tf.data.AUTOTUNE)

    def run():
        for batch in data.as_numpy_iterator():
            batch[2].shape  # noqa: B018

    amount = sum(len(ids) + 1 for ids in targets)
    return Job(run, amount)
