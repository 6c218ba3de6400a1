"""What callbacks that keep the best weights share."""

import json

import pytest
from text_generation_toys import TEXT, make

from keras_attn.tasks.best_weights import BestWeights
from keras_attn.tasks.task_run import DevelopmentBest
from keras_attn.tasks.text_generation_settings import TextGenerationTraining

INF, NAN = float("inf"), float("nan")


class Task:
    def __init__(self):
        self.saved = []

    def save(self, path):
        self.saved.append(path)


class Loss(BestWeights):
    signs = (-1,)


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
    task = Task()
    callback = BestWeights(task, str(tmp_path / "best.task"))
    assert (callback.best, callback.best_score, callback.best_epoch) == ((), -INF, 0)
    for epoch, score in enumerate(scores):
        before = len(task.saved)
        callback.keep(score, epoch)
        assert (len(task.saved) > before) == (epoch in kept)
    assert task.saved == [tmp_path / "best.task"] * len(kept)
    best = scores[kept[-1]]
    assert (callback.best, callback.best_score) == (best, best[0])
    assert callback.best_epoch == kept[-1] + 1


def test_what_is_always_kept(tmp_path):
    task = Task()
    callback = Loss(task, tmp_path / "best.task")
    for epoch, always in enumerate([True, False, True]):
        callback.keep((-INF,), epoch, always)
    assert (len(task.saved), callback.best, callback.best_epoch) == (2, (-INF,), 3)
    assert callback.memory() == {"best": [INF, 3]}


@pytest.mark.parametrize(
    ("kind", "remembered", "best"),
    [(BestWeights, [0.5, -2.0, 3], (0.5, -2.0)), (Loss, [2.0, 3], (-2.0,))],
)
def test_a_run_that_is_taken_up_remembers_its_best(tmp_path, kind, remembered, best):
    callback = kind(Task(), tmp_path / "best.task")
    assert callback.memory() == {"best": []}
    callback.remember({"best": []})
    assert callback.best == ()
    callback.remember({"best": remembered})
    assert (callback.best, callback.best_epoch) == (best, 3)
    assert json.loads(json.dumps(callback.memory())) == {"best": remembered}
    callback.keep(best, 3)
    callback.keep((*best[:-1], best[-1] - 0.1), 3)
    assert not callback.task.saved
    callback.keep((*best[:-1], best[-1] + 0.1), 3)
    assert callback.best_epoch == 4


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
