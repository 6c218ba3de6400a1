"""The callback that keeps the weights of the best epoch."""

import json

import numpy as np
import pytest
from text_classification_toys import EXAMPLES, TOKENIZERS
from text_generation_toys import TEXT, make
from tracing import eagerly

from keras_attn.tasks import Task as BaseTask
from keras_attn.tasks import TextClassifier
from keras_attn.tasks.base.task_run import DevelopmentBest, Scored
from keras_attn.tasks.text_generation import TextGenerationTraining

INF, NAN = float("inf"), float("nan")


class Task:
    model = whole = None

    def __init__(self):
        self.saved = []

    def save(self, path):
        self.saved.append(path)


class Model:
    """What has no average of its weights."""

    class optimizer:
        built = False


def callback_of(scores, path):
    """A callback whose epochs score as given."""
    left = iter(scores)
    callback = DevelopmentBest(Task(), lambda model: Scored(next(left), {}), path)
    callback.set_model(Model())
    return callback


@pytest.mark.parametrize(
    ("scores", "kept"),
    [
        ([(1.0, -3.0), (0.5, 0.0), (1.0, -2.0), (1.0, -2.0), (2.0, -9.0)], [0, 2, 4]),
        ([(NAN, 1.0), (-5.0, -5.0), (NAN, 1.0), (-5.0, NAN)], [1]),
        ([(-INF, -INF), (-INF, -1.0)], [1]),
    ],
    ids=["the next figure decides", "not a number", "infinite"],
)
def test_the_greater_score_is_kept(tmp_path, scores, kept):
    callback = callback_of(scores, tmp_path / "best.task")
    assert (callback.best, callback.best_epoch) == ((), 0)
    for epoch in range(len(scores)):
        before = len(callback.task.saved)
        callback.on_epoch_end(epoch)
        assert (len(callback.task.saved) > before) == (epoch in kept)
    assert callback.task.saved == [tmp_path / "best.task"] * len(kept)
    assert (callback.best, callback.best_epoch) == (scores[kept[-1]], kept[-1] + 1)


def test_without_a_score_the_last_epoch_is_kept(tmp_path):
    callback = DevelopmentBest(Task(), None, tmp_path / "best.task")
    callback.set_model(Model())
    for epoch in range(3):
        callback.on_epoch_end(epoch)
    assert (len(callback.task.saved), callback.best, callback.best_epoch) == (3, (), 3)


def test_a_run_that_is_taken_up_remembers_its_best(tmp_path):
    best = (0.5, -2.0)
    callback = callback_of([best, (0.5, -2.1), (0.5, -1.9)], tmp_path / "best.task")
    assert callback.memory() == {"best": []}
    callback.remember({"best": []})
    assert callback.best == ()
    with pytest.raises(
        FileNotFoundError, match=r"of epoch 3, the best epoch of this run, at .*best"
    ):
        callback.remember({"best": [*best, 3]})
    (tmp_path / "best.task").touch()
    callback.remember({"best": [*best, 3]})
    assert (callback.best, callback.best_epoch) == (best, 3)
    assert json.loads(json.dumps(callback.memory())) == {"best": [*best, 3]}
    callback.on_epoch_end(3)
    callback.on_epoch_end(4)
    assert not callback.task.saved
    callback.on_epoch_end(5)
    assert callback.best_epoch == 6


@pytest.mark.slow
def test_less_is_better_where_the_task_says_so(monkeypatch):
    """The bits of a text."""
    generator, bits = make(), [3.0, 2.5, 2.75]
    training = TextGenerationTraining()
    callback = DevelopmentBest(generator, generator.scorer(TEXT, training), None)
    callback.set_model(generator.model)
    generator.compile(total_steps=1)
    for epoch, (found, last) in enumerate(zip(bits, [1, 2, 2], strict=True)):
        score = type("Score", (), {"bits_per_character": found})
        monkeypatch.setattr(generator, "evaluate", lambda *a, score=score, **k: score)
        logs = {}
        callback.on_epoch_end(epoch, logs)
        assert logs == {"val_bits_per_character": found}
        assert callback.best_epoch == last
    assert callback.memory() == {"best": [-2.5, 2]}
    run = generator.fit(TEXT, TEXT[:50], epochs=1, batch_size=20, verbose=0)
    assert run.best_score == run.history["val_bits_per_character"][0] > 0
    assert run.score_name == "bits per character"


@pytest.mark.quick("run")
@pytest.mark.parametrize("folder", [None, "run"])
def test_at_the_end_the_task_has_the_best_weights(tmp_path, monkeypatch, folder):
    """Those of the first of two epochs; kept in memory, or in the folder of the run."""
    generator, left, seen = make(), iter([2.0, 1.0]), []

    def score(model):
        seen.append(model.get_weights())
        return Scored((next(left),), {})

    monkeypatch.setattr(generator, "scorer", lambda dev, training: score)
    settings = {"epochs": 2, "batch_size": 20, "verbose": 0}
    run = generator.fit(TEXT, TEXT[:50], run_dir=folder and tmp_path / folder, **settings)
    assert (run.best_epoch, run.best_score) == (1, -2.0)
    for mine, first, last in zip(generator.model.get_weights(), *seen, strict=True):
        np.testing.assert_array_equal(mine, first)
        assert (mine != last).any()


@pytest.mark.slow
@pytest.mark.parametrize("folder", [None, "run"])
def test_scores_stand_at_their_epochs(tmp_path, monkeypatch, folder):
    generator, left = make(), iter([2.0, 1.0])
    monkeypatch.setattr(
        generator, "scorer", lambda dev, training: lambda model: Scored((1.0,), {"x": next(left)})
    )
    monkeypatch.setattr(TextGenerationTraining, "score_epochs", 2, raising=False)
    settings = {"epochs": 3, "batch_size": 20, "verbose": 0}
    run = generator.fit(TEXT, TEXT[:50], run_dir=folder and tmp_path / folder, **settings)
    assert [row["epoch"] for row in run.log] == [1, 2, 3]
    assert [row.get("x") for row in run.log] == [None, 2.0, 1.0]
    assert all(row["loss"] > 0 for row in run.log)


@pytest.mark.slow
def test_a_run_is_not_made_longer(tmp_path):
    """Its learning rate is zero at the end: more epochs would change nothing."""
    generator, settings = make(), {"batch_size": 20, "verbose": 0}
    generator.fit(TEXT, run_dir=tmp_path, epochs=1, **settings)
    with pytest.raises(
        ValueError, match=r"epochs is 1 there, 2 here.*cannot be extended.*constant"
    ):
        generator.fit(TEXT, run_dir=tmp_path, epochs=2, **settings)


@pytest.mark.slow
def test_a_run_with_a_constant_learning_rate_is_extended(tmp_path):
    """After one epoch and one more it is where two epochs at once lead."""
    settings = {"batch_size": 20, "verbose": 0, "schedule": "constant", "warmup_steps": 1}
    twice, once = make(), make()
    for epochs in (1, 2):
        run = twice.fit(TEXT, run_dir=tmp_path / "twice", epochs=epochs, **settings)
    assert [row["epoch"] for row in run.log] == [1, 2]
    once.fit(TEXT, run_dir=tmp_path / "once", epochs=2, **settings)
    rate = float(once.model.optimizer.learning_rate)
    assert rate == pytest.approx(TextGenerationTraining().decided().learning_rate)
    for mine, other in zip(twice.model.get_weights(), once.model.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, other)
    for epochs, more in ((1, {}), (3, {"schedule": "cosine"})):
        with pytest.raises(ValueError, match=rf"epochs is 2 there, {epochs} here") as error:
            twice.fit(TEXT, run_dir=tmp_path / "twice", epochs=epochs, **{**settings, **more})
        assert ("cannot be extended" in str(error.value)) == bool(more)


@pytest.mark.slow
@pytest.mark.parametrize("folder", [None, "run"])
def test_patience(tmp_path, monkeypatch, folder):
    """Scores 3, 1, 2, 9: two epochs after the first are not better, the fourth is not trained."""
    generator, seen, lines = make(), [], []
    scores = [3.0, 1.0, 2.0, 9.0]

    def score(model):
        seen.append(scores[len(seen)])
        return Scored((seen[-1],), {})

    monkeypatch.setattr(generator, "scorer", lambda dev, training: score)
    settings = {"epochs": 4, "patience": 2, "batch_size": 20, "verbose": 0}
    where = {"run_dir": folder and tmp_path / folder, "log": lines.append}
    run = generator.fit(TEXT, TEXT[:50], **where, **settings)
    assert (run.complete, run.best_epoch, seen) == (True, 1, scores[:3])
    assert lines[-1] == "No better score in 2 epochs: the training ended early."
    if folder:  # it stays ended
        again = generator.fit(TEXT, TEXT[:50], **where, **settings)
        assert (again.complete, again.best_epoch, seen) == (True, 1, scores[:3])
        assert lines[-1] == "No better score in 2 epochs: the training ended early."
        assert "The run ended early, in epoch 3." in lines
        assert not any(line.startswith("Resuming") for line in lines)


def test_patience_needs_development_examples():
    with pytest.raises(
        ValueError, match=r"Received: patience=2 without development \w+\. Pass `dev`"
    ):
        make().fit(TEXT, patience=2, epochs=1, verbose=0)


def test_development_examples_that_are_none_are_an_error(tmp_path):
    generator = make()
    before = generator.model.get_weights()
    with pytest.raises(ValueError, match=r"Expected development documents.*Received: none"):
        generator.fit(TEXT, "", run_dir=tmp_path / "run", epochs=1, batch_size=8, verbose=0)
    assert not (tmp_path / "run/best.task").exists()
    for mine, old in zip(generator.model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(mine, old)


class Guesser(TextClassifier):
    """A task that gives its figures by `score`, as one of a user does."""

    scored_by, scorer = BaseTask.scored_by, BaseTask.scorer
    selects = ("mean_absolute_error", "min")
    figures = ()

    def score(self, examples):
        return next(self.figures)


def guesses(figures, **settings):
    task = Guesser(TOKENIZERS["word_piece"], ["bad", "good"], {"pair_buckets": 0, "dim": 4})
    task.figures = iter(figures)
    settings = {"epochs": 3, "verbose": 0, "batch_size": 48, **settings}
    with eagerly():
        return task.fit(EXAMPLES, EXAMPLES[:4], **settings)


def errors_of(values):
    return [{"accuracy": 0.5, "mean_absolute_error": value} for value in values]


@pytest.mark.slow
@pytest.mark.parametrize("folder", [None, "run"])
def test_the_figure_and_its_direction_are_declared(folder, tmp_path):
    run = guesses(errors_of([2.5, 1.5, 3.5]), run_dir=folder and tmp_path / folder)
    assert (run.score_name, run.best_score, run.best_epoch) == ("mean absolute error", 1.5, 2)
    assert run.history["val_mean_absolute_error"] == [2.5, 1.5, 3.5]


@pytest.mark.slow
def test_a_figure_that_is_not_defined_is_the_worst(tmp_path):
    run = guesses(errors_of([NAN, NAN, NAN]), run_dir=tmp_path)
    assert (run.best_epoch, (tmp_path / "best.task").exists()) == (1, True)
    assert np.isnan(run.best_score)
    assert guesses(errors_of([NAN, 9.0, NAN])).best_score == 9.0


@pytest.mark.parametrize(
    ("selects", "message"),
    [
        (("", ""), r"Expected `Guesser\.selects` to declare .*Received: \('', ''\)"),
        (("accuracy", "most"), r'selects = \("accuracy", "max"\)`.*Received: \(.accuracy., .most'),
        (("f1", "max"), r"`score` to return 'f1'.*\['accuracy', 'mean_absolute_error'\]"),
    ],
)
def test_what_is_not_declared_is_refused(selects, message, monkeypatch):
    monkeypatch.setattr(Guesser, "selects", selects)
    with pytest.raises(ValueError, match=message):
        guesses(errors_of([1.0] * 3))
