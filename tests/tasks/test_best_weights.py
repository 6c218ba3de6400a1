"""What callbacks that keep the best weights share."""

import json

import pytest
from text_generation_toys import TEXT, make

from keras_attn.tasks.best_weights import BestWeights
from keras_attn.tasks.text_generation_training import DevelopmentBits

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


def test_bits_of_a_text(tmp_path, monkeypatch):
    """A checkpoint has them as they are; less is better; without a text the last weights stay."""
    generator = make()
    for text, bits, kept, memory in (
        (TEXT, [3.0, 2.5, 2.75], [1, 2, 2], [2.5, 2]),
        ("", [0.0, 0.0], [1, 2], [INF, 2]),
    ):
        callback = DevelopmentBits(generator, text, tmp_path / "best.task")
        callback.set_model(generator.model)
        generator.compile(total_steps=1)
        saved = []
        monkeypatch.setattr(generator, "save", saved.append)
        for epoch, (found, last) in enumerate(zip(bits, kept, strict=True)):
            score = type("Score", (), {"bits_per_character": found})
            monkeypatch.setattr(generator, "evaluate", lambda *a, score=score, **k: score)
            logs = {}
            callback.on_epoch_end(epoch, logs)
            assert logs == ({"val_bits_per_character": found} if text else {})
            assert callback.best_epoch == last
        assert saved == [tmp_path / "best.task"] * len(set(kept))
        assert callback.memory() == {"best": memory}
