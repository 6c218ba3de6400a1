"""One of two processes that train together; see test_distribution.py."""

import json
import sys

import keras

keras.distribution.initialize()  # before anything is computed

import jax  # noqa: E402
from distribution_toys import After, compiled, difference, fitted, make_batches, values  # noqa: E402

from keras_attn.training import (  # noqa: E402
    ProcessBatches,
    TrainingCheckpoint,
    fit_resumable,
    model_parallel,
)


def train(folder):
    found = {"processes": [jax.process_index(), jax.process_count(), jax.device_count()]}
    model, found["one"] = fitted()
    reference = values(model)
    with keras.distribution.DataParallel(auto_shard_dataset=False).scope():
        mine = ProcessBatches(make_batches())
        found["rows"] = [len(mine[0][1]), len(mine.batches[0][1])]
        model, found["data"] = fitted(mine)
        found["data weights"] = difference(reference, values(model))
    with model_parallel(2, auto_shard_dataset=False).scope():
        model, found["model"] = fitted(ProcessBatches(make_batches()))
        found["model weights"] = difference(reference, values(model))
    # The weights are cut over both processes, and each reads whole batches.
    for stop in (3, None):
        with model_parallel(4, auto_shard_dataset=False).scope():
            model, training = compiled()
            checkpoint = TrainingCheckpoint(f"{folder}/run.npz")
            done = fit_resumable(
                training,
                ProcessBatches(make_batches()),
                checkpoint,
                2,
                [After(stop, checkpoint)] if stop else [],
                verbose=0,
            )
            found[f"stop {stop}"] = [done, *checkpoint.position]
    found["across"] = model.trainable_variables[-1].value.is_fully_addressable
    found["across weights"] = difference(reference, values(model))
    return found


if __name__ == "__main__":
    print(json.dumps(train(sys.argv[1])))
