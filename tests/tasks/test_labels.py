"""Inputs and labels that are given separately, and examples of pairs of inputs."""

import numpy as np
import pytest

from keras_attn.images.picture_questions import checked_questions as checked_picture_questions
from keras_attn.inputs import flattened, with_labels
from keras_attn.records.class_labels import label_numbers
from keras_attn.records.labelled_pairs import checked_labelled_pairs
from keras_attn.records.questions import checked_questions
from keras_attn.records.scored_pairs import checked_scored_pairs
from keras_attn.tasks import (
    EntailmentClassifier,
    QuestionAnswerer,
    SimilarityScorer,
    Tagger,
    TextClassifier,
    TextGenerator,
    TextRegressor,
    Translator,
)

SMALL = {"dim": 8, "num_layers": 1, "num_heads": 2, "intermediate_dim": 16}
PAIRS = [("a red dog", "a dog"), ("a cat", "a dog"), ("a red cat", "a cat"), ("no dog", "a dog")]
TEXTS = [a for a, _ in PAIRS]
CASES = [
    (TextClassifier, TEXTS, ["x", "y", "x", "y"], {"model": "bag", "dim": 8}, {}),
    (TextClassifier, PAIRS, ["x", "y", "x", "y"], {"model": "bag", "dim": 8}, {}),
    (TextRegressor, TEXTS, [1.0, 0, 0.5, 2], {"model": "bag", "dim": 8}, {}),
    (EntailmentClassifier, PAIRS, ["yes", "no", "yes", "no"], {"dim": 8}, {}),
    (SimilarityScorer, PAIRS, [1.0, 0.0, 0.5, 0.25], SMALL, {"vocabulary_size": 60}),
    (
        QuestionAnswerer, PAIRS, [["dog"], [], ["a"], []], SMALL,
        {"vocabulary_size": 60, "max_length": 32, "max_question_length": 8},
    ),
    (
        Tagger, [text.split() for text in TEXTS], [["O"] * len(text.split()) for text in TEXTS[:3]]
        + [["O", "B-X"]], SMALL, {"vocabulary_size": 60},
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    "kind, inputs, labels, model, data",
    [CASES[0], *(pytest.param(*case, marks=pytest.mark.slow) for case in CASES[1:])],
    ids=lambda x: str(x)[:20],
)
def test_a_task_is_created_of_inputs_and_labels(kind, inputs, labels, model, data):
    examples = list(zip(inputs, labels, strict=True))
    together = kind.create(examples, data=data, model=model)
    apart = kind.create(inputs, labels, data=data, model=model)
    assert apart.get_config() == together.get_config()


@pytest.mark.slow
def test_a_training_and_an_evaluation_on_inputs_and_labels():
    kind, inputs, labels, model, data = CASES[-1]
    reports, losses = [], []
    for form in ((inputs, labels), ([*zip(inputs, labels, strict=True)], None)):
        task = kind.create(*form, data=data, model={**model, "dropout": 0.0})
        for weight in task.model.trainable_weights:
            weight.assign(np.full(weight.shape, 0.1))
        losses += task.fit(form[0], labels=form[1], epochs=1, verbose=0).history["loss"]
        reports.append(task.evaluate(form[0], labels=form[1], num_bootstrap=0).to_dict())
    assert losses[0] == pytest.approx(losses[1])
    assert reports[0] == reports[1]


def test_what_is_wrong_with_labels():
    with pytest.raises(ValueError, match="Received: 4 texts and 3 labels"):
        TextClassifier.create(TEXTS, ["x", "y", "x"])
    with pytest.raises(TypeError, match=r"TextGenerator learns from .* without labels"):
        TextGenerator.create("abc", ["x"])
    with pytest.raises(TypeError, match="Expected a list of pairs"):
        Translator.create("abc", ["x"])
    with pytest.raises(
        ValueError, match=r"'5.0' .1 texts.\. Write whole numbers .*: '5' for '5.0'"
    ):
        label_numbers(["1", "5.0"], ["1", "5"])
    assert with_labels(iter("ab"), np.array([1, 2]), "texts") == [("a", 1), ("b", 2)]


def test_examples_of_pairs_have_one_form():
    """The flat tuples are those of the readers."""
    assert flattened((("a", "b"), 1)) == flattened(("a", "b", 1)) == ["a", "b", 1]
    assert flattened(("a", 1)) == ["a", 1]
    assert flattened("ab") == []
    for check, pair in (
        (checked_questions, (("Who?", "Ada codes."), ["Ada"])),
        (checked_scored_pairs, (("a", "b"), 0.5)),
        (checked_picture_questions, (("1.png", "A cat?"), "yes")),
        (checked_labelled_pairs, (("a", "b"), "yes")),
    ):
        (a, b), y = pair
        assert check([pair]) == check([(a, b, y)]) == check(check([pair]))
        with pytest.raises((TypeError, ValueError), match=r"\(\(\w+, \w+\), \w+\)"):
            check([(a, y)])
