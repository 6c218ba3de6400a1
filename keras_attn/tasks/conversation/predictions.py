"""Answers to the turns so far, and how good they are."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from keras_attn.explain.alignment import END, Alignment
from keras_attn.fields import checked_texts
from keras_attn.inputs import listed
from keras_attn.interop import read_word_vectors
from keras_attn.metrics.conversation import (
    answer_scores,
    answer_words,
    nearest_answers,
    random_answers,
)
from keras_attn.tasks.base.checks import check_count
from keras_attn.tasks.base.learned import Learned
from keras_attn.tasks.base.task import Task
from keras_attn.tasks.conversation.decoding import MARKS, AnswerSearch, spoken
from keras_attn.tasks.conversation.settings import ConversationData, ConversationUse
from keras_attn.tasks.conversation.turns import checked_conversations, checked_exchanges
from keras_attn.text import BytePairTokenizer

_COLUMNS = ("BLEU", "distinct_1", "distinct_2", "commonest", "embedding_average")
_DIGITS = {"BLEU": 2, "commonest": 3}


class ConversationScores(NamedTuple):
    """How good answers are, beside answers that need no model.

    Example:

    >>> scores = {"BLEU": 1.5, "distinct_1": 0.1, "distinct_2": 0.2, "commonest": 0.25}
    >>> print(ConversationScores(8.0, {"model": scores}, "BLEU|...", ["Yes."], 4))
    4 answers, perplexity 8.00 of a token, BLEU|...
    answers              BLEU distinct_1 distinct_2  commonest
    model                1.50     0.1000     0.2000      0.250
    No embedding average: it needs a file of word vectors.
    """

    perplexity: float
    """`exp(-1/N sum log p(token))` over the N tokens of all right answers, their ends included."""
    scores: dict[str, dict[str, float]]
    """For `"model"`, `"random training answer"` and `"answer of the nearest training context"` the
    figures of `keras_attn.metrics.answer_scores`."""
    bleu_signature: str
    answers: list[str]
    """The answers of the model."""
    exchanges: int

    def __str__(self) -> str:
        columns = [name for name in _COLUMNS if name in self.scores["model"]]
        width = max(16, *(len(row) + 1 for row in self.scores))
        lines = [
            f"{self.exchanges:,} answers, perplexity {self.perplexity:.2f} of a token, "
            f"{self.bleu_signature}",
            "answers".ljust(width) + " ".join(f"{name:>10}" for name in columns),
        ]
        for row, scores in self.scores.items():
            figures = (f"{scores[name]:{10}.{_DIGITS.get(name, 4)}f}" for name in columns)
            lines.append(row.ljust(width) + " ".join(figures))
        if "embedding_average" not in columns:
            lines.append("No embedding average: it needs a file of word vectors.")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Returns the figures and the answers as JSON-safe values."""
        return self._asdict()


@dataclass(frozen=True)
class ConversationLearned(Learned):
    """What a talker learned beside its weights.

    Raises:
        TypeError: If the tokenizer is of another class.
        ValueError: If the tokenizer lacks the marks of turns.
    """

    tokenizer: BytePairTokenizer
    empty_contexts: bool = False
    """Whether the model learned answers without any turn too."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.tokenizer, BytePairTokenizer):
            raise TypeError(
                "`tokenizer` must be a BytePairTokenizer. Received: "
                f"{type(self.tokenizer).__name__}."
            )
        if not set(MARKS) <= set(self.tokenizer.special_tokens):
            raise ValueError(
                f"`tokenizer` must have the special tokens {list(MARKS)}. Received: "
                f"{list(self.tokenizer.special_tokens)}. Make one with Talker.create(exchanges)."
            )


class ConversationPredictions(Task):
    """The predictions of a talker: a base class of `Talker`."""

    Learned = ConversationLearned
    data: ConversationData
    learned: ConversationLearned

    @property
    def tokenizer(self) -> BytePairTokenizer:
        """The tokenizer."""
        return self.learned.tokenizer

    @property
    def empty_contexts(self) -> bool:
        """Whether the model learned answers without any turn too."""
        return self.learned.empty_contexts

    @property
    def _search(self) -> AnswerSearch:
        sizes = self.data.max_turns, self.data.max_context, self.data.max_answer
        make = functools.partial(AnswerSearch, self.model, self.tokenizer, *sizes)
        return self.kept(make, "search")

    def answer(
        self,
        conversations: Any,
        search: str = ConversationUse.search,
        beams: int = ConversationUse.beams,
        alpha: float = ConversationUse.alpha,
        mutual_information: float = ConversationUse.mutual_information,
        temperature: float = ConversationUse.temperature,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        repetition_penalty: float = ConversationUse.repetition_penalty,
        no_repeat_ngram_size: int = ConversationUse.no_repeat_ngram_size,
        seed: int = ConversationUse.seed,
        batch_size: int = ConversationUse.batch_size,
    ) -> Any:
        """Answers conversations.

        The last turn of a conversation is to be answered, and is not by whoever answers; the one
        before it is, and so on. Turns without a word are left out before that. Nothing is said to
        nothing: the answer is then empty.

        Args:
            conversations: A string, which is one turn; a tuple of strings, the turns so far; or a
                list of such strings and tuples.
            search: `"beam"`, or `"sample"` for answers drawn at random.
            beams: Width of the beam search; 1 is greedy search.
            alpha: Exponent of the length penalty of the beam search.
            mutual_information: Weight of `log p(answer)` without any turn, which is taken from
                `log p(answer | turns)` where the beams are ranked; see docs/conversation.md. It
                needs a model that learned with `empty_contexts`.
            temperature: Above 0; below 1 more sober, above 1 wilder.
            top_k: Number of most probable tokens that may come, or None.
            top_p: Total probability of the tokens that may come, or None.
            min_p: Smallest probability that may come, as a share of the greatest, or None.
            repetition_penalty: Above 1: tokens that were there come less often.
            no_repeat_ngram_size: Above 0: a sequence of so many tokens never comes twice.
            seed: Seed of the samples. The same seed and turns give the same answer, whatever they
                are batched with.
            batch_size: Conversations answered at a time.

        Returns:
            A string; a list of them for a list.

        Raises:
            TypeError: If a turn is not a string.
            ValueError: If a setting is out of range, or belongs to the other search; or if
                `mutual_information` is above 0, and the model learned no answers without turns.
        """
        given = {n: v for n, v in locals().items() if n not in ("self", "conversations")}
        check_count("batch_size", batch_size)
        use = ConversationUse.made(given)
        if use.mutual_information and not self.empty_contexts:
            raise ValueError(
                "`mutual_information` needs a model that learned answers without turns too. "
                f"Received: mutual_information={use.mutual_information} for a model that did not. "
                "Train it with empty_contexts=0.1 (--empty-contexts 0.1), or leave it out."
            )
        one = isinstance(conversations, str | tuple)
        turns = checked_conversations([conversations] if one else conversations)
        rows = self._search.read(turns)
        texts = self.tokenizer.decode(self._search.answers(rows, use, batch_size)) if rows else []
        most = self._search.max_turns
        found = [text if spoken(t, most) else "" for text, t in zip(texts, turns, strict=True)]
        return found[0] if one else found

    predict = answer  # as all tasks call what they are for

    def perplexity(
        self, exchanges: Iterable[Any], batch_size: int = ConversationUse.batch_size
    ) -> float:
        """Returns the perplexity of the right answers, `exp(-1/N sum log p(token))`.

        Args:
            exchanges: `Exchange`s, or tuples of turns and an answer.
            batch_size: Answers computed at a time.

        Returns:
            That of a token, over the N tokens of all answers; the end of an answer is one. Of an
            answer that is longer than `max_answer` the first `max_answer` tokens count.
        """
        examples = checked_exchanges(exchanges)
        rows = self._search.read([x.turns for x in examples])
        answers = self._search.answer_ids([x.answer for x in examples])
        found = self._search.log_probabilities(rows, answers, batch_size)
        return math.exp(-found.sum() / sum(map(len, answers)))

    def evaluate(
        self,
        exchanges: Iterable[Any],
        train: Iterable[Any] | None = None,
        vectors: str = "",
        search: str = ConversationUse.search,
        beams: int = ConversationUse.beams,
        alpha: float = ConversationUse.alpha,
        mutual_information: float = ConversationUse.mutual_information,
        temperature: float = ConversationUse.temperature,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        repetition_penalty: float = ConversationUse.repetition_penalty,
        no_repeat_ngram_size: int = ConversationUse.no_repeat_ngram_size,
        seed: int = ConversationUse.seed,
        batch_size: int = ConversationUse.batch_size,
    ) -> ConversationScores:
        """Answers the turns of exchanges, and scores the answers.

        Args:
            exchanges: `Exchange`s, or tuples of turns and an answer.
            train: Exchanges of the training, for the rows of random answers and of the answers of
                the nearest training contexts. If None, those that `exchanges` brings along; without
                any these rows are left out.
            vectors: File of word vectors; empty: there is no embedding average.
            search: As in `answer`.
            beams: As in `answer`.
            alpha: As in `answer`.
            mutual_information: As in `answer`.
            temperature: As in `answer`.
            top_k: As in `answer`.
            top_p: As in `answer`.
            min_p: As in `answer`.
            repetition_penalty: As in `answer`.
            no_repeat_ngram_size: As in `answer`.
            seed: As in `answer`; random training answers follow it too.
            batch_size: As in `answer`.

        Returns:
            `ConversationScores`. `print` shows a table.

        Raises:
            ValueError: If there are no exchanges, or no word of the answers has a vector.
        """
        own = ("self", "exchanges", "train", "vectors")
        given = {name: value for name, value in locals().items() if name not in (*own, "own")}
        train = getattr(exchanges, "train", ()) if train is None else train
        examples = checked_exchanges(exchanges)
        train = listed(train, "exchanges of turns and an answer", 2)
        learnt = checked_exchanges(train) if train else []
        rows = {"model": self.answer([x.turns for x in examples], **given)}
        most = self._search.max_turns
        if learnt:
            answers = [x.answer for x in learnt]
            rows["random training answer"] = random_answers(answers, len(examples), seed)
            asked, known = (
                [" ".join(spoken(x.turns, most)) for x in some] for some in (examples, learnt)
            )
            rows["answer of the nearest training context"] = nearest_answers(asked, known, answers)
        references = [x.answer for x in examples]
        found = None
        if vectors:
            every = [text for answers in (references, *rows.values()) for text in answers]
            words = {word for text in every for word in answer_words(text)}
            found = read_word_vectors(vectors, words)
            if not len(found):
                raise ValueError(
                    f"Expected vectors of words in the answers. Received: {vectors}, which has "
                    f"none of {len(words):,} words. Is it of another language, or in capitals?"
                )
        scored = {name: answer_scores(texts, references, found) for name, texts in rows.items()}
        return ConversationScores(
            self.perplexity(examples, batch_size),
            {name: scores for name, (scores, _) in scored.items()},
            scored["model"][1],
            rows["model"],
            len(examples),
        )

    def align(self, turns: Any, answer: str | None = None, layer: int = -1) -> Alignment:
        """Shows which tokens of the turns each token of an answer attended to.

        Args:
            turns: A string, or a tuple of strings.
            answer: The answer; the model's own, by beam search, if None.
            layer: Number of the attention to the turns (a Transformer has one in each block),
                counted from 0, or from the last one by -1, -2, ...

        Returns:
            `Alignment` of readable tokens and weights `(T, S)`, the mean over the heads; each token
            of the answer, and its end, is aligned as it is predicted.

        Raises:
            TypeError: If a turn is not a string.
            ValueError: If there is no such attention, such as in a model of a fixed context.
        """
        rows = self._search.read(checked_conversations([turns]))
        if answer is None:
            ids = self._search.answers(rows, ConversationUse(), 1)[0]
        else:
            ids = self._search.answer_ids(checked_texts([answer]))[0]
        weights = self._search.weights(rows[0], ids, layer)
        target = self.tokenizer.tokens(ids)
        end = self.tokenizer.end_id
        return Alignment(
            self.tokenizer.tokens(rows[0]),
            [END if i == end else token for i, token in zip(ids, target, strict=True)],
            weights,
        )
