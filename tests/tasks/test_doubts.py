"""Trainings that learn nothing are named, with the loss of a guess that was worked out by hand."""

from types import SimpleNamespace

import answering_toys
import entailment_toys
import numpy as np
import pytest
import selection_toys
import similarity_toys
import text_classification_toys
from tracing import eagerly

from keras_attn.tasks import QuestionAnswerer

NOTHING = {"epochs": 2, "learning_rate": 1e-9, "verbose": 0}
SCORES = [
    (pair, score) for pair, score in zip(similarity_toys.PAIRS, (1, 1, 2, 3, 5, 5), strict=True)
]


def answerer():
    return QuestionAnswerer.create(
        answering_toys.questions(4), data=answering_toys.DATA, model=answering_toys.SIZES
    )


def classifier(case, **settings):
    return text_classification_toys.make(case, **settings)


# The toys have as many texts of both classes.
CASES = {
    "labels": (lambda: classifier("bag"), text_classification_toys.EXAMPLES, np.log(2)),
    "several labels": (
        lambda: classifier("several"),
        [(text, [label]) for text, label in text_classification_toys.EXAMPLES],
        np.log(2) * 2 / 3,  # all know that the third one never comes
    ),
    "entailment": (entailment_toys.make, entailment_toys.EXAMPLES, np.log(2)),
    # From 1 to 5, of which the model learns 0 to 1.
    "scores": (lambda: similarity_toys.make("cross"), SCORES, np.var([1, 1, 2, 3, 5, 5]) / 16),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The classes are uneven")
@pytest.mark.parametrize("case", CASES)
def test_a_training_that_learns_nothing_is_named(case):
    make, examples, guess = CASES[case]
    with eagerly():
        task = make()
        run = task.fit(examples, examples[:4], **NOTHING)
    assert f"is not below {guess:.3f}, the loss of" in run.note
    assert "nothing was learned. Try another seed" in run.note
    good = SimpleNamespace(history={"loss": [9.0, guess * 0.99]})
    assert task.doubt(task.dataset(examples), good) == ""


def test_class_weights_change_the_guess():
    task = classifier("bag")
    examples = text_classification_toys.EXAMPLES
    batches = task.dataset(examples, {"bad": 3.0, "good": 1.0, "naïve": 1.0})
    note = task.doubt(batches, SimpleNamespace(history={"loss": [9.0, 9.0]}))
    guess = -(3 * np.log(3 / 4) + np.log(1 / 4)) / 2
    assert f"is not below {guess:.3f}, " in note


def test_weights_of_several_labels_change_the_guess():
    """Of 4 and 8 texts in 12, with weights 3 and 1 and none of the third label."""
    task = classifier("several")
    labels = np.array([[1, 0, 0]] * 4 + [[0, 1, 0]] * 8, "float32")
    batches = [(None, labels, np.ones(12))]
    p, q = 12 / (12 + 8), 8 / 12
    first = -(12 * np.log(p) + 8 * np.log(1 - p)) / 12
    second = -(8 * np.log(q) + 4 * np.log(1 - q)) / 12
    task.model.loss = SimpleNamespace(pos_weight=[3.0, 1.0, 1.0])
    note = task.doubt(batches, SimpleNamespace(history={"loss": [9.0, 9.0]}))
    assert f"is not below {(first + second) / 3:.3f}, " in note


def test_an_answer_is_pointed_at():
    task, examples = answerer(), answering_toys.questions(4)
    batches = task.dataset(examples, shuffle=False, batch_size=1)
    inputs = [batches[i][0] for i in range(len(batches))]
    guess = np.mean([np.log(x["padding_mask"][0].sum()) for x in inputs])
    note = task.doubt(batches, SimpleNamespace(history={"loss": [9.0, 9.0]}))
    assert f"is not below {guess:.3f}, the loss of pointing at any token" in note
    assert task.doubt(batches, SimpleNamespace(history={"loss": [9.0, guess * 0.99]})) == ""


@pytest.mark.slow
def test_a_bi_encoder_is_judged_by_the_order_of_its_scores_too():
    task = similarity_toys.make("bi")
    batches, guess = task.dataset(SCORES), np.var([1, 1, 2, 3, 5, 5]) / 16
    for loss, order, doubted in (
        (9.0, None, True), (9.0, -1.0, True), (9.0, 0.9, False), (guess * 0.99, 0.1, False),
    ):  # fmt: skip
        run = SimpleNamespace(history={"loss": [9.0, loss]}, best_score=order)
        assert (f"is not below {guess:.3f}, the loss of" in task.doubt(batches, run)) == doubted


@pytest.mark.slow
def test_answers_are_told_from_those_of_their_batch():
    """Of three questions with four answers, two of which are right for the first question."""
    task, examples = selection_toys.make(), selection_toys.EXAMPLES
    batches = task.dataset(examples, batch_size=4)
    assert len(batches) == 1
    guess = (2 * np.log(3) + 2 * np.log(4)) / 4
    note = task.doubt(batches, SimpleNamespace(history={"loss": [9.0, 9.0]}))
    assert f"is not below {guess:.3f}, the loss of giving all answers of a batch the same" in note
    assert task.doubt(batches, SimpleNamespace(history={"loss": [9.0, guess * 0.99]})) == ""


def test_an_only_epoch_proves_nothing():
    """Its loss is a mean that begins with random weights."""
    task = classifier("bag")
    batches = task.dataset(text_classification_toys.EXAMPLES)
    assert task.doubt(batches, SimpleNamespace(history={"loss": [9.0]})) == ""
