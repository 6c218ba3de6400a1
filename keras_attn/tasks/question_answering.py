"""Question answering by spans: the part of a text that answers a question."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from keras_attn.arrays import Array, ArrayModule
from keras_attn.arrays.answers import WINDOW, text_answers, window_spans
from keras_attn.batches import EncoderBatches
from keras_attn.batches.answer_targets import AnswerTargets
from keras_attn.explain import Explanation
from keras_attn.explain.attributions import span_score
from keras_attn.explain.methods import METHOD_NAMES
from keras_attn.explain.word_weights import weighted_words
from keras_attn.fields import ODD_TEXTS, Answer, QuestionRows, Signature, checked_texts
from keras_attn.fields.answer_spans import answer_outputs, read_answers
from keras_attn.fields.question_rows import windows_of
from keras_attn.inputs import listed
from keras_attn.metrics import AnswerReport, score_answers
from keras_attn.records import AnsweredQuestion, AnsweredQuestions, read_questions, split_questions
from keras_attn.records.questions import checked_questions
from keras_attn.records.reading import Location
from keras_attn.settings import setting, with_defaults
from keras_attn.tasks.base.doubts import doubt_of, rows_of
from keras_attn.tasks.base.fine_tuning import EncoderTraining
from keras_attn.tasks.base.task_run import TrainingRun
from keras_attn.tasks.base.training_settings import default_epochs
from keras_attn.tasks.families.data_settings import Files
from keras_attn.tasks.families.encoder_task import (
    EncoderData,
    EncoderLearned,
    EncoderTask,
    EncoderTokenizer,
)  # fmt: skip
from keras_attn.tasks.families.use_settings import BootstrapTest, PageUse
from keras_attn.tasks.families.windowed import WindowedTask, row_lists
from keras_attn.text.offsets import ids_and_places
from keras_attn.training import SpanCrossEntropy

Question = AnsweredQuestion | tuple[str, str, Sequence[Any]]
Tensors = Mapping[str, Array]
_LEAST_ROOM = 8


@dataclass(frozen=True)
@with_defaults(
    max_length=384,
    help={
        "train": "questions to learn from: SQuAD's JSON, or JSON lines",
        "dev_share": "share of the articles that is held out, without --dev",
        "on_error": "what to do with a bad question",
    },
    words={"examples": "questions"},
)
class QuestionAnsweringData(EncoderData, Files):
    """Settings of the questions about texts, and of the encoder."""

    max_question_length: int = setting(64, "largest number of tokens of a question", at_least=1)
    long_questions: str = setting(
        "cut", "treatment of longer questions in training", choices=("cut", "skip", "error")
    )
    overlap: int = setting(
        128,
        "tokens that two neighbouring windows of a long text share, at most half of a window's "
        "room for the text",
        at_least=0,
    )


@dataclass(frozen=True)
@with_defaults(epochs=default_epochs(10, backbone=2), batch_size=16)
class QuestionAnsweringTraining(EncoderTraining):
    """Settings for training question answering."""


@dataclass(frozen=True)
@with_defaults(
    batch_size=32,
    words={
        "rows": "windows",
        "shown": "the answers in their texts with the words that support them, or the "
        "attention of each head",
    },
    steps={"batch_size": ("predict", "explain", "evaluate", "export")},
)
class QuestionAnsweringUse(PageUse):
    """Settings of the search for answers."""

    n_best: int = setting(
        5, "number of answers", at_least=1, steps=("predict", "explain", "export")
    )
    max_answer_length: int = setting(30, "largest number of tokens of an answer", at_least=1)
    threshold: float = setting(
        0.0, 'minimum lead of "no answer" over the best answer, if there were training questions '
        "without an answer",
    )  # fmt: skip


@dataclass(frozen=True)
@with_defaults(words={"examples": "questions with answers, as for fit"})
class QuestionAnsweringTest(BootstrapTest):
    """Settings for evaluating question answering."""


@dataclass(frozen=True)
class AnswerLearned(EncoderLearned):
    """Learned values: the tokenizer, and whether a text may have no answer."""

    unanswerable: bool = False


class QuestionAnswerer(WindowedTask):
    """Answers a question with the span of a text that an encoder scores best.

    A text is read in windows `[CLS] question [SEP] part of the text [SEP]` that overlap. For each
    token i of a window, the model computes the logits s_i as the first token of an answer and e_i
    as the last token. The score of the span from token i to token j is `s_i + e_j`. Each span is
    scored in only one window, where its first token has context on both sides
    (`keras_attn.arrays.windows`). Therefore, each span has one score, and

        p(i, j) = exp(s_i + e_j) / sum exp(s_k + e_l)

    The sum is over all spans of at most `max_answer_length` tokens and, if there were training
    questions without an answer, over "no answer", whose score is the minimum of `s_0 + e_0` over
    all windows (token 0 is `[CLS]`).

    References:
        - [Devlin et al., 2019](https://arxiv.org/abs/1810.04805), sections 4.2 and 4.3.

    Args:
        tokenizer: A `WordPieceTokenizer`, a `SentencePieceTokenizer`, a `BytePairTokenizer` with
            `normalize=False`, or a `WordTokenizer`.
        unanswerable: Whether a question may have no answer, according to the training data.
        model: Settings of the encoder: a `BertConfig`, `RobertaConfig`, `ModernBertConfig` or
            `BiLstmConfig`; a dict of some settings, such as `{"model": "roberta", "dim": 128}`; or
            None for the defaults of BERT.
        data: Settings of the data: a `QuestionAnsweringData`, or a dict of some of its settings,
            such as `max_length`, the maximum number of ids of a window.
        dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.

    Raises:
        TypeError: If the class of the tokenizer is not supported, or a setting of the data is
            unknown.
        ValueError: If a setting of the model is unknown, a setting is out of range, the windows
            have no room for a text, or the tokenizer normalizes texts.

    Example:

    >>> text = "Ada lives in Oslo and Bob lives in Rome."
    >>> homes = ("Ada", "Oslo"), ("Bob", "Rome")
    >>> examples = [((f"Where does {x} live?", text), [y]) for x, y in homes]
    >>> sizes = {"dim": 16, "num_layers": 1, "num_heads": 2, "intermediate_dim": 32, "dropout": 0.0}
    >>> data = {"vocabulary_size": 80, "max_length": 48, "max_question_length": 16}
    >>> answerer = QuestionAnswerer.create(examples, data=data, model=sizes)
    >>> run = answerer.fit(examples * 4, epochs=1, verbose=0)
    >>> answer = answerer.predict(("Where does Ada live?", text))
    >>> text[answer.start : answer.end] == answer.text
    True
    """

    name = "question-answering"
    about = "Answer questions by a part of a text."
    heads = ("spans",)
    Data = QuestionAnsweringData
    Learned = AnswerLearned
    Training = QuestionAnsweringTraining
    Use = QuestionAnsweringUse
    Test = QuestionAnsweringTest
    steps = ("fit", "evaluate", "predict", "explain", "quantize", "export")
    examples_are = "questions"
    continues = True
    decide_nothing = (*EncoderTask.decide_nothing, "left_out")
    rows_are = "windows"
    reads = "only_pairs"
    input_columns: ClassVar = {"question": "question", "text": "text"}
    predicts: ClassVar = {
        "answer": str, "start": int, "end": int, "probability": float, "no_answer": float,
        "candidates": object,
    }  # fmt: skip
    of_rows = WINDOW
    data: QuestionAnsweringData
    learned: AnswerLearned

    left_out: Mapping[str, int] = {}
    """Numbers of training questions that were left out or cut, keyed by the reason."""

    @property
    def max_question_length(self) -> int:
        """Maximum number of tokens of a question. In predictions, further tokens are cut off."""
        return self.data.max_question_length

    @property
    def unanswerable(self) -> bool:
        """Whether a question may have no answer, according to the training data."""
        return self.learned.unanswerable

    @property
    def pairs(self) -> QuestionRows:
        """The `QuestionRows` that converts questions and texts to rows of ids."""
        between = len(self.field.between)
        sizes = self.max_length, self.max_question_length, self.data.overlap
        return QuestionRows(self.tokenizer, *sizes, between)

    def configured(self, model: Any) -> Any:
        """Returns the settings object of the encoder; raises a ValueError if windows have no room
        for a part of the text after the question."""
        config = super().configured(model)
        special = 2 + config.ends_between
        if self.max_length - self.max_question_length - special < _LEAST_ROOM:
            raise ValueError(
                f"Expected room for {_LEAST_ROOM} tokens of a text in addition to a question. "
                f"Received: max_length={self.max_length}, "
                f"max_question_length={self.max_question_length}, "
                f"and {special} special tokens."
            )
        return config

    # Data and training

    @classmethod
    def read_file(cls, path: Location, data: QuestionAnsweringData) -> Any:
        """Reads questions with answers, from SQuAD's JSON, JSON lines or Parquet.

        Args:
            path: The file, or a table in memory as `keras_attn.records.Rows`.
            data: Settings of class `Data`.

        Returns:
            `keras_attn.records.AnsweredQuestions`.
        """
        return read_questions(path, data.on_error)

    @classmethod
    def split(cls, examples: AnsweredQuestions, data: QuestionAnsweringData) -> Any:
        """Splits questions into a list of training questions and a list of development questions,
        so that no article (by its title) is in both.

        Raises:
            ValueError: If all questions are about one article.
        """
        sides = split_questions(examples, data.dev_share, data.split_seed)
        if not all(sides):
            raise ValueError(
                "Expected questions about at least two articles, so that they can be split "
                "by title. Received: one article. Give a file for development (--dev)."
            )
        return sides

    @classmethod
    def checked(cls, examples: Iterable[Question]) -> list[AnsweredQuestion]:
        """Checks questions with answers, and returns them as a list of `AnsweredQuestion`s."""
        return checked_questions(examples)

    @classmethod
    def texts_of(
        cls, examples: Sequence[AnsweredQuestion], data: QuestionAnsweringData
    ) -> Iterable[str]:
        """Returns each distinct text and all questions, from which a tokenizer is trained."""
        return [*dict.fromkeys(q.text for q in examples), *(q.question for q in examples)]

    @classmethod
    def unlike(cls, learned: AnswerLearned, examples: Any, data: Any) -> str:
        """Returns that some examples have no answer, if the saved task did not learn to predict "no
        answer"; empty otherwise."""
        if learned.unanswerable or all(q.answers for q in cls.checked(examples)):
            return ""
        return "questions without an answer"

    @classmethod
    def learn_beside(
        cls,
        tokenizer: EncoderTokenizer,
        examples: Sequence[AnsweredQuestion],
        data: QuestionAnsweringData,
    ) -> AnswerLearned:
        """Returns the learned values as `AnswerLearned`: the tokenizer, and whether any question of
        the examples has no answer."""
        return AnswerLearned(tokenizer, any(not q.answers for q in examples))

    def dataset(
        self, examples: Iterable[Question], long_questions: str | None = None, **settings: Any
    ) -> EncoderBatches:
        """Creates batches for `model.fit` from windows of the texts.

        The target of a question is the first of its answers. The answer is read from one window, as
        in predictions, and this window is labelled with the position of the answer. If
        `unanswerable` is True, windows without any part of the answer are labelled with the
        position of `[CLS]`. All other windows are left out.

        Args:
            examples: `AnsweredQuestion`s, or tuples ((question, text), answers).
            long_questions: What to do with questions of more than `max_question_length` tokens:
                `"cut"`, `"skip"` or `"error"`; None for the setting in `data`.
            **settings: Settings of `keras_attn.batches.EncoderBatches`: `batch_size`, `seed`,
                `shuffle`, ...

        Returns:
            `EncoderBatches` of the labelled windows.

        Raises:
            TypeError: If an example has the wrong form.
            ValueError: If a question is too long and `long_questions="error"`, no window can be
                labelled, or a question has no answer although `unanswerable` is False.
        """
        if long_questions is None:
            long_questions = self.data.long_questions
        questions = checked_questions(examples)
        given = self.pairs.encode([q.question for q in questions], [q.text for q in questions])
        rows = self.rows(np, given)
        targets = AnswerTargets(self.max_question_length, self.unanswerable, long_questions)
        taken, labels = targets.labels(questions, given, rows, windows_of(rows))
        self.left_out = dict(targets.left_out)
        every = row_lists(rows)
        chosen = [every[row] for row in taken]
        return self.row_batches(chosen, {"spans": np.array(labels, "int32")}, **settings)

    def objective(self, training: Any) -> dict[str, Any]:
        """Returns a dict with the `loss`: the cross-entropy of an answer's first and last token."""
        return {"loss": {"spans": SpanCrossEntropy(name="spans")}}

    def doubt(self, batches: EncoderBatches, run: TrainingRun) -> str:
        """Returns a warning if a run of at least two epochs ends with a training loss that is not
        below the loss of guessing among all tokens of a row with equal probability; an empty string
        otherwise."""
        spans, weights = rows_of(batches, "spans")
        guess = float(weights @ np.log(np.maximum(spans[:, 2], 1)) / len(weights))
        return doubt_of(run, guess, "pointing at any token of a row")

    def describe(self, batches: Any) -> list[str]:
        """Returns lines for the log about the model, the batches and questions left out or cut."""
        notes = [f"{count:,} {words}" for words, count in self.left_out.items()]
        return [*super().describe(batches), *notes]

    def scored_by(self, training: Any) -> tuple[str, int]:
        """Returns `"F1"`, the F1 of the words of answers, and 1, because higher is better."""
        return "F1", 1

    def figures(self, report: AnswerReport) -> dict[str, float]:
        """Returns a dict of `f1` and `exact`, the F1 and the share of exact matches of a report."""
        return {"f1": report.f1, "exact": report.exact}

    def inputs_of(self, examples: Sequence[AnsweredQuestion]) -> list[tuple[str, str]]:
        """Returns a tuple (question, text) for each example."""
        return [(q.question, q.text) for q in examples]

    def measured(self, examples: Sequence[AnsweredQuestion], use: QuestionAnsweringUse) -> Any:
        """Returns a list with an `Answer` for each question, and a dict of the tensors from which
        the answers were read, such as `margin (n,)`, the score of "no answer" minus the score of
        the best span; the dict is empty without questions."""
        return self._answered(self.inputs_of(examples), dataclasses.replace(use, n_best=1))

    def report(
        self,
        examples: Sequence[AnsweredQuestion],
        results: Any,
        *,
        num_bootstrap: int,
        seed: int = 0,
    ) -> AnswerReport:
        """Compares predicted answers with the right answers of questions.

        Args:
            examples: `AnsweredQuestion`s, or tuples ((question, text), answers).
            results: The result of `measured`: an `Answer` for each question, and a dict.
            num_bootstrap: Bootstrap samples for the confidence intervals; 0 for no intervals.
            seed: Seed of the bootstrap samples.

        Returns:
            An `AnswerReport`, which `print` shows: SQuAD's exact match and F1. If some questions
            have no answer, the report also has separate scores for questions with and without
            answers and, if the task learned to predict "no answer", the best threshold.

        Raises:
            TypeError: If an example has the wrong form, or a setting is unknown.
            ValueError: If there is no question, or a setting is out of range.
        """
        answers, tensors = results
        right = [[answer.text for answer in q.answers] for q in examples]
        best, margins = None, None
        if self.unanswerable and not all(right):
            best = [x.candidates[0].text if x.candidates else "" for x in answers]
            margins = tensors["margin"].tolist()
        texts = [answer.text for answer in answers]
        return score_answers(texts, right, num_bootstrap, seed, best, margins)

    # Predictions

    def signatures(self, use: QuestionAnsweringUse) -> dict[str, Signature]:
        """Returns the inputs and outputs of the SavedModel, keyed by signature.

        The inputs of `serving_default` are `question` and `text: string (B,)`. Its outputs have the
        same values as the results of this object:

            answer         string (B,)      the best answer, `""` for no answer
            probability    float32 (B,)     probability of the best answer, or of no answer
            answers        string (B, N)    the N best answers, `""` if there are fewer
            probabilities  float32 (B, N)   probabilities of the N best answers
            starts, ends   int32 (B, N)     positions of the N best answers in bytes
            start_characters, end_characters  int32 (B, N)  their positions in characters
            no_answer      float32 (B,)     probability that there is no answer

        Bytes that are not UTF-8 are read as U+FFFD, and positions refer to the resulting text.
        """
        return {"serving_default": Signature(("question", "text"), self.pairs, answer_outputs())}

    def rows(self, xp: ArrayModule, tensors: Tensors) -> dict[str, Array]:
        """Cuts encoded questions and texts into the R windows that the model reads.

        Args:
            xp: The array module: `numpy`, or `keras.ops` in the SavedModel.
            tensors: The result of `QuestionRows.encode`.

        Returns:
            A dict of arrays, such as the padded ids `row_ids (R, T)` and the number of ids of each
            window, `row_sizes (R,)`; see `QuestionRows.rows`.
        """
        return self.pairs.rows(xp, tensors)

    def scores(self, inputs: Tensors) -> dict[str, Array]:
        """Computes the scores of the tokens of R windows of at most T tokens.

        Args:
            inputs: Inputs of the model, such as `token_ids (R, T)`.

        Returns:
            A dict of `tokens (R, T, 2)`: the scores of each token as the first and as the last
            token of an answer.
        """
        return {"tokens": self.logits(inputs)["spans"]}

    def read_off(
        self, xp: ArrayModule, tensors: Tensors, use: QuestionAnsweringUse
    ) -> dict[str, Array]:
        """Finds the best spans of each window.

        Args:
            xp: The array module: `numpy`, or `keras.ops` in the SavedModel.
            tensors: The scores of tokens, and arrays of the windows; see `WindowedTask.read_off`.
            use: Settings of class `Use`.

        Returns:
            A dict of arrays for R windows: `scores`, `first` and `last` `(R, n_best)`, the scores,
            first and last tokens of the best spans; `whole (R,)`, the log of the sum over all
            spans; and `none (R,)`, the score of "no answer".
        """
        return window_spans(xp, tensors, use.max_answer_length, use.n_best)

    def run(self, xp: ArrayModule, tensors: Tensors, use: QuestionAnsweringUse) -> dict[str, Array]:
        """Finds the best answers among the spans of the windows of each text.

        Args:
            xp: The array module: `numpy`, or `keras.ops` in the SavedModel.
            tensors: The encoded inputs, and the results of `rows` and `read_off`.
            use: Settings of class `Use`.

        Returns:
            A dict of arrays for B texts. For the best answer, it has the positions `answer_start`
            and `answer_end`, the `probability`, and `margin`, the score of "no answer" minus the
            score of the best span, `(B,)`; `no_answer (B,)`, the probability that there is no
            answer; and `refused (B,)`, whether "no answer" is predicted. For the `n_best` answers,
            it has `starts`, `ends`, `probabilities`, and `there`, whether the answer exists,
            `(B, n)`. Other arrays locate the best answer among the windows.
        """
        threshold = use.threshold if self.unanswerable else None
        return text_answers(xp, tensors, windows_of(tensors), threshold)

    @staticmethod
    def is_one(inputs: Any) -> bool:
        """Returns whether the argument is a single pair: a tuple."""
        return isinstance(inputs, tuple)

    def asked(self, inputs: Any) -> list[tuple[str, str]]:
        """Checks inputs, and returns them as a list of tuples (question, text)."""
        return [_as_pair(pair) for pair in listed(inputs, "(question, text) pairs", 2)]

    def results(self, pairs: list[tuple[str, str]], use: QuestionAnsweringUse) -> list[Answer]:
        """Answers questions, each by a span of its text.

        Args:
            pairs: A tuple (question, text), or a list of such tuples.
            use: Settings of class `Use`.

        Returns:
            An `Answer` for a tuple, or a list of `Answer`s for a list.

        Raises:
            TypeError: If an input is not a pair of strings, or a setting is unknown.
            ValueError: If a setting is out of range.
        """
        return self._answered(pairs, use)[0]

    def _answered(
        self, pairs: list[tuple[str, str]], use: QuestionAnsweringUse
    ) -> tuple[list[Answer], dict[str, Any]]:
        """Answers, and what `QuestionRows.encode`, `rows` and `run` return."""
        if not pairs:
            return [], {}
        questions, texts = (list(side) for side in zip(*pairs, strict=True))
        tensors = self.pairs.encode(questions, texts)
        tensors |= self.computed(tensors, use)
        return read_answers(texts, tensors), tensors

    def reasons(self, pairs: list[tuple[str, str]], use: QuestionAnsweringUse) -> list[Explanation]:
        """Computes how much each word supports an answer, or collects the attention of all heads.

        The weights of `method="gradient"` (gradient times input) and of
        `method="integrated_gradients"` are contributions to the score of the answer: the sum of
        the logits of its first and last token, or of `[CLS]` if there is no answer.

        Args:
            pairs: A tuple (question, text), or a list of such tuples.
            use: Settings of class `Use`.

        Returns:
            With these methods, an `Explanation` for a tuple, or a list of `Explanation`s for a
            list: the question, the text with the answer marked, and a weight for each word in the
            window of the answer. Other words are left out. With `method="attention"`, an
            `EncoderStudy` of the questions and the beginnings of the texts, whose `html()` returns
            a page.

        Raises:
            TypeError: If an input is not a pair of strings, or a setting is unknown.
            ValueError: If `method` has another value, a setting is out of range, or
                `method="attention"` and the encoder has no attention.
        """
        answers, found = self._answered(pairs, use)
        taken, every = found["window"], row_lists(found)
        rows = [every[row] for row in taken]
        seconds, starts = found["row_seconds"][taken], found["window_start"][taken]
        places = np.stack([found["first_piece"], found["last_piece"]], 1)
        index = np.where(found["refused"][:, None], 0, places + (seconds - starts)[:, None])
        weights = self.gradients(rows, span_score, index, use.batch_size, use.method)
        encoded = ids_and_places(self.tokenizer, [question for question, _ in pairs])[1]
        begins = found["begins"] + starts
        of_pieces = np.stack([found["piece_starts"], found["piece_ends"]], 1)
        explanations = []
        for (question, text), answer, (ids, begin), of_row, asked, count, first in zip(
            pairs, answers, rows, weights, encoded, found["questions"], begins, strict=True
        ):
            marked = (answer.start, answer.end) if answer.start < answer.end else None
            read = of_pieces[first : first + len(ids) - begin - 1].tolist()
            sides = (
                weighted_words(question, asked[:count], of_row[1:]),
                weighted_words(text, read, of_row[begin:], marked),
            )
            words = [word for side in sides for word in side]
            explanations.append(
                Explanation(
                    question,
                    [word.text for word in words],
                    [word.place for word in words],
                    np.array([word.weight for word in words], "float64"),
                    answer.text or "no answer",
                    answer.probabilities(none=self.unanswerable or not answer.candidates),
                    f"{METHOD_NAMES[use.method]}, for the answer",
                    text,
                    [number for number, side in enumerate(sides) for _ in side],
                    marked,
                )
            )
        return explanations

    def cells(self, result: Answer) -> dict[str, object]:
        """Returns a dict of `answer`, the text of the answer; `start`, `end`, `probability`,
        `no_answer` and `candidates`."""
        found = json.loads(self.readable(result))
        return {name: found["text" if name == "answer" else name] for name in self.predicts}

    @staticmethod
    def readable(result: Answer) -> str:
        """Returns an answer as a JSON object, as the command writes it."""
        found = result._asdict()
        found["candidates"] = [span._asdict() for span in result.candidates]
        return json.dumps(found, ensure_ascii=False)

    def export_examples(self) -> dict[str, Any]:
        """Returns a dict of `question` and `text`: ordinary and unusual questions and texts for
        checking an export."""
        long = " ".join(f"{i} ships of {i % 17} ports sailed in {1500 + i}." for i in range(150))
        texts = [*ODD_TEXTS[:-1], "Ada lives in Oslo, Bob in Rome.", long]
        return {"question": [*texts[1:-1], "Where does Ada live?", "How many?"], "text": texts}


def _as_pair(pair: Any) -> tuple[str, str]:
    if isinstance(pair, Iterable) and not isinstance(pair, str | bytes):
        parts = list(pair)
        if len(parts) == 2:
            question, text = checked_texts(parts)
            return question, text
    raise TypeError(
        f"Expected a pair of strings, a question and a text. Received: {pair!r:.100}. In files "
        "for the command, separate them by a tab."
    )
