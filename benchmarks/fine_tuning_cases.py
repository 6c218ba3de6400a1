"""The tasks of `benchmarks.fine_tuning`, with their data."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

SMALL = {"epochs": 3, "batch_size": 16, "learning_rate": 1e-4}
"""Settings of trainings on fewer than 10,000 examples."""


class Case(NamedTuple):
    """A task with its data."""

    read: Callable[[Path], tuple[list[Any], list[Any]]]
    """Training and development examples."""
    create: Callable[..., Any]
    """Makes our task: `create(examples, data, model)`."""
    score: Callable[[Any, list[Any]], float]
    """The figure of a task on examples."""
    figure: str
    reference: str
    """Class of `transformers`."""
    labels: Callable[[Any], list[str]]
    training: dict[str, Any]
    max_length: int = 128
    head: str = ""
    """Name of the labels in our batches; none if they are not a dict."""
    numbers: bool = False
    """Whether the labels are numbers, learned by their squared error."""
    test: Callable[[Path], list[Any]] | None = None
    """Test examples, where there are some."""
    recurrent: str = "bilstm"
    """Name of the recurrent model of the task."""
    least: Callable[[list[Any], list[Any]], float] | None = None
    """The figure of a guess without a network: `least(train, dev)`."""


def classification(
    folder: str, figure: str, more: str = "", training: Any = None, **columns: Any
) -> Callable[[], Case]:
    """A classification of GLUE, whose files are `train.tsv` and `dev.tsv`.

    Args:
        folder: Folder of the files.
        figure: Name of the figure.
        more: A file without a header with further training examples, whose columns are those of
            RTE.
        training: Settings of the training that differ from the others'.
        **columns: Of `read_labelled`.
    """

    def make() -> Case:
        from keras_attn.records import read_labelled
        from keras_attn.tasks import TextClassifier

        def read(data: Path) -> tuple[list[Any], list[Any]]:
            sides = ("train.tsv", "dev.tsv")
            train, dev = (list(read_labelled(data / folder / x, **columns)) for x in sides)
            if more:
                train += read_labelled(data / folder / more, 1, 3, text_pair=2, header=False)
            return train, dev

        def score(task: Any, examples: list[Any]) -> float:
            report = task.evaluate(examples, num_bootstrap=0)
            return getattr(report, figure).value

        return Case(
            read,
            TextClassifier.create,
            score,
            figure,
            "AutoModelForSequenceClassification",
            lambda task: list(task.class_names),
            {**SMALL, **(training or {})},
            recurrent="rnn",
            least=commonest_label if figure == "accuracy" else None,
        )

    return make


def stsb() -> Case:
    """Similarity of the STS Benchmark, by one encoder that reads both texts."""
    from keras_attn.records import read_scored_pairs
    from keras_attn.tasks import SimilarityScorer

    def read(data: Path) -> tuple[list[Any], list[Any]]:
        names = ("sts-train.csv", "sts-dev.csv")
        return tuple(list(read_scored_pairs(data / "stsb" / x, 5, 6, 4, "tsv")) for x in names)

    def create(examples: list[Any], data: dict, model: Any) -> Any:
        return SimilarityScorer.create(examples, data={"kind": "cross", **data}, model=model)

    return Case(
        read,
        create,
        lambda task, examples: task.evaluate(examples, num_bootstrap=0).spearman.value,
        "Spearman",
        "AutoModelForSequenceClassification",
        lambda task: ["similarity"],
        SMALL,
        head="classes",
        numbers=True,
    )


def sick() -> Case:
    """Entailment of SICK, by one encoder that reads both texts."""
    from keras_attn.records.labelled_texts import LabelledText
    from keras_attn.tasks import TextClassifier, read_labelled_pairs

    def read(data: Path, split: str) -> list[Any]:
        pairs = read_labelled_pairs(data / "sick" / "SICK.txt", split=split)
        return [LabelledText(pair.premise, pair.label, second=pair.hypothesis) for pair in pairs]

    return Case(
        lambda data: (read(data, "train"), read(data, "dev")),
        TextClassifier.create,
        lambda task, examples: task.evaluate(examples, num_bootstrap=0).accuracy.value,
        "accuracy",
        "AutoModelForSequenceClassification",
        lambda task: list(task.class_names),
        SMALL,
        test=lambda data: read(data, "test"),
        recurrent="rnn",
        least=commonest_label,
    )


def conll() -> Case:
    """Named entities of CoNLL-2003."""
    from keras_attn.records import read_tagged
    from keras_attn.tasks import Tagger

    def read(data: Path, name: str) -> list[Any]:
        return list(read_tagged(data / "conll2003" / name, label_column=1))

    return Case(
        lambda data: (read(data, "train.txt"), read(data, "valid.txt")),
        Tagger.create,
        lambda task, examples: task.evaluate(examples, num_bootstrap=0).f1,
        "entity F1",
        "AutoModelForTokenClassification",
        lambda task: list(task.labels),
        {"epochs": 3, "batch_size": 32, "learning_rate": 1e-4},
        head="tags",
        test=lambda data: read(data, "test.txt"),
    )


def squad() -> Case:
    """Answers in texts of SQuAD's development set: 38 of its articles to train, 10 to score."""
    from keras_attn.records import read_questions, split_questions
    from keras_attn.tasks import QuestionAnswerer

    def read(data: Path) -> tuple[list[Any], list[Any]]:
        [file] = sorted((data / "squad").glob("*.json*"))
        return split_questions(list(read_questions(file)), 10)

    return Case(
        read,
        QuestionAnswerer.create,
        lambda task, examples: task.evaluate(examples, num_bootstrap=0).f1,
        "F1",
        "AutoModelForQuestionAnswering",
        lambda task: [],
        {"epochs": 2, "batch_size": 16, "learning_rate": 1e-4},
        max_length=384,
        head="spans",
        least=common_words,
    )


def commonest_label(train: list[Any], dev: list[Any]) -> float:
    """Accuracy of the commonest label of the training examples."""
    [(label, _)] = Counter(example.label for example in train).most_common(1)
    return float(np.mean([example.label == label for example in dev]))


def common_words(train: list[Any], dev: list[Any]) -> float:
    """F1 of the part of the text that has most words in common with the question."""
    from keras_attn.metrics import common_words_answer, score_answers

    found = [common_words_answer(example.question, example.text) for example in dev]
    return score_answers(found, [[answer.text for answer in x.answers] for x in dev]).f1


CASES = {
    "sst2": classification(
        "glue/SST-2",
        "accuracy",
        training={"epochs": 1, "batch_size": 32},
        text="sentence",
        label="label",
    ),
    "cola": classification("glue/CoLA", "matthews", text=3, label=1, header=False),
    "mrpc": classification(
        "glue/MRPC",
        "accuracy",
        text="#1 String",
        text_pair="#2 String",
        label="Quality",
    ),
    "rte": classification(
        "glue/RTE",
        "accuracy",
        "val.tsv",
        text="sentence1",
        text_pair="sentence2",
        label="label",
    ),
    "stsb": stsb,
    "sick": sick,
    "conll": conll,
    "squad": squad,
}
