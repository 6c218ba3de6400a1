"""Question answering by spans: the part of a text that answers a question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_attn.arrays import window_numbers
from keras_attn.batches import EncoderBatches
from keras_attn.fields.question_rows import windows_of
from keras_attn.metrics import AnswerReport, score_answers
from keras_attn.records import AnsweredQuestion, AnsweredQuestions, read_questions, split_questions
from keras_attn.records.questions import checked_questions
from keras_attn.tasks.base.doubts import doubt_of, rows_of
from keras_attn.tasks.base.task import Examples
from keras_attn.tasks.base.task_run import TrainingRun
from keras_attn.tasks.families.encoder_task import EncoderTask, EncoderTokenizer
from keras_attn.tasks.families.windowed import row_lists
from keras_attn.tasks.question_answering.predictions import AnswerLearned, AnswerPredictions
from keras_attn.tasks.question_answering.settings import (
    QuestionAnsweringData,
    QuestionAnsweringTest,
    QuestionAnsweringTraining,
    QuestionAnsweringUse,
)
from keras_attn.training import SpanCrossEntropy

Question = AnsweredQuestion | tuple[str, str, Sequence[Any]]
_LEAST_ROOM = 8


class QuestionAnswerer(AnswerPredictions):
    """Answers a question by a part of a text: an encoder that scores where the answer is.

    A text is read in windows `[CLS] question [SEP] part of the text [SEP]` that overlap. With s and
    e the logits of a window, the score of the span from token i to token j is `s_i + e_j`. A span
    is read off in one window, in which its first token has context on both sides
    (`keras_attn.arrays.windows`), so that each span has one score, and

        p(i, j) = exp(s_i + e_j) / sum exp(s_k + e_l)

    over all spans of the text of at most `max_answer_length` tokens, and over no answer, whose
    score is the least `s_0 + e_0` of all windows, if the training had questions without one.

    References:
        - [Devlin et al., 2019](https://arxiv.org/abs/1810.04805), sections 4.2 and 4.3.

    Args:
        tokenizer: A `WordPieceTokenizer`, a `BytePairTokenizer` with `normalize=False`, or a
            `WordTokenizer`.
        unanswerable: Whether it has learned that a text may not answer a question.
        model: Settings of the encoder: a `BertConfig` or `RobertaConfig`, a dict of its settings,
            or None.
        data: Settings `QuestionAnsweringData`, or a dict of some of them, such as `max_length`,
            the largest number of ids of a window.
        dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.

    Raises:
        TypeError: If the tokenizer is of another class.
        ValueError: If a setting is unknown or out of range, or the windows have no room for a text.

    Example:

    >>> text = "Ada lives in Oslo and Bob lives in Rome."
    >>> examples = [(f"Where does {x} live?", text, [y]) for x, y in (("Ada", "Oslo"), ("Bob", "Rome"))]
    >>> sizes = {"dim": 16, "num_layers": 1, "num_heads": 2, "intermediate_dim": 32, "dropout": 0.0}
    >>> data = {"vocabulary_size": 80, "max_length": 48, "max_question_length": 16}
    >>> answerer = QuestionAnswerer.create(examples, data=data, model=sizes)
    >>> run = answerer.fit(examples * 4, epochs=1, verbose=0)
    >>> answer = answerer.predict(("Where does Ada live?", text))
    >>> text[answer.start : answer.end] == answer.text
    True
    """  # noqa: E501

    name = "question-answering"
    summary = "Answer questions by a part of a text."
    heads = ("spans",)
    Data = QuestionAnsweringData
    Learned = AnswerLearned
    Training = QuestionAnsweringTraining
    Use = QuestionAnsweringUse
    Test = QuestionAnsweringTest
    steps = ("fit", "evaluate", "predict", "explain", "quantize", "export")
    examples_are = "questions"
    decide_nothing = (*EncoderTask.decide_nothing, "left_out")
    rows_are = "windows"
    reads = "only_pairs"

    left_out: Mapping[str, int] = {}
    """Why questions of the training were left out or cut, and how many."""

    def configured(self, model: Any) -> Any:
        """Returns settings and sizes of the encoder, whose windows must have room for a text."""
        config = super().configured(model)
        special = 2 + config.ends_between
        if self.max_length - self.max_question_length - special < _LEAST_ROOM:
            raise ValueError(
                f"Expected room for {_LEAST_ROOM} tokens of a text beside a question. Received: "
                f"max_length={self.max_length}, max_question_length={self.max_question_length}, "
                f"and {special} special tokens."
            )
        return config

    @property
    def special(self) -> int:
        """Number of special tokens of a window."""
        return 2 + len(self.field.between)

    # Data and training

    @classmethod
    def read(cls, data: QuestionAnsweringData) -> Examples:
        """Reads questions with answers, from SQuAD's JSON or JSON lines."""
        train = read_questions(data.train, data.on_error)
        if data.dev:
            dev: Any = read_questions(data.dev, data.on_error)
            return Examples(train, dev, f"{train.summary()}\n{dev.summary()}")
        sides = split_questions(train, data.dev_share, data.split_seed)
        if not all(sides):
            raise ValueError(
                "Expected questions about two articles or more, to split them by their titles. "
                "Received: one article. Give a file for development (--dev)."
            )
        return Examples(*sides, f"{train.summary()}; held out: {len(sides[1]):,} questions")

    def read_test(
        self, test: QuestionAnsweringTest, data: QuestionAnsweringData
    ) -> AnsweredQuestions:
        """Reads questions to measure with."""
        return read_questions(test.data, data.on_error)

    @classmethod
    def checked(cls, examples: Iterable[Question]) -> list[AnsweredQuestion]:
        """Returns questions with their answers."""
        return checked_questions(examples)

    @classmethod
    def texts_of(
        cls, examples: Sequence[AnsweredQuestion], data: QuestionAnsweringData
    ) -> Iterable[str]:
        """Returns each text once, and the questions."""
        return [*dict.fromkeys(q.text for q in examples), *(q.question for q in examples)]

    @classmethod
    def learn_beside(
        cls,
        tokenizer: EncoderTokenizer,
        examples: Sequence[AnsweredQuestion],
        data: QuestionAnsweringData,
    ) -> AnswerLearned:
        """Returns whether a question has no answer."""
        return AnswerLearned(tokenizer, any(not q.answers for q in examples))

    def dataset(
        self, examples: Iterable[Question], long_questions: str | None = None, **settings: Any
    ) -> EncoderBatches:
        """Makes batches for `model.fit`: the windows of the texts, with their first answers.

        The window in which the answer is read off points at it. Those without any of it point at
        `[CLS]` if `unanswerable`; the others are left out.

        Args:
            examples: `AnsweredQuestion`s, or tuples (question, text, answers).
            long_questions: What to do with questions of more than `max_question_length` tokens:
                `"cut"`, `"skip"` or `"error"`; what the settings of the data say if None.
            **settings: Of `keras_attn.batches.EncoderBatches`: `batch_size`, `seed`, `shuffle`, ...

        Returns:
            `EncoderBatches`.

        Raises:
            ValueError: If a question is too long, there is no window with an answer, or one has no
                answer and the task was not made for that.
        """
        if long_questions is None:
            long_questions = self.data.long_questions
        questions = checked_questions(examples)
        given = self.pairs.encode([q.question for q in questions], [q.text for q in questions])
        rows = self.rows(np, given)
        windows, every = windows_of(rows), row_lists(rows)
        taken, labels = [], []
        self.left_out = {}
        for i, question in enumerate(questions):
            if given["asked"][i] > self.max_question_length:
                self._too_long(question, int(given["asked"][i]), long_questions)
                if long_questions == "skip":
                    continue
            pieces = slice(given["begins"][i], given["begins"][i] + given["pieces"][i])
            span = self._span(question, given["piece_starts"][pieces], given["piece_ends"][pieces])
            if span is None:
                continue
            cut = given["pieces"][i], rows["rooms"][i], rows["margins"][i]
            own = None
            if span:
                own = windows.rows[i] + window_numbers(np, np.array(span[0], "int32"), *cut)
            for row in windows.rows[i] + range(windows.counts[i]):
                first, length = windows.start[row], rows["row_sizes"][row]
                behind = first + windows.size[row]
                before = rows["row_seconds"][row] - first
                if row == own and span[1] < behind:
                    label = (span[0] + before, span[1] + before, length)
                elif row == own:
                    self._leave_out("answers that reach beyond their window were left out")
                    continue
                elif self.unanswerable and not (span and span[0] < behind and span[1] >= first):
                    label = (0, 0, length)
                else:
                    continue
                taken.append(every[row])
                labels.append(label)
        if not taken:
            raise ValueError(
                "Expected questions whose texts have an answer. Received: none of "
                f"{len(questions):,}; {self.left_out or 'they have no answers'}."
            )
        return self.row_batches(taken, {"spans": np.array(labels, "int32")}, **settings)

    def _too_long(self, question: AnsweredQuestion, count: int, what: str) -> None:
        if what == "error":
            raise ValueError(
                f"Expected questions of at most {self.max_question_length} tokens. Received: "
                f"{count} in {question.name!r}, {question.question[:80]!r}. Raise "
                "`max_question_length`, or give long_questions='cut' or 'skip'."
            )
        key = f"questions of more than {self.max_question_length} tokens were " + (
            "cut" if what == "cut" else "left out"
        )
        self._leave_out(key)

    def _leave_out(self, what: str) -> None:
        self.left_out = {**self.left_out, what: self.left_out.get(what, 0) + 1}

    def _span(
        self, question: AnsweredQuestion, starts: np.ndarray, ends: np.ndarray
    ) -> tuple[int, ...] | None:
        """First and last piece of the first answer; `()` for no answer, None to leave it out."""
        if not question.answers:
            if self.unanswerable:
                return ()
            raise ValueError(
                "Expected questions with answers, as in the training that this task was made for. "
                f"Received: {question.question[:80]!r} without one."
            )
        answer = question.answers[0]
        end = answer.start + len(answer.text)
        inside = np.flatnonzero((ends > answer.start) & (starts < end))
        if not len(inside):
            self._leave_out("answers without a token were left out")
            return None
        return int(inside[0]), int(inside[-1])

    def batches(
        self, examples: Sequence[Question], training: Any, shuffle: bool = True
    ) -> EncoderBatches:
        """Makes the batches of a training, see `dataset`."""
        return self.dataset(
            examples, batch_size=training.batch_size, seed=training.seed, shuffle=shuffle
        )

    def objective(self, training: Any) -> dict[str, Any]:
        """Cross-entropy of the first and the last token of the answer."""
        return {"loss": {"spans": SpanCrossEntropy(name="spans")}}

    def doubt(self, batches: EncoderBatches, run: TrainingRun) -> str:
        """Says so if the training ended no better than pointing at any token."""
        spans, weights = rows_of(batches, "spans")
        guess = float(weights @ np.log(np.maximum(spans[:, 2], 1)) / len(weights))
        return doubt_of(run, guess, "pointing at any token of a row")

    def describe(self, batches: Any) -> list[str]:
        """Says what is trained, and what was left out."""
        notes = [f"{count:,} {words}" for words, count in self.left_out.items()]
        return [*super().describe(batches), *notes]

    def scored_by(self, training: Any) -> tuple[str, int]:
        """The F1 of the words of the answers."""
        return "F1", 1

    def score(self, examples: Sequence[Question]) -> dict[str, float]:
        """Measures F1 and exact matches."""
        report = self.evaluate(examples, num_bootstrap=0)
        return {"f1": report.f1, "exact": report.exact}

    def evaluate(
        self,
        examples: Iterable[Question],
        batch_size: int = QuestionAnsweringUse.batch_size,
        max_answer_length: int = QuestionAnsweringUse.max_answer_length,
        threshold: float = QuestionAnsweringUse.threshold,
        num_bootstrap: int = QuestionAnsweringTest.num_bootstrap,
        seed: int = 0,
    ) -> AnswerReport:
        """Measures the answers.

        Args:
            examples: `AnsweredQuestion`s, or tuples (question, text, answers).
            batch_size: Windows computed at a time.
            max_answer_length: Largest number of tokens of an answer.
            threshold: As in `predict`.
            num_bootstrap: Samples for the interval; 0 computes none.
            seed: Seed of these samples.

        Returns:
            An `AnswerReport`: SQuAD's exact match and F1; those of questions with and without an
            answer apart, and the best threshold, if there are such and the task has learned that.
            `print` shows it.

        Raises:
            ValueError: If there is no question.
        """
        questions = checked_questions(examples)
        pairs = [(q.question, q.text) for q in questions]
        answers, found = self.found(pairs, 1, max_answer_length, threshold, batch_size)
        right = [[answer.text for answer in q.answers] for q in questions]
        best, margins = None, None
        if self.unanswerable and not all(right):
            best = [x.candidates[0].text if x.candidates else "" for x in answers]
            margins = found["margin"].tolist()
        texts = [answer.text for answer in answers]
        return score_answers(texts, right, num_bootstrap, seed, best, margins)

    # Files and export
