"""Answer selection: finds the best answers to a question among many."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import keras
import numpy as np

from keras_attn.arrays import Array, ArrayModule, greatest, unit_length
from keras_attn.batches import ScoredPairBatches
from keras_attn.explain import Explanation
from keras_attn.fields import (
    ODD_TEXTS,
    AnswerIndex,
    EncoderInput,
    FoundAnswer,
    FoundNames,
    Numbers,
    SearchTexts,
    Signature,
    checked_texts,
)
from keras_attn.fields.answer_index import (
    Candidates,
    Embedder,
    checked_candidates,
    found_answers,
    reranked,
)
from keras_attn.fields.signature import OutputField
from keras_attn.files import open_output
from keras_attn.inputs import listed
from keras_attn.metrics import RankingReport, ranks_of, score_ranks
from keras_attn.models import paired_encoder, sentence_encoder
from keras_attn.models.tensors import weights_checksum
from keras_attn.records import (
    ScoredPair,
    SelectionQuestion,
    SelectionQuestions,
    read_candidates,
    read_selection_questions,
    split_selection_questions,
)
from keras_attn.records.columns import numbered
from keras_attn.records.reading import Location, is_blank
from keras_attn.records.selection_questions import (
    check_answers,
    checked_selection_questions,
    pairs_of_answers,
)
from keras_attn.settings import Settings, setting, with_defaults
from keras_attn.tasks.base.compiling import compiled_alike
from keras_attn.tasks.base.doubts import doubt_of
from keras_attn.tasks.base.fine_tuning import EncoderTraining
from keras_attn.tasks.base.steps import step
from keras_attn.tasks.base.task import Examples
from keras_attn.tasks.base.task_run import Scored, TrainingRun
from keras_attn.tasks.families.data_settings import (
    COLUMN_OR_NUMBER,
    Files,
    NearDuplicates,
    Tables,
    column,
)
from keras_attn.tasks.families.encoder_settings import (
    EncoderLearned,
    EncoderTokenizer,
)
from keras_attn.tasks.families.text_vectors import TextVectors, VectorData
from keras_attn.tasks.families.use_settings import BootstrapTest, PageUse
from keras_attn.tasks.similarity import SimilarityScorer
from keras_attn.text.checks import well_formed
from keras_attn.training import InBatchCrossEntropy

_READ = ("fit", "evaluate", "pairs")
_SEARCH = ("predict", "evaluate", "pairs")
_OF_BACKBONE = ("max_length", "pooling", "unit_length", "query_prompt", "passage_prompt")
_SURE = 1e-5  # scores that are this far apart are in the same order on every machine


@dataclass(frozen=True)
@with_defaults(
    help={
        "train": "questions with their right answers to learn from",
        "on_error": "what to do with a bad line; in evaluate, one with an answer that the model "
        "does not have is bad too",
    },
    words={"examples": "questions", "bi": ""},
    steps=dict.fromkeys(("on_error", "format", "delimiter"), _READ),
)
class AnswerSelectionData(VectorData, Tables, NearDuplicates, Files):
    """Settings of the questions and answers, and of the encoder."""

    answers: str = setting(
        "", "further answers to choose from: one on each line, or a table with the column --answer",
        shapes_result=False, path="examples",
    )  # fmt: skip
    question: str = column("question", "questions", COLUMN_OR_NUMBER, _READ)
    answer: str = column("answer", "answers", COLUMN_OR_NUMBER, _READ)
    query_prompt: str | None = setting(
        None, "prefix of each question; if none, the prompt of a sentence-transformers "
        "backbone", kind=str,
    )  # fmt: skip
    passage_prompt: str | None = setting(
        None, "prefix of each answer; if none, the prompt of a sentence-transformers "
        "backbone", kind=str,
    )  # fmt: skip


@dataclass(frozen=True)
@with_defaults(
    words={
        "rows": "texts",
        "shown": "each question and its best answer with the words that match, or what each head "
        "looks at",
    },
    steps={"batch_size": (*_SEARCH, "explain", "export")},
)
class AnswerSelectionUse(PageUse):
    """Settings of the search for answers. In Python, the reranker may be a `SimilarityScorer`."""

    top_k: int = setting(
        10, "answers for each question, the best first", at_least=1, steps=("predict", "export")
    )
    by: str = setting(
        "vectors", "kind of search; words and both need the extra `search`",
        choices=("vectors", "words", "both"), steps=_SEARCH,
    )  # fmt: skip
    lexical_weight: float | None = setting(
        None, "both: weight of the search by words, 0 to 1; the rest is the weight of the "
            "vectors; if none, 0.5",
        kind=float, at_least=0, steps=_SEARCH,
    )  # fmt: skip
    reranker: SimilarityScorer | str = setting(  # noqa: RUF009 (a field, as the others)
        "", "similarity model that reranks the best answers, such as one of kind cross",
        steps=("predict", "evaluate"), path="model",
    )  # fmt: skip
    rerank_depth: int | None = setting(
        None, "number of answers that --reranker scores for each question; if none, 20", kind=int,
        at_least=1, steps=("predict", "evaluate"),
    )  # fmt: skip
    negatives: int = setting(
        4, "wrong answers for each right answer: those with the best scores", at_least=1,
        steps=("pairs",),
    )  # fmt: skip

    def __post_init__(self) -> None:
        reranker = self.reranker
        if isinstance(reranker, SimilarityScorer):
            object.__setattr__(self, "reranker", type(reranker).__name__)  # settings are no objects
        super().__post_init__()
        if isinstance(reranker, SimilarityScorer):
            object.__setattr__(self, "reranker", reranker)
        if self.lexical_weight is not None and (self.lexical_weight > 1 or self.by != "both"):
            raise ValueError(
                "`lexical_weight` must be from 0 to 1, and is only used with by='both'. "
                f"Received: lexical_weight={self.lexical_weight} with by={self.by!r}."
            )
        if self.rerank_depth is not None and not self.reranker:
            raise ValueError(
                "`rerank_depth` requires a `reranker`. Received: "
                f"rerank_depth={self.rerank_depth} without `reranker`."
            )

    @property
    def depth(self) -> int:
        """Maximum number of answers of each question that are reranked; 0 without a reranker."""
        return (self.rerank_depth or 20) if self.reranker else 0

    @property
    def weight(self) -> float:
        """Weight of the word search with `by="both"`. The weight of the vector search is 1 minus
        this value."""
        return 0.5 if self.lexical_weight is None else self.lexical_weight


@dataclass(frozen=True)
@with_defaults(words={"examples": "questions with right answers, as for fit"})
class AnswerSelectionTest(BootstrapTest):
    """Settings for evaluating answer selection."""


@dataclass(frozen=True)
class PairQuestions(Settings):
    """Settings of `pairs`: the questions from which pairs are made."""

    data: str = setting("", "questions, as for fit", required=True, path="examples")


@dataclass(frozen=True)
class SelectionLearned(EncoderLearned):
    """Learned values of an answer selector: its tokenizer and the distinct answers."""

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


class AnswerSelector(TextVectors):
    """Finds answers to questions among a fixed set of answers.

        score = cosine(vector(question), vector(answer))

    The vectors of the answers are computed when they are first needed, and again if the answers or
    the weights of the model have changed. Answers can also be searched by words or by words and
    vectors, and reranked by a second model; see `predict`. Training teaches the encoder to prefer
    the right answer of a question to the other answers of the batch.

    `.model` is the plain Keras model from the ids of B texts to `{"vectors": (B, D)}`, vectors of
    width D.

    References:
        - [Henderson et al., 2017](https://arxiv.org/abs/1705.00652): the other answers of a batch
          as negatives.
        - [Reimers and Gurevych, 2019](https://arxiv.org/abs/1908.10084): Sentence-BERT.

    Args:
        tokenizer: A `WordPieceTokenizer`, a `SentencePieceTokenizer`, a `BytePairTokenizer` with
            `normalize=False`, or a `WordTokenizer`.
        answers: The answers to choose from; duplicates are removed.
        model: Settings of the encoder: a `BertConfig`, `RobertaConfig`, `ModernBertConfig` or
            `BiLstmConfig`; a dict of some settings, such as `{"model": "roberta", "dim": 128}`; or
            None for the defaults of BERT.
        data: Settings of the data: an `AnswerSelectionData`, or a dict of some of its settings,
            such as `max_length` and `pooling`.
        dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.

    Raises:
        TypeError: If the class of the tokenizer is not supported, an answer is not a string, or a
            setting of the data is unknown.
        ValueError: If there is no answer, an answer is empty, a setting of the model is unknown, a
            setting is out of range, or the tokenizer normalizes texts.

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
    about = "Find the answers to questions among many: by words, by vectors, or by both."
    heads = ()
    Data, Learned, Training = AnswerSelectionData, SelectionLearned, EncoderTraining
    Use, Test = AnswerSelectionUse, AnswerSelectionTest
    data: AnswerSelectionData
    learned: SelectionLearned
    steps = ("fit", "evaluate", "predict", "explain", "quantize", "export")
    examples_are, rows_are = "questions", "pairs"
    input_columns: ClassVar = {"question": ""}
    predicts: ClassVar = {"answer": str, "score": float, "answers": object}
    backbone_settings = _OF_BACKBONE

    _index: tuple[EncoderInput, AnswerIndex] | None = None
    """The index of the answers, and what reads them."""
    _reranker: tuple[Any, Any] = (None, None)
    """A reranker that was loaded: its file and when that was written, and the scorer."""

    @property
    def pooling(self) -> str:
        """Pooling of token states to a vector: `"average"` over all tokens, `"first"` or
        `"max"`."""
        return self.sentences.pooling

    @property
    def prompts(self) -> tuple[str, str]:
        """The text that is added before each question, and the text that is added before each
        answer; both are empty without prompts."""
        return self.data.query_prompt or "", self.data.passage_prompt or ""

    def build(self, dtype: Any) -> None:
        """Builds the encoder of single texts, with layers of the dtype or policy `dtype`, and
        assigns it to `.model`; called by the constructor."""
        unit = self.sentences.unit_length
        self.model = sentence_encoder(self.config, self.pooling, dtype, "sentence_encoder", unit)

    @property
    def answers(self) -> tuple[str, ...]:
        """The answers to choose from, which can be replaced by assignment."""
        return self.learned.answers

    @answers.setter
    def answers(self, answers: Iterable[str]) -> None:
        self.relearn(answers=answers)

    def facts(self) -> list[str]:
        """Returns texts for the `repr`: the encoder and the number of answers."""
        return [*super().facts(), f"{len(self.answers):,} answers"]

    # Data and training

    @classmethod
    def read_file(
        cls, path: Location, data: AnswerSelectionData, answers: Iterable[str] | None = None
    ) -> SelectionQuestions:
        """Reads questions with their right answers.

        Args:
            path: The file, or a table in memory as `keras_attn.records.Rows`.
            data: Settings of class `Data`.
            answers: The allowed answers; a line with another answer is bad, and is skipped or
                raises an error (`on_error` in `data`). None allows all answers.

        Returns:
            `SelectionQuestions`: the questions, and in `answers` the distinct answers of the file.
        """
        question, answer = numbered(data.question, data.answer)
        return read_selection_questions(
            path, question, answer, data.format, delimiter=data.delimiter or None,
            on_error=data.on_error, answers=answers,
        )  # fmt: skip

    @classmethod
    def split(
        cls, examples: SelectionQuestions, data: AnswerSelectionData
    ) -> tuple[SelectionQuestions, list[SelectionQuestion]]:
        """Splits questions at random into training questions, a `SelectionQuestions`, and a list of
        development questions. The training questions keep the answers of both parts as candidates.
        With `data.near_duplicates="apart"`, equal and nearly equal questions stay together.
        """
        apart = data.near_duplicates == "apart"
        train, dev = split_selection_questions(examples, data.dev_share, data.split_seed, apart)
        return replace(examples, questions=train), dev

    @classmethod
    def read(cls, data: AnswerSelectionData) -> Examples:
        """Reads questions with right answers from CSV, TSV, JSON lines or Parquet.

        Each line has a question and an answer; a question with several right answers has several
        lines. The candidates of the task are all distinct answers, in the order of their first
        occurrence, followed by the answers of --answers.
        """
        examples = super().read(data)
        answers = [*examples.train.answers, *cls.checked(examples.dev or ()).answers]
        train = replace(examples.train, answers=tuple(dict.fromkeys(answers)))
        return examples._replace(train=train)

    def read_test(self, test: AnswerSelectionTest, data: AnswerSelectionData) -> SelectionQuestions:
        """Reads test questions. A line whose answer is not among the answers of this task is bad:
        it is skipped or raises an error, as `data.on_error` says."""
        return self.read_file(test.data, data, self.answers)

    @classmethod
    def checked(cls, examples: Iterable[Any]) -> SelectionQuestions:
        """Checks questions with right answers, and returns them as `SelectionQuestions`. Their
        `answers` are the answers to choose from: the `answers` of the argument, if it is a
        `SelectionQuestions`, and all right answers."""
        before = examples.answers if isinstance(examples, SelectionQuestions) else ()
        questions = checked_selection_questions(examples)
        own = (answer for x in questions for answer in x.answers)
        return SelectionQuestions(
            questions=questions, answers=tuple(dict.fromkeys([*before, *own]))
        )

    @classmethod
    def texts_of(cls, examples: SelectionQuestions, data: AnswerSelectionData) -> Iterable[str]:
        """Returns the questions, their right answers, and the answers of the file `data.answers`,
        from which a tokenizer is trained."""
        answers = [answer for x in examples for answer in x.answers]
        return [*(x.question for x in examples), *answers, *_read_answers(data)]

    @classmethod
    def learn_beside(
        cls, tokenizer: EncoderTokenizer, examples: SelectionQuestions, data: AnswerSelectionData
    ) -> SelectionLearned:
        """Returns a `SelectionLearned` with the tokenizer, and the answers of the examples and of
        the file `data.answers`."""
        return SelectionLearned(tokenizer, (*examples.answers, *_read_answers(data)))

    @classmethod
    def from_backbone(
        cls, place: str, answers: Iterable[str], dtype: Any = None, **data: Any
    ) -> Self:
        """Creates a selector from a pretrained encoder, without examples.

        Encoders that were trained for text embeddings, such as Sentence-BERT, need no further
        training.

        Args:
            place: A file of a task with an encoder, or a folder or hub name of Hugging Face
                weights. A sentence-transformers model determines the settings in `data` that are
                not given.
            answers: The answers to choose from.
            dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.
            **data: Settings of the data: `pooling`, `unit_length`, `max_length`, `query_prompt`,
                `passage_prompt`.

        Returns:
            An `AnswerSelector` that is ready to use.

        Raises:
            ImportError: If `place` is a hub name, and the package that downloads it is not
                installed.
            OSError: If the file or folder does not exist, or the model cannot be downloaded.
            TypeError: If an answer is not a string, or a setting is unknown or has the wrong type.
            ValueError: If the backbone has no encoder or no tokenizer, there is no answer, an
                answer is empty, or a setting is out of range.
        """
        settings = cls.data_of((), {"backbone": str(place), **data})
        chosen = tuple(listed(answers, "answers"))
        return cls.untrained(settings, dtype, lambda x: SelectionLearned(x, chosen))

    def dataset(self, examples: Iterable[Any], **settings: Any) -> ScoredPairBatches:
        """Creates batches of questions and answers, for `fit` of the result of `trained_form`.

        Args:
            examples: `SelectionQuestion`s, or tuples of a question and its right answer or a list
                of right answers.
            **settings: Settings of `keras_attn.batches.ScoredPairBatches`: `batch_size`, `seed`,
                `shuffle`, ...

        Returns:
            `ScoredPairBatches` with one pair for each question and right answer, and labels for
            `InBatchCrossEntropy`.

        Raises:
            ValueError: If there is no question, or an example has the wrong form.
        """
        checked = checked_selection_questions(examples)
        every = dict.fromkeys(answer for x in checked for answer in x.answers)
        numbers = {answer: i for i, answer in enumerate(every)}
        right: dict[str, dict[str, None]] = {}  # of the same question, in several examples too
        for x in checked:
            right.setdefault(x.question, {}).update(dict.fromkeys(x.answers))
        pairs = [(question, answer) for question, own in right.items() for answer in own]
        labels = np.full((len(pairs), 1 + max(map(len, right.values()))), -1, "int32")
        for row, (question, answer) in zip(labels, pairs, strict=True):
            own = [numbers[answer], *(numbers[other] for other in right[question])]
            row[: len(own)] = own
        settings = {"batch_size": 32, "max_shapes": 4, **settings}
        settings.setdefault("least", settings["batch_size"])
        return self.pair_batches(pairs, labels, **settings)

    def objective(self, training: EncoderTraining) -> dict[str, Any]:
        """Returns a dict with the `loss`: the cross-entropy of the right answer among all answers
        of the batch."""
        return {"loss": {"similarity": InBatchCrossEntropy()}}

    def trained_form(self, training: EncoderTraining) -> keras.Model:
        """Returns the compiled model that `fit` trains: it compares all questions of a batch with
        all answers, and has the layers of `model`."""
        return compiled_alike(paired_encoder(self.model, each_with_all=True), self.model)

    def describe(self, batches: ScoredPairBatches) -> list[str]:
        """Returns lines for the log about the model, the batches and the number of answers."""
        return [*super().describe(batches), f"{len(self.answers):,} answers to choose from."]

    def doubt(self, batches: ScoredPairBatches, run: TrainingRun) -> str:
        """Returns a warning if a run of at least two epochs ends with a training loss that is not
        below the loss of giving all answers the same score; an empty string otherwise."""
        losses, rows = [], []
        for i in range(len(batches)):  # how many answers meet depends on the batch
            _, labels, weights = batches[i]
            answers, weight = labels["similarity"], weights["similarity"]
            same = np.zeros((len(answers), len(answers)), "float32")
            losses.append(float(InBatchCrossEntropy()(answers, same, weight)))
            rows.append(len(answers))
        guess = float(np.average(losses, weights=rows))
        return doubt_of(run, guess, "giving all answers of a batch the same score")

    # Measuring

    def scored_by(self, training: EncoderTraining) -> tuple[str, int]:
        """Returns `"MRR"`, the mean reciprocal rank, and 1, because higher is better."""
        return "MRR", 1

    def scorer(
        self, dev: Sequence[Any], training: EncoderTraining
    ) -> Callable[[keras.Model], Scored]:
        """Adds the answers of the development questions to `answers`, and returns the function that
        scores these questions with a model after each epoch."""
        self.answers = [*self.answers, *self.checked(dev).answers]
        return super().scorer(dev, training)

    def score(self, examples: Sequence[SelectionQuestion]) -> dict[str, float]:
        """Returns a dict of `mrr` and `map`, the mean reciprocal rank and the mean average
        precision of the right answers of questions."""
        report = self.evaluate(examples, num_bootstrap=0)
        return {"mrr": report.reciprocal_rank, "map": report.average_precision}

    def measured(self, examples: SelectionQuestions, use: AnswerSelectionUse) -> list[np.ndarray]:
        """Returns an array for each question: the ranks, counted from 1, of its right answers among
        its candidates, or among all answers of the task if it has none."""
        places = {answer: i for i, answer in enumerate(self.answers)}
        own = [x.candidates for x in examples] if check_answers(examples, places) else None
        searched = self._searched([x.question for x in examples], own, use)
        ranks = []
        for x, (texts, scores) in zip(examples, searched, strict=True):
            at = texts.index if x.candidates else places.__getitem__
            ranks.append(ranks_of(scores, [at(answer) for answer in x.answers]))
        return ranks

    def report(
        self,
        examples: SelectionQuestions,
        results: Sequence[np.ndarray],
        *,
        num_bootstrap: int,
        seed: int = 0,
    ) -> RankingReport:
        """Measures the ranks of the right answers.

        Answers that a reranker does not score keep their order and follow the reranked answers.

        Args:
            examples: `SelectionQuestion`s, or tuples of a question, its right answer or a list of
                right answers, and optionally a list of candidates. Without this list, all answers
                of the task are candidates.
            results: The result of `measured`: the ranks of the right answers of each question.
            num_bootstrap: Bootstrap samples for the confidence intervals; 0 for no intervals.
            seed: Seed of the bootstrap samples.

        Returns:
            A `RankingReport`, which `print` shows: mean reciprocal rank, average precision and
            recall.

        Raises:
            ImportError: If words are searched and `bm25s` is not installed.
            TypeError: If a setting is unknown.
            ValueError: If there is no example, an example has the wrong form, a right answer is not
                among the candidates, or a setting is out of range.
        """
        return score_ranks(results, num_bootstrap=num_bootstrap, seed=seed)

    def ranks(self, examples: Iterable[Any], **search: Any) -> list[np.ndarray]:
        """Finds the ranks of the right answers among the candidates.

        Args:
            examples: Questions with right answers, as for `evaluate`.
            **search: Settings of the search, such as `by` and `reranker`. Settings that are not
                given have the defaults of class `Use`, even if `own_use` has other values.

        Returns:
            For each question, the ranks of its right answers, counted from 1, in ascending order.
            Equal scores share the mean of their ranks.

        Raises:
            ImportError: If words are searched and `bm25s` is not installed.
            TypeError: If a setting is unknown.
            ValueError: If there is no question, an example has the wrong form, a right answer is
                not among the candidates, or a setting is out of range.
        """
        return self.measured(self.checked(examples), self.Use.made(search))

    def pairs(self, examples: Iterable[Any], **search: Any) -> list[ScoredPair]:
        """Makes pairs of questions and answers for training a reranker.

        Args:
            examples: Questions with right answers, as for `evaluate`.
            **search: Settings of the search: `by`, `lexical_weight`, `batch_size`, and `negatives`,
                the number of wrong answers for each right answer. Settings that are not given have
                the defaults of class `Use`, even if `own_use` has other values.

        Returns:
            A list of `ScoredPair`s for `SimilarityScorer`. Pairs of a question and a right answer
            have score 1; pairs of a question and one of the best wrong answers of the search have
            score 0.

        Raises:
            ImportError: If words are searched and `bm25s` is not installed.
            TypeError: If a setting is unknown.
            ValueError: If there is no question, an example has the wrong form, or a setting is out
                of range.
        """
        checked, use = checked_selection_questions(examples), self.Use.made(search)
        own = [x.candidates or self.answers for x in checked]
        given = own if any(x.candidates for x in checked) else None
        searched = self._searched([x.question for x in checked], given, use)
        return pairs_of_answers(checked, searched, use.negatives)

    # Predictions

    def asked(self, inputs: Any) -> list[str]:
        """Checks questions, and returns them as a list of strings."""
        return checked_texts(inputs)

    def results(
        self,
        questions: Sequence[str],
        use: AnswerSelectionUse,
        *,
        candidates: Candidates | Sequence[str] | None = None,
    ) -> list[list[FoundAnswer]]:
        """Finds the best answers to questions.

        The setting `by` chooses a search by vectors (cosines), by words (BM25, see
        `keras_attn.text.WordScores`), or by both. The score of a search by both is
        `w * words + (1 - w) * vectors`, where w is `lexical_weight`, and `words` and `vectors` are
        the two scores, each scaled to the range from 0 to 1 over the candidates of the question. A
        second model can rerank the best answers: `reranker` is a `SimilarityScorer`, for example
        with `kind="cross"`, which reads question and answer together, or the path of its file.

        Args:
            questions: A question, or a list of questions.
            use: Settings of class `Use`.
            candidates: For each question, a list of the answers to choose from (for one question,
                only this list), instead of the answers of the task. Word frequencies are then
                counted over all distinct candidates in the call.

        Returns:
            A list of `FoundAnswer`s for one question, the best first, or a list of lists for a list
            of questions.

        Raises:
            ImportError: If words are searched and `bm25s` is not installed.
            TypeError: If an input is not a string, or a setting is unknown.
            ValueError: If a setting is out of range or not one of its choices, `rerank_depth` is
                less than `top_k` with a reranker, the numbers of candidate lists and questions
                differ, a question has an empty list of candidates, or a score is not finite.
        """
        if 0 < use.depth < use.top_k:
            raise ValueError(
                "`rerank_depth` must be at least `top_k`. Received: "
                f"rerank_depth={use.depth} and top_k={use.top_k}."
            )
        if candidates is not None:
            candidates = checked_candidates(candidates, len(questions))
        searched = self._searched(questions, candidates, use)
        return [found_answers(own, scores, use.top_k) for own, scores in searched]

    def _searched(
        self, questions: Sequence[str], candidates: Candidates | None, use: AnswerSelectionUse
    ) -> Iterator[tuple[Sequence[str], np.ndarray]]:
        """The candidates of each question with their scores."""
        if candidates is None:
            index = self._answer_index(use.batch_size, use.by != "words")
        else:
            texts = dict.fromkeys(text for own in candidates for text in own)
            index = AnswerIndex(texts, *self._embedders(use.batch_size))
        reranker = self._loaded(use.reranker) if use.reranker else None
        searched = index.searched(questions, use.by, use.weight, candidates)
        for question, (own, scores) in zip(questions, searched, strict=True):
            if reranker is not None:
                first = greatest(np, scores, use.depth)
                pairs = [(question, own[i]) for i in first]
                new = reranker.predict(pairs, batch_size=use.batch_size)
                scores = reranked(scores, first, np.array(new))
            _check_finite(scores, f"to {question!r:.80} ")
            yield own, scores

    def _answer_index(self, batch_size: int, with_vectors: bool = True) -> AnswerIndex:
        """The index of the answers; its vectors are of the weights that the model has now."""
        if self._index is None or self._index[0] is not self.field:
            self._index = self.field, AnswerIndex(self.answers, *self._embedders(batch_size))
        index = self._index[1]
        if with_vectors:
            index.read_by(weights_checksum(self.model))
        return index

    def _embedders(self, batch_size: int) -> list[Embedder]:
        """What makes vectors of answers, and of questions."""

        def embedder(prompt: str) -> Embedder:
            return lambda texts: self.embed(texts, batch_size, normalize=True, prompt=prompt)

        return [embedder(prompt) for prompt in self.prompts[::-1]]

    def _loaded(self, reranker: SimilarityScorer | str) -> SimilarityScorer:
        if isinstance(reranker, SimilarityScorer):
            return reranker
        path = os.path.expanduser(reranker)
        file = os.path.abspath(path), os.path.getmtime(path) if os.path.exists(path) else None
        if self._reranker[0] != file:
            self._reranker = file, SimilarityScorer.load(reranker)
        return self._reranker[1]

    def studied(self, questions: list[str]) -> list[str]:
        """Returns the texts whose attention `explain` shows: each distinct question, and its best
        answer in a search by vectors, with their prompts."""
        best = self.results(questions, self.Use(top_k=1))
        pairs = [(question, x.answer) for question, (x,) in zip(questions, best, strict=True)]
        return list(dict.fromkeys(text for pair in self.prompted(pairs) for text in pair))

    def reasons(self, questions: list[str], use: AnswerSelectionUse) -> list[Explanation]:
        """Computes how much each word of a question and its best answer contributes to their score,
        or collects the attention of all heads.

        The best answer is the first result of a search by vectors, even if `own_use` has another
        kind of search or a reranker.

        Args:
            questions: A question, or a list of questions.
            use: Settings of class `Use`.

        Returns:
            With `method="gradient"` (gradient times input) and `method="integrated_gradients"`, an
            `Explanation` for a question, or a list of `Explanation`s for a list. An `Explanation`
            has the contribution of each word of the question and the answer to the cosine; a
            positive weight raises the score. With `method="attention"`, an `EncoderStudy` of the
            questions and answers, whose `html()` returns a page.

        Raises:
            TypeError: If an input is not a string, or a setting is unknown.
            ValueError: If `method` has another value, a setting is out of range, or
                `method="attention"` and the encoder has no attention.
        """
        search = self.Use(top_k=1, batch_size=use.batch_size)
        best = [x for (x,) in self.results(questions, search)]
        pairs = [(question, x.answer) for question, x in zip(questions, best, strict=True)]
        weights = self.cosine_weights(pairs, use.batch_size, use.method)
        return self.explanations(pairs, [x.score for x in best], weights, use.method)

    # The SavedModel and the command

    def signatures(self, use: AnswerSelectionUse) -> dict[str, Signature]:
        """Returns the inputs and outputs of the SavedModel, keyed by signature.

        The input of each signature is `text: string (B,)`. `serving_default` returns the k best
        `answers: string (B, k)`, their `scores: float32 (B, k)`, and `numbers: int32 (B, k)`, their
        indices in the answers of the task. `embed` returns the vectors of questions, `vectors:
        float32 (B, D)` of length 1. If answers and questions have different prompts,
        `embed_answers` returns the vectors of answers.
        """
        query, passage = self.prompts
        search = SearchTexts(
            self.field, self.answers, lambda: self._answer_index(use.batch_size).vectors, query
        )
        outputs: dict[str, OutputField] = {
            "answers": FoundNames("numbers"),
            "scores": Numbers("scores"),
            "numbers": Numbers("numbers"),
        }
        found = Signature(("text",), search, outputs)
        embed = {"embed": self.embed_signature(query)}
        if passage != query:
            embed["embed_answers"] = self.embed_signature(passage)
        return {"serving_default": found, **embed}

    def run(
        self, xp: ArrayModule, tensors: Mapping[str, Array], use: AnswerSelectionUse
    ) -> dict[str, Array]:
        """Finds the answers whose vectors are nearest to the vectors of questions.

        Args:
            xp: The array module: `numpy`, or `keras.ops` in the SavedModel.
            tensors: A dict of `vectors (B, D)` and, for a search, `index (D, N)`: the vectors of
                the N answers.
            use: Settings of class `Use`.

        Returns:
            With `index`, a dict of `numbers` and `scores` `(B, k)`, the indices and cosines of the
            k best answers (`top_k`, or N if that is less), and `steps`, the differences between
            successive scores: `(B, k)`, or `(B, k - 1)` if all answers are returned. Without
            `index`, a dict of `vectors (B, D)`, scaled to length 1.
        """
        units = unit_length(xp, tensors["vectors"])
        if "index" not in tensors:
            return {"vectors": units}
        cosines = xp.matmul(units, tensors["index"])  # (B, N)
        count = min(use.top_k, len(self.answers))
        # One more than are found, for `unsure`.
        numbers = greatest(xp, cosines, min(count + 1, len(self.answers)))
        scores = xp.take_along_axis(cosines, numbers, axis=1)
        return {
            "numbers": numbers[:, :count],
            "scores": scores[:, :count],
            "steps": scores[:, :-1] - scores[:, 1:],
        }

    def computed(self, tensors: Mapping[str, Array], use: AnswerSelectionUse) -> dict[str, Any]:
        """Computes the result of `run` in Python; raises a ValueError if a score is not finite."""
        found = super().computed(tensors, use)
        _check_finite(found.get("scores", np.zeros(0)))
        return found

    def unsure(self, tensors: Mapping[str, Array]) -> tuple[str, ...]:
        """Returns the names `answers` and `numbers` if scores are nearly equal, or if the compute
        dtype is not float32, because the order of the answers may then differ between machines; an
        empty tuple otherwise."""
        steps = tensors.get("steps", np.ones(1))
        sure = self.policy.compute_dtype == "float32" and (steps > _SURE).all()
        return () if sure else ("answers", "numbers")

    def checked_use(self, use: AnswerSelectionUse) -> AnswerSelectionUse:
        """Returns the settings of an export unchanged; raises a ValueError if `by` is not
        `"vectors"` or a reranker is given."""
        if use.by != "vectors" or use.reranker:
            raise ValueError(
                "A SavedModel searches by vectors, without a reranker. Received: "
                f"by={use.by!r}, reranker={use.reranker!r}. Leave them out, or search in Python."
            )
        return use

    def export_examples(self) -> dict[str, Any]:
        """Returns a dict of the input `text`: ordinary and unusual texts for checking an export."""
        return {"text": ODD_TEXTS}

    def cells(self, result: Sequence[FoundAnswer]) -> dict[str, object]:
        """Returns a dict of the best `answer`, its `score`, and `answers`, a list with a dict of
        `answer`, `score` and `number` for each answer that was found."""
        best = result[0]
        return {
            "answer": best.answer,
            "score": best.score,
            "answers": [found._asdict() for found in result],
        }

    @staticmethod
    def readable(result: Sequence[FoundAnswer]) -> str:
        """Returns the answers to a question as the command writes them: a JSON list of objects with
        `answer`, `score`, rounded to 6 digits, and `number`."""
        rows = [{**found._asdict(), "score": round(found.score, 6)} for found in result]
        return json.dumps(rows, ensure_ascii=False)

    @classmethod
    @step(
        "index",
        takes={
            "data": (
                "backbone", "answers", "answer", "delimiter", "on_error", *_OF_BACKBONE,
            )
        },
        required=("backbone", "answers"),
        writes="model",
        model="",
        before="fit",
    )  # fmt: skip
    def _make_index(cls, to: Path, data: AnswerSelectionData) -> Iterator[str]:
        """Make a model that searches the answers of a file, without training.

        The encoder is not trained further. Take one that was trained for vectors of texts, or the
        encoder of a model of this task; the answers of that model are not kept. A file of answers
        has one on each line, or is a table with the column --answer (*.csv, *.tsv, *.jsonl).
        """
        settings = {name: getattr(data, name) for name in _OF_BACKBONE}
        selector = cls.from_backbone(data.backbone, _read_answers(data), **settings)
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
        questions = self.read_file(pairs.data, data)
        yield questions.summary()
        found = self.pairs(questions, **use.to_dict())
        with open_output(to) as file:
            # A carriage return alone is not quoted otherwise, and then cannot be read.
            rows = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
            rows.writerow(["sentence1", "sentence2", "score"])
            rows.writerows(found)
        yield f"{to}: {len(found):,} pairs"


def _read_answers(data: AnswerSelectionData) -> list[str]:
    """Reads the file `data.answers`; no answers if there is none."""
    if not data.answers:
        return []
    _, column = numbered(data.question, data.answer)
    return read_candidates(
        data.answers, column, delimiter=data.delimiter or None, on_error=data.on_error
    )


def _check_finite(scores: np.ndarray, to: str = "") -> None:
    """Raises a ValueError if scores of answers are not finite."""
    if not np.isfinite(scores).all():
        raise ValueError(
            f"The scores of the answers {to}are not finite: the training of the model diverged. "
            "Train it with a lower learning rate, clip the gradients (`clip_norm`), or try another "
            "seed."
        )
