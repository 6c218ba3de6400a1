"""Answer selection: a question in, the best of many answers out."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import keras
import numpy as np

from keras_attn.batches import ScoredPairBatches
from keras_attn.fields import checked_texts
from keras_attn.files import open_output
from keras_attn.inputs import listed
from keras_attn.models import paired_encoder, sentence_encoder
from keras_attn.records import (
    SelectionQuestion,
    SelectionQuestions,
    read_candidates,
    read_selection_questions,
    split_selection_questions,
)
from keras_attn.records.columns import numbered
from keras_attn.records.reading import is_blank
from keras_attn.records.selection_questions import checked_selection_questions
from keras_attn.tasks.answer_selection.predictions import AnswerSelectionPredictions
from keras_attn.tasks.answer_selection.settings import (
    AnswerSelectionData,
    AnswerSelectionTest,
    AnswerSelectionUse,
    PairQuestions,
)
from keras_attn.tasks.base.compiling import compiled_alike
from keras_attn.tasks.base.doubts import doubt_of
from keras_attn.tasks.base.steps import step, values_for
from keras_attn.tasks.base.task import Examples
from keras_attn.tasks.base.task_run import Scored, TrainingRun
from keras_attn.tasks.families.encoder_task import (
    EncoderLearned,
    EncoderTokenizer,
    EncoderTraining,
)
from keras_attn.text.checks import well_formed
from keras_attn.training import InBatchCrossEntropy, num_data_shards


@dataclass(frozen=True)
class SelectionLearned(EncoderLearned):
    """What a search for answers learned: its tokenizer and the answers, each once.

    Example:

    >>> SelectionLearned(WordTokenizer.train(["a b"]), ("Yes.", "No.", "Yes.")).answers
    ('Yes.', 'No.')

    Raises:
        TypeError: If an answer is not a string.
        ValueError: If there is no answer, or one is empty.
    """

    answers: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        given = checked_texts(listed(self.answers, "answers"))
        answers = tuple(dict.fromkeys(map(well_formed, given)))
        empty = [i for i, answer in enumerate(answers) if is_blank(answer)]
        if empty or not answers:
            what = f"{answers[empty[0]]!r}, which is empty" if empty else "none"
            raise ValueError(f"Expected answers to choose from. Received: {what}.")
        object.__setattr__(self, "answers", answers)


class AnswerSelector(AnswerSelectionPredictions):
    """A search for the answers to questions among those that it holds.

        score = cosine(vector(question), vector(answer))

    The vectors of the answers are computed once, when they are first needed. Answers may also be
    searched by their words, by both, and scored anew by a second model; see `predict`. It learns
    to tell the right answer of a question from the other answers of its batch.

    `.model` is the plain Keras model from ids to `{"vectors": (B, D)}`.

    References:
        - [Henderson et al., 2017](https://arxiv.org/abs/1705.00652): answers of the batch as wrong
          ones.
        - [Reimers and Gurevych, 2019](https://arxiv.org/abs/1908.10084): Sentence-BERT.

    Args:
        tokenizer: A `WordPieceTokenizer`, a `BytePairTokenizer` with `normalize=False`, or a
            `WordTokenizer`.
        answers: The answers to choose from; each is kept once.
        model: Settings of the encoder: a `BertConfig` or `RobertaConfig`, a dict of its settings,
            or None.
        data: Settings `AnswerSelectionData`, or a dict of some of them, such as `max_length` and
            `pooling`.
        dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.

    Raises:
        TypeError: If the tokenizer is of another class, or an answer is not a string.
        ValueError: If there is no answer, one is empty, or a setting is unknown or out of range.

    Example:

    >>> examples = [("Where is the dog?", "The dog is in Oslo."), ("And the cat?", "In Rome.")]
    >>> sizes = {"dim": 16, "num_layers": 1, "num_heads": 2, "intermediate_dim": 32}
    >>> data = {"vocabulary_size": 80, "max_length": 16}
    >>> selector = AnswerSelector.create(examples, data=data, model=sizes)
    >>> run = selector.fit(examples, epochs=8, learning_rate=0.01, verbose=0)
    >>> selector.predict("Where is the dog?", top_k=1)[0].answer
    'The dog is in Oslo.'
    """

    name = "answer-selection"
    summary = "Find the answers to questions among many: by words, by vectors, or by both."
    heads = ()
    Data = AnswerSelectionData
    Learned = SelectionLearned
    data: AnswerSelectionData
    learned: SelectionLearned
    Training = EncoderTraining
    Use = AnswerSelectionUse
    Test = AnswerSelectionTest
    steps = ("fit", "evaluate", "predict", "explain", "quantize", "export")
    examples_are = "questions"
    rows_are = "pairs"

    @property
    def pooling(self) -> str:
        """`"average"` over all tokens, or `"first"`."""
        return self.data.pooling

    def build(self, dtype: Any) -> None:
        """Builds the encoder of texts."""
        self.model = sentence_encoder(self.config, self.pooling, dtype, "sentence_encoder")

    @property
    def answers(self) -> tuple[str, ...]:
        """The answers to choose from; others may be assigned."""
        return self.learned.answers

    @answers.setter
    def answers(self, answers: Iterable[str]) -> None:
        self.relearn(answers=answers)

    def facts(self) -> list[str]:
        """What tells this selector from others, for its `repr`."""
        return [*super().facts(), f"{len(self.answers):,} answers"]

    # Data and training

    @classmethod
    def read(cls, data: AnswerSelectionData) -> Examples:
        """Reads questions with right answers, from CSV, TSV or JSON lines.

        Each line has a question and an answer; a question with several right answers has several
        lines. All different answers are chosen from, in the order in which they are first there,
        and behind them those of --answers. The columns are given by their names, or by their
        numbers (from 0) in a file without a header.
        """
        train = read_questions_of(data.train, data)
        if data.dev:
            chosen = read_questions_of(data.dev, data)
            answers = tuple(dict.fromkeys([*train.answers, *chosen.answers]))
            summary = f"{train.summary()}\n{chosen.summary()}"
            return Examples(replace(train, answers=answers), chosen, summary)
        apart = data.near_duplicates == "apart"
        first, dev = split_selection_questions(train, data.dev_share, data.split_seed, apart)
        summary = f"{train.summary()} Held out: {len(dev):,}"
        return Examples(replace(train, questions=first), dev, summary)

    def read_test(self, test: AnswerSelectionTest, data: AnswerSelectionData) -> SelectionQuestions:
        """Reads questions to measure with, whose right answers are among those of this task."""
        return read_questions_of(test.data, data, self.answers)

    @classmethod
    def checked(cls, examples: Iterable[Any]) -> SelectionQuestions:
        """Returns questions with their right answers, and all answers to choose from."""
        before = examples.answers if isinstance(examples, SelectionQuestions) else ()
        questions = checked_selection_questions(examples)
        own = (answer for x in questions for answer in x.answers)
        return SelectionQuestions(
            questions=questions, answers=tuple(dict.fromkeys([*before, *own]))
        )

    @classmethod
    def texts_of(cls, examples: SelectionQuestions, data: AnswerSelectionData) -> Iterable[str]:
        """Returns the questions and the answers."""
        answers = [answer for x in examples for answer in x.answers]
        return [*(x.question for x in examples), *answers, *read_answers(data)]

    @classmethod
    def learn_beside(
        cls, tokenizer: EncoderTokenizer, examples: SelectionQuestions, data: AnswerSelectionData
    ) -> SelectionLearned:
        """Returns the answers of the examples, and behind them those of the file `data.answers`."""
        return SelectionLearned(tokenizer, (*examples.answers, *read_answers(data)))

    @classmethod
    @step(
        "index",
        takes={
            "data": (
                "backbone", "answers", "answer", "delimiter", "on_error", "max_length", "pooling",
            )
        },
        required=("backbone", "answers"),
        writes="model",
        model="",
        before="fit",
    )  # fmt: skip
    def _make_index(cls, to: Path, data: AnswerSelectionData) -> Iterator[str]:
        """Make a model that searches the answers of a file, without training.

        The encoder is taken as it is: one that was trained for vectors of texts, or that of a model
        of this task, whose answers are left behind. A file of answers has one on each line, or is a
        table with the column --answer (*.csv, *.tsv, *.jsonl).
        """
        answers = read_answers(data)
        selector = cls.from_backbone(
            data.backbone, answers, max_length=data.max_length, pooling=data.pooling
        )
        yield str(selector.loaded)
        selector.save(to)
        yield f"{to}: {len(selector.answers):,} answers"

    @step(
        "pairs",
        takes=("use",),
        settings=PairQuestions,
        writes="file",
        to="CSV file to write",
        device=True,
    )
    def _write_pairs(
        self, to: Path, data: AnswerSelectionData, use: AnswerSelectionUse, pairs: PairQuestions
    ) -> Iterator[str]:
        """Write pairs of questions and answers from which a reranker learns.

        Right answers have the score 1; the best wrong ones that are found have 0. `keras-attn
        similarity fit --kind cross` learns from the file, and --reranker takes the model.
        """
        questions = read_questions_of(pairs.data, data)
        yield questions.summary()
        found = self.pairs(questions, **values_for(self.pairs, use))
        with open_output(to) as file:
            # A carriage return alone is not quoted otherwise, and then cannot be read.
            rows = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
            rows.writerow(["sentence1", "sentence2", "score"])
            rows.writerows(found)
        yield f"{to}: {len(found):,} pairs"

    @classmethod
    def from_backbone(
        cls, place: str, answers: Iterable[str], dtype: Any = None, **data: Any
    ) -> Self:
        """Makes a selector of a pretrained encoder that is not trained any more.

        Encoders that were trained for vectors, such as those of Sentence-BERT, search well so.

        Args:
            place: A task with an encoder, or a folder of Hugging Face weights.
            answers: The answers to choose from.
            dtype: As in the constructor.
            **data: Settings of the data: `pooling`, `max_length`.

        Returns:
            An `AnswerSelector`.
        """
        settings = cls.Data.made({"backbone": str(place), **data})
        chosen = tuple(listed(answers, "answers"))
        start = cls.start(list, settings, None, lambda x: SelectionLearned(x, chosen))
        return cls.begun(start, settings, dtype)

    def dataset(self, examples: Iterable[Any], **settings: Any) -> ScoredPairBatches:
        """Makes batches of questions and answers, for `fit` of the model of `trained_form`.

        Args:
            examples: As in `create`.
            **settings: Of `keras_attn.batches.ScoredPairBatches`: `batch_size`, `seed`, `shuffle`,
                ...

        Returns:
            `ScoredPairBatches` of each question with each of its right answers, once each, with the
            labels of `InBatchCrossEntropy`.
        """
        questions = checked_selection_questions(examples)
        numbers: dict[str, int] = {}
        for x in questions:
            for answer in x.answers:
                numbers.setdefault(answer, len(numbers))
        right: dict[str, dict[int, None]] = {}  # of the same question, in several examples too
        for x in questions:
            right.setdefault(x.question, {}).update((numbers[a], None) for a in x.answers)
        pairs = [(q, number) for q, own in right.items() for number in own]
        labels = np.full((len(pairs), 1 + max(map(len, right.values()))), -1, "int32")
        for row, (question, number) in zip(labels, pairs, strict=True):
            own = [number, *right[question]]
            row[: len(own)] = own
        asked, answers = (
            [ids for ids, _ in self.field.rows(self.tokenizer.encode(texts))]
            for texts in (list(right), list(numbers))
        )
        place = {question: i for i, question in enumerate(right)}
        settings = {
            "batch_size": 32,
            "max_shapes": 4,
            "segments": self.config.reads_segments,
            "pad_id": self.tokenizer.pad_id,
            "max_length": self.max_length,
            "rows_multiple_of": num_data_shards(),
            **settings,
        }
        settings.setdefault("least", settings["batch_size"])
        firsts = [asked[place[question]] for question, _ in pairs]
        seconds = [answers[number] for _, number in pairs]
        return ScoredPairBatches(firsts, seconds, labels, **settings)

    def batches(
        self, examples: Sequence[Any], training: EncoderTraining, shuffle: bool = True
    ) -> ScoredPairBatches:
        """Makes the batches of a training, see `dataset`."""
        return self.dataset(
            examples, batch_size=training.batch_size, seed=training.seed, shuffle=shuffle
        )

    def objective(self, training: EncoderTraining) -> dict[str, Any]:
        """The cross-entropy of the right one among the answers of the batch."""
        return {"loss": {"similarity": InBatchCrossEntropy()}}

    def trained_form(self, training: EncoderTraining) -> keras.Model:
        """Returns the compiled model of pairs, with the layers of `model`."""
        return compiled_alike(paired_encoder(self.model, each_with_all=True), self.model)

    def scorer(
        self, dev: Sequence[Any], training: EncoderTraining
    ) -> Callable[[keras.Model], Scored]:
        """Returns what scores development examples, whose answers are chosen from too."""
        more = [answer for x in checked_selection_questions(dev) for answer in x.answers]
        self.answers = [*self.answers, *more]
        return super().scorer(dev, training)

    def describe(self, batches: ScoredPairBatches) -> list[str]:
        """Says what is trained, and from how many answers is chosen."""
        return [*super().describe(batches), f"{len(self.answers):,} answers to choose from."]

    def scored_by(self, training: EncoderTraining) -> tuple[str, int]:
        """The mean reciprocal rank."""
        return "MRR", 1

    def score(self, examples: Sequence[SelectionQuestion]) -> dict[str, float]:
        """Measures the search by vectors."""
        report = self.evaluate(examples, num_bootstrap=0)
        return {"mrr": report.reciprocal_rank, "map": report.average_precision}

    def doubt(self, batches: ScoredPairBatches, run: TrainingRun) -> str:
        """Says so if the training ended no better than with one score for all answers."""
        losses, rows = [], []
        for i in range(len(batches)):  # how many answers meet depends on the batch
            _, labels, weights = batches[i]
            answers, weight = labels["similarity"], weights["similarity"]
            same = np.zeros((len(answers), len(answers)), "float32")
            losses.append(float(InBatchCrossEntropy()(answers, same, weight)))
            rows.append(len(answers))
        guess = float(np.average(losses, weights=rows))
        return doubt_of(run, guess, "giving all answers of a batch the same score")


def read_questions_of(
    path: str | os.PathLike, data: AnswerSelectionData, answers: Iterable[str] | None = None
) -> SelectionQuestions:
    """Reads questions whose right answers are among `answers`; None: any."""
    question, answer = numbered(data.question, data.answer)
    return read_selection_questions(
        path,
        question,
        answer,
        data.format,
        delimiter=data.delimiter or None,
        on_error=data.on_error,
        answers=answers,
    )


def read_answers(data: AnswerSelectionData) -> list[str]:
    """Reads the file `data.answers`; no answers if there is none."""
    if not data.answers:
        return []
    _, column = numbered(data.question, data.answer)
    return read_candidates(
        data.answers, column, delimiter=data.delimiter or None, on_error=data.on_error
    )
