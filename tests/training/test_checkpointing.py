"""Runs that are ended anywhere come to what they would have come to."""

import contextlib
import os
import signal

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.batches import TokenBatches
from keras_attn.metrics import MaskedAccuracy
from keras_attn.training import (
    MaskedCrossEntropy,
    TrainingCheckpoint,
    fit_resumable,
    load_training_state,
    read_training_notes,
    save_training_state,
    seed_everything,
)
from keras_attn.training.state import STATE_VERSION

EPOCHS = 3
# Settings of the optimizer that take less to trace, for what does not depend on them.
PLAIN = {"use_ema": False, "gradient_accumulation_steps": None}


class Losses(keras.callbacks.Callback):
    """Remembers the loss of each epoch."""

    def __init__(self):
        super().__init__()
        self.losses = []

    def on_epoch_end(self, epoch, logs=None):
        self.losses.append((epoch, logs["loss"], logs["accuracy"]))

    def memory(self):
        return {"losses": self.losses}

    def remember(self, memory):
        self.losses = [tuple(row) for row in memory["losses"]]


class At(keras.callbacks.Callback):
    """Does something after a number of batches of this `fit`."""

    def __init__(self, batches, action):
        super().__init__()
        self.left, self.action = batches, action

    def on_train_batch_end(self, batch, logs=None):
        self.left -= 1
        if not self.left:
            self.action()


class AtSecondEpoch(keras.callbacks.Callback):
    """Does something as the second epoch begins."""

    def __init__(self, action):
        super().__init__()
        self.action = action

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1:
            self.action()


def make_model(vocabulary=30, dim=8, build=True, **optimizer):
    """A bag of the source's words and the last target word; with dropout.

    What the optimizer makes in `fit` is traced twice, so it is built here, for all but one.
    """
    seed_everything(3)
    ids = {
        name: keras.Input((None,), dtype="int32", name=name)
        for name in ("source_ids", "target_ids")
    }
    source, target = (keras.layers.Embedding(vocabulary, dim)(x) for x in ids.values())
    source = keras.layers.Reshape((1, dim))(keras.layers.GlobalAveragePooling1D()(source))
    x = keras.layers.Dropout(0.2)(keras.layers.Add()([target, source]))
    model = keras.Model(ids, keras.layers.Dense(vocabulary)(x))
    settings = {"use_ema": True, "gradient_accumulation_steps": 2, **optimizer}
    model.compile(
        keras.optimizers.Adam(1e-2, **settings),
        MaskedCrossEntropy(),
        jit_compile=False,
        weighted_metrics=[MaskedAccuracy(name="accuracy")],
    )
    if build:
        model.optimizer.build(model.trainable_variables)
    return model


def make_batches():
    rng = np.random.default_rng(0)
    sides = [[rng.integers(3, 30, rng.integers(2, 20)).tolist() for _ in range(90)] for _ in "st"]
    return TokenBatches(*sides, start_id=1, end_id=2, tokens_per_batch=128, max_shapes=2, seed=5)


def variables(model):
    every = [*model.variables, *model.optimizer.variables]
    return [np.array(keras.ops.convert_to_numpy(v)) for v in every]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    losses, model = Losses(), make_model()
    checkpoint = TrainingCheckpoint(tmp_path_factory.mktemp("run") / "c.npz", 4)
    assert fit_resumable(model, make_batches(), checkpoint, EPOCHS, [losses], verbose=0)
    return losses.losses, variables(model)


def run_until_done(path, ends, steps_per_execution=1):
    """Starts the run again after each of its ends, with a new model each time."""
    positions = []
    for end in [*ends, None]:
        losses, model = Losses(), make_model()
        model.steps_per_execution = steps_per_execution
        checkpoint = TrainingCheckpoint(path, 4)
        callbacks = [losses] if end is None else [losses, end]
        try:
            complete = fit_resumable(model, make_batches(), checkpoint, EPOCHS, callbacks, 0)
        except KeyboardInterrupt:
            complete = False
        positions.append(checkpoint.position)
        assert complete == (end is None)
    return losses.losses, variables(model), positions


def kill():
    raise KeyboardInterrupt  # as the second Ctrl-C, or what comes without any warning


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def terminate():
    os.kill(os.getpid(), signal.SIGTERM)


def test_killed_within_an_epoch(uninterrupted, tmp_path):
    count = len(make_batches())
    assert count > 12
    losses, weights, positions = run_until_done(tmp_path / "c.npz", [At(6, kill), At(count, kill)])
    # Checkpoints are after 4 batches, after 8, ...; the second end is in the second epoch.
    assert positions[:2] == [(0, 4), (1, 0)]
    assert positions[-1] == (EPOCHS, 0)
    assert losses == uninterrupted[0]
    for ours, theirs in zip(weights, uninterrupted[1], strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
def test_signals_lose_no_batch(uninterrupted, tmp_path):
    count = len(make_batches())
    ends = [At(3, interrupt), At(count - 3, terminate), AtSecondEpoch(interrupt)]
    losses, weights, positions = run_until_done(tmp_path / "c.npz", ends)
    # The last batch of an epoch comes again: the file has the place before it.
    assert positions == [(0, 3), (0, count - 1), (1, 1), (EPOCHS, 0)]
    assert losses == uninterrupted[0]
    for ours, theirs in zip(weights, uninterrupted[1], strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_signal_handlers_are_given_back(tmp_path):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    checkpoint = TrainingCheckpoint(tmp_path / "c.npz")
    fit_resumable(make_model(**PLAIN), make_batches(), checkpoint, 1, [At(2, interrupt)], 0)
    assert checkpoint.interrupted == signal.SIGINT
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


@pytest.fixture
def ignored_interrupts():
    former = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, former)


@pytest.mark.slow
@pytest.mark.usefixtures("ignored_interrupts")
def test_what_is_ignored_stays_so_and_the_rest_ends_the_run(tmp_path):
    """A run begun by a script with `&`, or by `nohup`, takes no Ctrl-C; SIGTERM ends it well."""

    def both():
        interrupt()
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
        terminate()

    path = tmp_path / "c.npz"
    checkpoint = TrainingCheckpoint(path, 4)
    model = make_model(**PLAIN)
    assert not fit_resumable(model, make_batches(), checkpoint, EPOCHS, [At(3, both)], 0)
    assert checkpoint.interrupted == signal.SIGTERM
    assert checkpoint.position == (0, 3)
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    other = make_model(**PLAIN)
    other.test_on_batch(*make_batches()[0])
    load_training_state(path, other)
    for ours, theirs in zip(variables(other), variables(model), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
def test_a_complete_run_is_loaded_and_not_trained_again(tmp_path):
    checkpoint = TrainingCheckpoint(tmp_path / "c.npz")
    model, losses = make_model(**PLAIN), Losses()
    assert fit_resumable(model, make_batches(), checkpoint, 1, [losses], verbose=0)
    other, again = make_model(**PLAIN), Losses()
    assert fit_resumable(other, make_batches(), checkpoint, 1, [again, At(1, kill)], verbose=0)
    assert again.losses == losses.losses
    for ours, theirs in zip(other.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
def test_an_interrupted_model_is_what_the_file_holds(tmp_path):
    class Ended(keras.callbacks.Callback):
        ends = 0

        def on_train_end(self, logs=None):
            self.ends += 1

    checkpoint, model, ended = TrainingCheckpoint(tmp_path / "c.npz"), make_model(), Ended()
    callbacks = [ended, At(2, interrupt)]
    assert not fit_resumable(model, make_batches(), checkpoint, 1, callbacks, verbose=0)
    assert ended.ends == 1
    other = make_model(build=False)
    other.test_on_batch(*make_batches()[0])
    load_training_state(tmp_path / "c.npz", other)
    for ours, theirs in zip(variables(other), variables(model), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
def test_measuring_after_an_epoch_is_left_at_once(uninterrupted, tmp_path):
    class Measuring(keras.callbacks.Callback):
        through = False

        def on_epoch_end(self, epoch, logs=None):
            interrupt()
            self.through = True

    checkpoint, measuring = TrainingCheckpoint(tmp_path / "c.npz"), Measuring()
    batches = make_batches()
    callbacks = [measuring, Losses()]
    assert not fit_resumable(make_model(), batches, checkpoint, EPOCHS, callbacks, verbose=0)
    assert not measuring.through
    assert checkpoint.position == (0, len(batches) - 1)
    losses, weights, _ = run_until_done(tmp_path / "c.npz", [])
    assert losses == uninterrupted[0]
    for ours, theirs in zip(weights, uninterrupted[1], strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_signal_while_a_function_for_measuring_is_traced(uninterrupted, tmp_path):
    """`keras.ops.shape` has a bare `except`, and would leave a dimension unknown."""

    class Measuring(keras.callbacks.Callback):
        scores = ()

        def on_epoch_end(self, epoch, logs=None):
            @tf.function(input_signature=[tf.TensorSpec([None, 2])])
            def traced(x):
                with contextlib.suppress(BaseException):
                    if not self.scores:
                        interrupt()
                    return keras.ops.sum(x)
                return 0.0

            self.scores = (*self.scores, float(traced(np.ones((3, 2), "float32"))))

    checkpoint, measuring = TrainingCheckpoint(tmp_path / "c.npz"), Measuring()
    model, losses = make_model(), Losses()
    assert not fit_resumable(model, make_batches(), checkpoint, EPOCHS, [measuring, losses], 0)
    assert measuring.scores == (6.0,)
    assert checkpoint.position == (1, 0)  # the epoch is measured, and kept
    assert losses.losses == uninterrupted[0][:1]


def test_errors_after_a_signal_are_raised(tmp_path):
    class Full(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            interrupt()
            raise OSError("No space left on device")

    class Broken(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            raise ValueError("no score")

    checkpoint = TrainingCheckpoint(tmp_path / "c.npz")
    model, batches = make_model(**PLAIN), make_batches()
    with pytest.raises(ValueError, match="no score"):
        fit_resumable(model, batches, checkpoint, 1, [Broken()], verbose=0)
    checkpoint.path.unlink()
    with pytest.raises(OSError, match="No space"):  # the same checkpoint, now within an epoch
        fit_resumable(model, batches, checkpoint, 1, [Full()], verbose=0)


@pytest.mark.slow
def test_who_reads_our_output_may_be_gone(tmp_path, capfd):
    """`| tee log`: Ctrl-C ends tee too, and then nothing can be written."""
    reading, writing = os.pipe()
    os.close(reading)
    former = os.dup(2)
    os.dup2(writing, 2)
    try:
        checkpoint = TrainingCheckpoint(tmp_path / "c.npz")
        ends = [At(3, interrupt)]
        assert not fit_resumable(
            make_model(**PLAIN), make_batches(), checkpoint, 1, ends, verbose=0
        )
    finally:
        os.dup2(former, 2)
        for descriptor in (former, writing):
            os.close(descriptor)
    assert checkpoint.position == (0, 3)


@pytest.mark.slow
def test_a_callback_may_end_the_run(tmp_path):
    for name, batches, position in [("epoch", None, (1, 0)), ("batch", 3, (0, 3))]:

        class Stop(keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None, at=batches):
                self.model.stop_training = batch + 1 == at

            def on_epoch_end(self, epoch, logs=None):
                self.model.stop_training = True

        checkpoint = TrainingCheckpoint(tmp_path / f"{name}.npz")
        assert fit_resumable(
            make_model(**PLAIN), make_batches(), checkpoint, EPOCHS, [Stop()], verbose=0
        )
        assert checkpoint.position == position
        # It stays ended.
        callbacks = [Stop(), At(1, kill)]
        assert fit_resumable(
            make_model(**PLAIN), make_batches(), checkpoint, EPOCHS, callbacks, verbose=0
        )


@pytest.mark.slow
def test_several_steps_at_a_time(uninterrupted, tmp_path):
    """Batches of unlike shapes; no epoch is a multiple, and a run may go on with another number."""
    count = len(make_batches())
    assert count % 3 and count % 5
    path = tmp_path / "c.npz"
    losses, model = Losses(), make_model()
    model.steps_per_execution = 3
    checkpoint = TrainingCheckpoint(path, 4)
    fit_resumable(model, make_batches(), checkpoint, EPOCHS, [losses, At(2, interrupt)], 0)
    assert checkpoint.position == (0, 6)
    assert int(model.optimizer._iterations) == 6
    losses, weights, positions = run_until_done(path, [AtSecondEpoch(interrupt)], 5)
    assert positions == [(1, 5), (EPOCHS, 0)]
    assert losses == uninterrupted[0]
    for ours, theirs in zip(weights, uninterrupted[1], strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [3, 100])
def test_an_interrupt_in_the_last_steps_of_an_epoch(tmp_path, steps):
    """The last group of batches is repeated; if it is the whole epoch, that is ended and kept."""
    count, path = len(make_batches()), tmp_path / "c.npz"
    model = make_model()
    model.steps_per_execution = steps
    checkpoint = TrainingCheckpoint(path, 1000)
    ends = At(-(-count // steps), interrupt)
    fit_resumable(model, make_batches(), checkpoint, EPOCHS, [ends], 0)
    assert checkpoint.position == ((0, (count - 1) // 3 * 3) if steps == 3 else (1, 0))


@pytest.mark.slow
def test_a_file_before_the_end_of_an_epoch_of_one_step(tmp_path):
    """Other files of a run are written at the end of an epoch; a run must be resumable by then."""
    there = []
    see = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: there.append(path.exists()))
    path = tmp_path / "c.npz"
    batches = TokenBatches([[5, 6]] * 2, [[7, 6]] * 2, start_id=1, end_id=2)
    assert len(batches) == 1
    model = make_model(**PLAIN)
    assert fit_resumable(
        model, batches, TrainingCheckpoint(path), epochs=1, verbose=0, callbacks=[see]
    )
    assert there == [True]


class Killed(Exception):
    """Stands for the end of the process."""


def test_resuming_from_a_file_of_the_beginning(tmp_path):
    """A new process may create other weights; the run goes on with those of its file."""

    def killed(*_):
        raise Killed

    batches = TokenBatches([[5, 6]] * 2, [[7, 6]] * 2, start_id=1, end_id=2)
    model, whole, other = (make_model(**PLAIN) for _ in range(3))
    whole.set_weights(model.get_weights())
    other.set_weights([weights + 1 for weights in model.get_weights()])
    run = {"batches": batches, "epochs": 2, "verbose": 0}
    assert fit_resumable(whole, checkpoint=TrainingCheckpoint(tmp_path / "w.npz"), **run)
    kill = keras.callbacks.LambdaCallback(on_epoch_end=killed)
    with pytest.raises(Killed):
        fit_resumable(
            model, checkpoint=TrainingCheckpoint(tmp_path / "c.npz"), callbacks=[kill], **run
        )
    assert fit_resumable(other, checkpoint=TrainingCheckpoint(tmp_path / "c.npz"), **run)
    for ours, theirs in zip(other.get_weights(), whole.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
def test_a_run_that_diverges_is_not_kept(tmp_path):
    class Diverge(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 4:
                model = self.model
                model.set_weights([np.full_like(w, np.nan) for w in model.get_weights()])

    checkpoint, model = TrainingCheckpoint(tmp_path / "c.npz", 4), make_model(**PLAIN)
    with pytest.raises(ValueError, match=r"because the training diverged.*Lower the learning"):
        fit_resumable(model, make_batches(), checkpoint, 1, [Diverge()], verbose=0)
    assert checkpoint.position == (0, 4)


def test_it_needs_fit_resumable(tmp_path):
    with pytest.raises(ValueError, match=r"works only in `keras_attn\.training\.fit_resumable`"):
        make_model().fit(make_batches(), callbacks=[TrainingCheckpoint(tmp_path / "c")], verbose=0)


@pytest.mark.parametrize("data", [[(1, 2)], keras.utils.PyDataset()])
def test_it_needs_an_order_that_can_be_repeated(tmp_path, data):
    received = rf"Received: {type(data).__name__}, .*keras\.callbacks\.BackupAndRestore"
    with pytest.raises(TypeError, match=received):
        fit_resumable(keras.Sequential(), data, TrainingCheckpoint(tmp_path / "c.npz"), 1)


@pytest.mark.slow
def test_another_run_is_refused(tmp_path):
    checkpoint = TrainingCheckpoint(tmp_path / "c.npz", fingerprint={"data": ("a", 1), "dim": 16})
    fit_resumable(make_model(**PLAIN), make_batches(), checkpoint, 1, verbose=0)
    with pytest.raises(ValueError, match=r"states of 0 callbacks\. Received: 1 "):
        fit_resumable(make_model(**PLAIN), make_batches(), checkpoint, 2, [Losses()], verbose=0)
    batches = make_batches()
    batches.seed = 6
    with pytest.raises(ValueError, match=r"another run: seed is 5 there, 6 here"):
        fit_resumable(make_model(**PLAIN), batches, checkpoint, 2, verbose=0)
    other = TrainingCheckpoint(tmp_path / "c.npz", fingerprint={"data": ("a", 1), "dim": 32})
    with pytest.raises(ValueError, match=r"another run: dim is 16 there, 32 here\. Use another"):
        fit_resumable(make_model(**PLAIN), make_batches(), other, 2, verbose=0)
    with pytest.raises(ValueError, match="positive integer"):
        TrainingCheckpoint(tmp_path / "c.npz", every_steps=0)


@pytest.mark.slow
def test_a_full_disk_leaves_the_last_checkpoint(uninterrupted, tmp_path, monkeypatch):
    path = tmp_path / "c.npz"
    checkpoint = TrainingCheckpoint(path, 4)
    whole = np.savez

    def no_space(file, **arrays):
        file.write(b"half of it")
        raise OSError(28, "No space left on device")

    fill = At(6, lambda: monkeypatch.setattr(np, "savez", no_space))
    with pytest.raises(OSError, match=r"No space left on device: .* still good. Free some space"):
        fit_resumable(make_model(), make_batches(), checkpoint, EPOCHS, [fill], verbose=0)
    assert os.listdir(tmp_path) == ["c.npz"]
    assert checkpoint.position == (0, 4)
    monkeypatch.setattr(np, "savez", whole)
    model = make_model()
    assert fit_resumable(model, make_batches(), checkpoint, EPOCHS, verbose=0)
    for ours, theirs in zip(variables(model), uninterrupted[1], strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_checkpoint_that_does_not_fit_changes_nothing(tmp_path):
    path = tmp_path / "c.npz"
    save_training_state(path, make_model(), {"step": 3})
    assert read_training_notes(path) == {"step": 3}
    wide = make_model(vocabulary=31)
    wide.optimizer.build(wide.trainable_variables)
    before = variables(wide)
    with pytest.raises(
        ValueError, match=r"Expected: shape \(31, 8\) of 'embedding.*Received: shape \(30, 8\)"
    ):
        load_training_state(path, wide)
    with pytest.raises(
        ValueError, match=r"Expected: \d+ variables of its optimizer\. Received: \d+"
    ):
        load_training_state(path, make_model(use_ema=False))
    sgd = make_model()
    sgd.compile("sgd", MaskedCrossEntropy())
    with pytest.raises(ValueError, match=r"Expected: .*SGD.*Received: .*Adam"):
        load_training_state(path, sgd)
    with pytest.raises(ValueError, match="Expected a compiled model"):
        save_training_state(path, keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]))
    for ours, theirs in zip(variables(wide), before, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
def test_files_that_are_no_checkpoint(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="There is nothing"):
        read_training_notes(tmp_path / "nothing")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ValueError, match="Expected a checkpoint"):
        read_training_notes(tmp_path / "text")
    np.savez(tmp_path / "other.npz", a=np.zeros(2))
    with pytest.raises(ValueError, match="Expected a checkpoint of keras_attn"):
        read_training_notes(tmp_path / "other.npz")
    monkeypatch.setattr("keras_attn.training.state.STATE_VERSION", STATE_VERSION + 1)
    save_training_state(tmp_path / "newer.npz", make_model())
    monkeypatch.undo()
    with pytest.raises(ValueError, match="Install a newer keras_attn"):
        load_training_state(tmp_path / "newer.npz", make_model())


@pytest.mark.slow
def test_half_precision_with_a_loss_scale(tmp_path):
    def make():
        keras.config.set_dtype_policy("mixed_float16")
        model = make_model()
        keras.config.set_dtype_policy("float32")
        optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(use_ema=True))
        model.compile(optimizer, MaskedCrossEntropy(), jit_compile=False)
        return model

    checkpoint, model = TrainingCheckpoint(tmp_path / "c.npz"), make()
    fit_resumable(model, make_batches(), checkpoint, 1, [At(2, interrupt)], verbose=0)
    other = make()
    other.test_on_batch(*make_batches()[0])
    load_training_state(tmp_path / "c.npz", other)
    for ours, theirs in zip(variables(other), variables(model), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert model.optimizer.inner_optimizer._model_variables_moving_average
