"""Logs of a run, and where it computes."""

import csv
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorboardX.proto import event_pb2

from keras_attn.training import TrainingLog, compute_on

X, Y = np.eye(3, dtype="float32"), np.ones((3, 2), "float32")


def make_model():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(keras.optimizers.SGD(0.25), "mse")
    return model


@pytest.mark.slow
def test_a_row_for_each_epoch_also_after_a_pause(tmp_path):
    log = TrainingLog(tmp_path / "log.csv", tmp_path / "board")
    history = make_model().fit(X, Y, epochs=2, verbose=0, callbacks=[log])
    memory = log.memory()
    log = TrainingLog(tmp_path / "log.csv", tmp_path / "board")
    log.remember(memory)
    make_model().fit(X, Y, initial_epoch=2, epochs=3, verbose=0, callbacks=[log])
    with open(tmp_path / "log.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]
    assert float(rows[1]["loss"]) == pytest.approx(history.history["loss"][1])
    assert float(rows[0]["learning_rate"]) == 0.25
    seconds = [float(row["seconds"]) for row in rows]
    assert seconds == sorted(seconds)
    # TensorFlow reads the records that tensorboardX wrote.
    (path,) = (tmp_path / "board").glob("events*")
    values = []
    for record in tf.data.TFRecordDataset(str(path)):
        event = event_pb2.Event.FromString(record.numpy())
        values += [(event.step, v.simple_value) for v in event.summary.value if v.tag == "loss"]
    assert values == [(i + 1, pytest.approx(float(row["loss"]))) for i, row in enumerate(rows)]


def test_without_tensorboardx_there_is_advice(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ImportError, match=r"keras_attn\[tensorboard\]"):
        TrainingLog(tmp_path / "log.csv", tmp_path / "board")


def test_a_gpu_that_is_not_there(monkeypatch):
    monkeypatch.setattr("keras_attn.training.devices._sees_gpu", lambda backend: False)
    with pytest.raises(RuntimeError, match="A GPU is requested, but the tensorflow backend"):
        compute_on("gpu").__enter__()
    with compute_on("auto") as device:
        assert device == "cpu"
    with pytest.raises(ValueError, match="'auto', 'cpu' or 'gpu'"):
        compute_on("tpu").__enter__()
