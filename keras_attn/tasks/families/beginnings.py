"""Initial weights of text tasks: an encoder, word vectors, or random weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from keras_attn.tasks.base.backbones import read_backbone
from keras_attn.tasks.base.constructed import Beginning
from keras_attn.tasks.base.learned import Learned
from keras_attn.tasks.base.task import Task
from keras_attn.tasks.base.word_vectors import read_vectors, train_words


def beginning(
    task: type[Task],
    data: Any,
    model: Any,
    texts: Callable[[], Iterable[str]],
    train: Callable[[list[str]], Any],
    learn: Callable[[Any], Learned],
) -> Beginning:
    """Chooses the tokenizer of a new task, and the encoder or word vectors that it starts from.

    If `data` names neither a backbone nor word vectors, `train(texts)` trains the tokenizer on the
    result of `texts()`. `learn(tokenizer)` returns the learned values of the task.
    """
    if getattr(data, "backbone", ""):
        start = read_backbone(data.backbone)
        chosen = start.choice(task.kinds, task.kinds.made({} if model is None else model))
        return Beginning(learn(start.tokenizer), chosen, start if data.backbone_weights else None)
    given = list(texts())
    if not data.word_vectors:
        return Beginning(learn(train(given)), model)
    chosen = task.model_of(data, model)
    tokenizer, vectors = read_vectors(train_words(given, data.vocabulary_size, data), data)
    return Beginning(learn(tokenizer), chosen, None, vectors)
