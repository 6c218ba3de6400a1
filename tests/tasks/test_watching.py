"""What is told of a training while it goes on, and when it is ended."""

import re
import signal

import keras
import numpy as np
import pytest
from text_classification_toys import EXAMPLES, TOKENIZERS
from translation_toys import tokenizer

from keras_attn.tasks import TextClassifier, Translator
from keras_attn.tasks.base.task_run import DevelopmentBest, Scored
from keras_attn.tasks.base.watching import ProgressLines


def small():
    config = {"pair_buckets": 0, "dim": 4}
    return TextClassifier(TOKENIZERS["word_piece"], ["bad", "good"], model=config)


@pytest.mark.slow
def test_lines_of_a_training(eager):
    lines = []
    progress = ProgressLines(lines.append, seconds=0)
    small().fit(EXAMPLES, epochs=2, batch_size=12, verbose=0, callbacks=[progress])
    assert len(lines) == 8
    assert lines[0].startswith("epoch 1 of 2, batch 1 of 4, loss 0.")
    assert lines[0].endswith(" s left in the epoch")
    assert lines[-1].startswith("epoch 2 of 2, batch 4 of 4, loss")
    quiet = []
    small().fit(EXAMPLES, epochs=1, verbose=0, callbacks=[ProgressLines(quiet.append)])
    assert quiet == []


def test_callbacks_that_set_the_learning_rate_need_a_constant_one(eager):
    """They are refused before the first epoch; Keras raises an error when they set the rate."""
    plateau = keras.callbacks.ReduceLROnPlateau("loss", patience=3)
    constant = keras.callbacks.LearningRateScheduler(lambda epoch: 0.5**epoch)
    for callback in (plateau, constant):
        with pytest.raises(ValueError, match=r"optimizer=keras.optimizers.Adam\(1e-3\)"):
            small().fit(EXAMPLES, epochs=1, verbose=0, callbacks=callback)
    task = small()
    optimizer = keras.optimizers.Adam(1e-3)
    task.fit(EXAMPLES, epochs=2, verbose=0, optimizer=optimizer, callbacks=[plateau, constant])
    assert float(task.model.optimizer.learning_rate) == 0.5


def test_all_losses_are_told():
    told = []
    progress = ProgressLines(told.append, seconds=0)
    progress.set_params({"epochs": 1})
    progress.on_epoch_begin(0)
    progress.on_train_batch_end(0, {"loss": 3.0, "words_loss": 2.0, "accuracy": 0.5, "b_loss": 1.0})
    assert told == ["epoch 1 of 1, batch 1, loss 3.0000, words loss 2.0000, b loss 1.0000"]


@pytest.mark.slow
def test_a_resumed_epoch_is_counted_whole(tmp_path, eager, capsys):
    """A run of 7 epochs of 4 batches, interrupted after 2 batches of the second epoch."""

    class Interrupt(keras.callbacks.Callback):
        left = 6

        def on_train_batch_end(self, batch, logs=None):
            self.left -= 1
            if not self.left:
                signal.raise_signal(signal.SIGTERM)

    settings = {"epochs": 7, "batch_size": 12, "run_dir": tmp_path}
    run = small().fit(EXAMPLES, callbacks=[Interrupt()], verbose=0, **settings)
    assert not run.complete
    capsys.readouterr()
    lines = []
    progress = ProgressLines(lines.append, seconds=0)
    run = small().fit(EXAMPLES, callbacks=[progress], verbose=2, **settings)
    assert run.complete
    assert re.findall(r"Epoch \d+/\d+", capsys.readouterr().out) == [
        f"Epoch {epoch}/7" for epoch in range(2, 8)
    ]
    assert [line.split(", loss")[0] for line in lines[:3]] == [
        "epoch 2 of 7, batch 3 of 4", "epoch 2 of 7, batch 4 of 4", "epoch 3 of 7, batch 1 of 4",
    ]  # fmt: skip


@pytest.mark.parametrize("folder", [False, True])
def test_a_loss_that_explodes_ends_the_training(folder, tmp_path, eager):
    classifier = small()
    head = classifier.model.get_layer("head")
    head.bias.assign(np.resize([-3e38, 3e38], head.bias.shape))  # their difference is infinite
    run_dir = tmp_path if folder else None
    with pytest.raises(ValueError, match=r"The loss of epoch 1 is (nan|inf).*lower learning rate"):
        classifier.fit(EXAMPLES, EXAMPLES, run_dir=run_dir, epochs=3, batch_size=48, verbose=0)
    assert not (tmp_path / "best.task").exists()


@pytest.mark.slow
def test_a_path_is_not_taken_for_examples():
    with pytest.raises(TypeError, match=r"the path 'train\.csv'.*read_labelled"):
        small().fit("train.csv")
    with pytest.raises(TypeError, match=r"the path 'pairs\.tsv'.*read_pairs"):
        Translator(tokenizer(), model={"dim": 8, "num_heads": 2, "num_layers": 1}).fit("pairs.tsv")


@pytest.mark.slow
def test_scores_now_and_then(tmp_path, monkeypatch):
    """The last epoch of the run is always scored, and no other for that a run goes on in it."""
    # What has learned nothing does not end, and is not what this is about.
    monkeypatch.setattr(Translator, "translate", lambda self, texts, *_, **__: texts)
    translator = Translator(tokenizer(), model={"dim": 8, "num_heads": 2, "num_layers": 1})
    pairs = [("one and two", "eins und zwei"), ("three", "drei")] * 4
    settings = {"epochs": 5, "score_epochs": 2, "verbose": 0, "run_dir": tmp_path}
    run = translator.fit(pairs, pairs[:2], tokens_per_batch=64, **settings)
    assert [row["epoch"] for row in run.log if "val_bleu" in row] == [2, 4, 5]
    callback = DevelopmentBest(translator, lambda model: Scored((1.0,), {"val": 1.0}), None, 2, 5)
    callback.set_model(translator.model)
    callback.set_params({"epochs": 3})  # of a call of Keras' `fit` that ends an epoch
    logs = {}
    callback.on_epoch_end(2, logs)
    assert logs == {}
    callback.on_epoch_end(4, logs)
    assert logs == {"val": 1.0}
