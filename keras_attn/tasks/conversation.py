"""Conversation: answers the last turn of a conversation."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from keras import ops

from keras_attn.arrays import ArrayModule
from keras_attn.batches import AnswerBatches, TokenBatches
from keras_attn.explain import Alignment
from keras_attn.explain.alignment import alignment_page
from keras_attn.fields import (
    MARKS,
    ODD_TEXTS,
    GeneratedText,
    Signature,
    TurnRows,
    checked_texts,
    spoken,
    with_marks,
)
from keras_attn.fields.turns import checked_conversations
from keras_attn.generation import Ending, Generation, prompt_seeds, sample
from keras_attn.generation.numbers import is_tensor, of_rows, sampling_inputs
from keras_attn.generation.ranking import Ranking
from keras_attn.generation.sampling import SAMPLING
from keras_attn.hints import Tensor
from keras_attn.inputs import listed
from keras_attn.interop import read_word_vectors
from keras_attn.layers import attention_maps
from keras_attn.metrics.conversation import (
    ConversationScores,
    answer_words,
    nearest_answers,
    random_answers,
    score_conversation,
)
from keras_attn.models import (
    CONVERSATION_MODELS,
    language_decoder,
    target_log_probabilities,
    target_log_probability,
)
from keras_attn.records import (
    Dialogues,
    Exchange,
    exchanges,
    read_dialogues,
    split_dialogues,
    without,
)
from keras_attn.records.dialogues import TestExchanges, checked_exchanges
from keras_attn.records.reading import Location
from keras_attn.settings import Settings, setting, with_defaults
from keras_attn.tasks.base.backbones import SavedStart
from keras_attn.tasks.base.learned import Learned
from keras_attn.tasks.base.served_numbers import SAMPLED, own_numbers
from keras_attn.tasks.base.steps import Note, step, values_for
from keras_attn.tasks.base.task import Examples
from keras_attn.tasks.families import training_settings
from keras_attn.tasks.families.data_settings import (
    READ,
    BadLines,
    FileFormat,
    HeldOut,
    HeldOutShares,
    Pieces,
    TrainingFile,
)
from keras_attn.tasks.families.sequence_to_sequence import (
    Prompt,
    SequenceToSequence,
    Source,
    results,
)
from keras_attn.tasks.families.use_settings import Beams, SamplingUse, refuse_given
from keras_attn.text.readable import readable_tokens
from keras_attn.text.registry import PIECES, PieceTokenizer, vocabulary_digest
from keras_attn.training import MaskedCrossEntropy, num_data_shards

FORMATS = ("auto", "json_lines", "dailydialog", "chitchat")
OF_SEARCH = {
    "beam": (
        "beams",
        "alpha",
        "length_penalty_kind",
        "early_stopping",
        "renormalize",
        "mutual_information",
    ),
    "sample": (*(name for name in SAMPLING if name != "no_repeat_ngram_size"), "seed"),
}
"""Settings that belong to one search."""


@dataclass(frozen=True)
@with_defaults(
    help={
        "train": "file of dialogues to learn from; evaluate takes its held-out part, or --data, "
        "and draws the baselines from the rest",
        "split_seed": "seed of these splits",
        "on_error": "what to do with a bad dialogue",
    },
    words={"examples": "dialogues"},
    steps=dict.fromkeys(("train", "split_seed"), READ),
    choices={"format": FORMATS},
)
class ConversationData(
    SavedStart, Pieces, FileFormat, BadLines, HeldOutShares, HeldOut, TrainingFile
):
    """Settings of the dialogues, their split, and the context that is read."""

    max_characters: int = setting(
        10_000, "largest number of characters of a turn; dialogues with a longer one are bad",
        at_least=1, steps=READ,
    )  # fmt: skip
    speaker: str = setting(
        "", "speaker whose turns are the answers; all speakers if empty", steps=READ
    )
    max_turns: int = setting(
        4, "largest number of turns before an answer that are read", at_least=1
    )
    max_context: int = setting(
        128, "largest number of tokens of the turns that are read, with their marks; older "
            "tokens are cut off",
        at_least=2,
    )  # fmt: skip
    max_answer: int = setting(
        48, "largest number of tokens of an answer, with its end; longer answers are not "
            "learned",
        at_least=2,
    )  # fmt: skip
    vocabulary_size: int = setting(
        8000, "largest number of tokens; with 261 byte pairs each byte is a token", at_least=261
    )
    split_digits: bool = setting(
        True, "make each digit a separate token, so that new numbers can be repeated"
    )


@dataclass(frozen=True)
@with_defaults(
    label_smoothing=0.0,
    words={
        "tokens": "tokens of a batch, with padding; of an encoder-decoder on its longer side",
    },
)
class ConversationTraining(training_settings.TokenBatches):
    """Settings for training a conversation model."""

    empty_contexts: float = setting(
        0.0, "share of the answers that is also learned without any turn, for "
            "--mutual-information", at_least=0, below=1,
    )  # fmt: skip


@dataclass(frozen=True)
@with_defaults(
    help={
        "seed": "sample: seed; the same seed and turns give the same answer",
        "no_repeat_ngram_size": "length of a sequence of tokens that never comes twice in the "
        "turns and the answer, or (encoder-decoders) in the answer; 0 allows all",
    },
    words={"rows": "conversations", "beam": "beam: ", "sample": "sample: "},
)
class ConversationUse(SamplingUse, Beams):
    """Settings of the search for answers."""

    search: str = setting(
        "beam", "look for the most probable answer, or draw one at random",
        choices=("beam", "sample"),
    )  # fmt: skip
    mutual_information: float = setting(
        0.0, "beam: weight of the probability of an answer without its turns, which is "
            "subtracted from its probability with them, so that answers that fit any turn "
            "are less frequent; for models trained with --empty-contexts", at_least=0,
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        other = "sample" if self.search == "beam" else "beam"
        refuse_given(self, OF_SEARCH[other], f"search={other!r}", f"search={self.search!r}")
        if self.mutual_information and self.beams == 1:
            raise ValueError(
                "`mutual_information` requires several beams, because it chooses among their "
                f"answers. Received: mutual_information={self.mutual_information} with "
                "beams=1."
            )


@dataclass(frozen=True)
class ConversationTest(Settings):
    """Settings for evaluating a conversation model."""

    data: str = setting(
        "", "file of dialogues, instead of the held-out part of --train", path="examples"
    )
    limit: int | None = setting(
        None, "number of answers to score, drawn with --split-seed; all if none", kind=int,
        at_least=1,
    )  # fmt: skip
    vectors: str = setting(
        "", "file of word vectors for the embedding average: GloVe, word2vec or NumPy; without it "
        "that score is left out", path="file",
    )  # fmt: skip


@dataclass(frozen=True)
class ConversationLearned(Learned):
    """Learned values of a conversation model: its tokenizer, and `empty_contexts`.

    Raises:
        TypeError: If the class of the tokenizer is not supported.
        ValueError: If the tokenizer lacks the marks of turns.
    """

    tokenizers: ClassVar = tuple(PIECES.values())
    tokenizer: PieceTokenizer
    empty_contexts: bool = False
    """Whether the model also learned answers without any preceding turn."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not set(MARKS) <= set(self.tokenizer.special_tokens):
            raise ValueError(
                f"`tokenizer` must have the special tokens {list(MARKS)}. Received: "
                f"{list(self.tokenizer.special_tokens)}. Create a tokenizer with "
                "Talker.create(exchanges)."
            )


class Talker(SequenceToSequence):
    """A model that answers the last turn of a conversation (Vinyals and Le, 2015).

    `.model` is the plain Keras model, and `.dataset(exchanges)` returns the data for its `fit`. An
    encoder-decoder reads the turns with its encoder; a GPT reads turns and answer as one row.
    The loss counts only the answers. The examples of `fit` are exchanges: the turns before an
    answer, and the answer. `keras_attn.records.exchanges` extracts exchanges from dialogues.

    References:
        - [Vinyals and Le, 2015](https://arxiv.org/abs/1506.05869): a neural conversational model.

    Args:
        tokenizer: A `BytePairTokenizer` or a `SentencePieceTokenizer` with the special tokens
            `<other>` and `<self>`, such as `create` makes.
        empty_contexts: Whether the model also learned answers without any preceding turn, which
            `mutual_information` requires. `fit` with `empty_contexts` sets it to True.
        model: Settings of the model: an instance of one of `CONVERSATION_MODELS`, a dict of some
            settings, such as `{"model": "gpt", "dim": 128}`, or None for a Transformer.
        data: Settings of the data: a `ConversationData`, or a dict of some of its settings, such as
            `max_turns`, `max_context` and `max_answer`.
        dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.

    Raises:
        TypeError: If the class of the tokenizer is not supported, or a setting of the data is
            unknown.
        ValueError: If a setting of the model is unknown, a setting is out of range, or the
            tokenizer lacks `<other>` or `<self>`.

    Example:

    >>> talks = [("Who are you?", "We are we."), (("Hi.", "Hello!", "Who are they?"), "They?")]
    >>> sizes = {"model": "gpt", "dim": 8, "num_layers": 1, "num_heads": 2}
    >>> data = {"vocabulary_size": 265, "max_answer": 12}
    >>> talker = Talker.create(talks, data=data, model=sizes)
    >>> run = talker.fit(talks, epochs=1, verbose=0)
    >>> isinstance(talker.answer(("Hello.", "Hi!", "Who are you?"), beams=1), str)
    True
    """

    name = "conversation"
    about = "Answer the turns of a conversation: a model trained on your dialogues."
    kinds = CONVERSATION_MODELS
    Data = ConversationData
    Training = ConversationTraining
    Use = ConversationUse
    Learned = ConversationLearned
    Test = ConversationTest
    examples_are = "answers"
    continues = True
    inputs_are = "a string, a tuple of strings, or a list of these"
    selects = ("perplexity", "min")
    main_layer = "decoder"
    reads = "turns"
    input_columns: ClassVar = {"turns": "turns"}
    predicts: ClassVar = {"answer": str}
    steps = ("fit", "evaluate", "predict", "explain", "quantize", "export")
    page: Any = staticmethod(alignment_page)

    @property
    def tokenizer(self) -> PieceTokenizer:
        """The tokenizer that converts texts to ids."""
        return self.learned.tokenizer

    @property
    def empty_contexts(self) -> bool:
        """Whether the model also learned answers without any preceding turn."""
        return self.learned.empty_contexts

    @property
    def target_tokenizer(self) -> PieceTokenizer:
        """The tokenizer of answers, which is also the tokenizer of turns."""
        return self.tokenizer

    @property
    def field(self) -> TurnRows:
        """The field that converts turns to rows of ids."""
        graph = functools.cache(self.tokenizer.to_graph)
        return TurnRows(self.tokenizer, self.data.max_turns, self.data.max_context, graph)

    @property
    def encodes(self) -> bool:
        """Whether the model encodes the turns with an encoder; otherwise, turns and answer form one
        row."""
        return isinstance(self.model.input, dict) and self.source in self.model.input

    def model_sizes(self) -> dict[str, Any]:
        """Returns a dict of `vocabulary_size` and `source_vocabulary_size`, the size of the
        tokenizer's vocabulary; `target_vocabulary_size`, which is None; and `sequence_length`, the
        maximum number of tokens of the turns and the answer together."""
        size = self.tokenizer.vocabulary_size
        return {
            "vocabulary_size": size,
            "source_vocabulary_size": size,
            "target_vocabulary_size": None,
            "sequence_length": self.data.max_context + self.data.max_answer,
        }

    def facts(self) -> list[str]:
        """Returns texts for the `repr`: the architecture, the vocabulary size, and the maximum
        number of turns."""
        return [
            self.kinds.name_of(self.config),
            f"{self.tokenizer.vocabulary_size:,} tokens",
            f"{self.data.max_turns} turns",
        ]

    # Data and training

    @classmethod
    def read_file(cls, path: Location, data: ConversationData) -> list[Exchange]:
        """Reads dialogues, and returns an `Exchange` for each answer.

        Args:
            path: The file of dialogues, or a table in memory as `keras_attn.records.Rows`.
            data: Settings of class `Data`. Only answers of `speaker` are returned, if it is not
                empty, each with at most `max_turns` turns before it.

        Returns:
            A list of `keras_attn.records.Exchange`s, each with the turns before an answer, and the
            answer.

        Raises:
            FileNotFoundError: If the file does not exist.
            ValueError: If no turn of the speaker answers another turn, or a dialogue is bad and
                `data.on_error` is `"error"`.
        """
        return exchanges(_read(path, data), data.speaker, data.max_turns)

    @classmethod
    def read(cls, data: ConversationData) -> Examples:
        """Reads dialogues: JSON lines, Parquet, DailyDialog's texts, or chitchat-dataset's JSON.

        Whole dialogues are held out for the test, and for development: the perplexity of their
        answers determines the best weights. Dialogues with equal words stay together.
        """
        read = _read(data.train, data)
        train, dev, test = _split(read, data)
        notes = [read.summary(), f"{len(test):,} dialogues left for the test"]
        if data.dev:
            chosen = _read(data.dev, data)
            dev, whole = list(chosen), len(train)
            train = without(train, chosen)
            notes += [chosen.summary(), f"{whole - len(train):,} of its dialogues not learnt"]
        learnt = exchanges(train, data.speaker, data.max_turns)
        _check_held_out(dev, data, "to choose the best weights", "--dev-share")
        chosen_by = exchanges(dev, data.speaker, data.max_turns) if dev else None
        return Examples(learnt, chosen_by, "\n".join(notes))

    def read_test(self, test: ConversationTest, data: ConversationData) -> TestExchanges:
        """Reads the test dialogues, and the training dialogues for the baselines.

        Args:
            test: Settings of class `Test`; without a file, the test dialogues are the part of the
                training file that `fit` held out.
            data: Settings of class `Data`.

        Returns:
            A list of the exchanges of the test dialogues (`test.limit` random ones if there are
            more), whose `train` has the exchanges of the training dialogues.
        """
        read = _read(data.train, data)
        train, _, held_out = _split(read, data)
        where = read.summary()
        if test.data:
            held_out = _read(test.data, data)
            where = held_out.summary()
            known = len(held_out) - len(without(held_out, train))
            if known:
                where += f" {known:,} of them are among those to learn from."
        most = self.data.max_turns
        if not test.data:
            _check_held_out(held_out, data, "for the test", "--test-share")
        measured = exchanges(held_out, data.speaker, most)
        if test.limit and test.limit < len(measured):
            where += f" {test.limit:,} of {len(measured):,} answers drawn."
            rng = np.random.default_rng(data.split_seed)
            drawn = rng.choice(len(measured), test.limit, replace=False)
            measured = [measured[i] for i in sorted(drawn)]
        return TestExchanges(measured, exchanges(train, data.speaker, most), where)

    @classmethod
    def learn(cls, examples: Sequence[Any], data: ConversationData) -> ConversationLearned:
        """Trains a tokenizer on turns and answers, adds the marks of turns to it, and returns it as
        `ConversationLearned`."""
        turns = (text for x in checked_exchanges(examples) for text in (*x.turns, x.answer))
        texts = list(dict.fromkeys(turns))
        if data.split_digits:  # no token with a digit is learnt
            without = [re.sub(r"\d", " ", text) for text in texts]
            texts = without if any(map(str.strip, without)) else ["?"]
        size, kind = data.vocabulary_size - len(MARKS), PIECES[data.tokenizer]
        tokenizer = kind.train(filter(str.strip, texts), size, allow_fewer=True)
        return ConversationLearned(with_marks(tokenizer))

    def dataset(
        self, examples: Sequence[Any], empty_contexts: float = 0.0, **settings: Any
    ) -> TokenBatches | AnswerBatches:
        """Creates batches of exchanges for `model.fit`.

        Args:
            examples: `Exchange`s, or tuples of turns and an answer. Empty answers, and answers of
                more than `max_answer` tokens including the end token, are left out and counted in
                `dropped` of the batches.
            empty_contexts: Fraction of the answers that are repeated without any preceding turn. If
                at least one answer is repeated, `empty_contexts` of this object becomes True.
            **settings: Settings of `TokenBatches` or `AnswerBatches`: `tokens_per_batch`, `seed`,
                ...

        Returns:
            `TokenBatches` for an encoder-decoder, `AnswerBatches` for a decoder.

        Raises:
            ValueError: If no exchange is left.
        """
        given = checked_exchanges(examples)
        answers = self.tokenizer.encode([x.answer for x in given])
        kept = [i for i, ids in enumerate(answers) if 0 < len(ids) < self.data.max_answer]
        if not kept:
            raise ValueError(
                f"Expected answers of 1 to {self.data.max_answer - 1} tokens. Received: none "
                f"among {len(given):,}. Raise `max_answer`."
            )
        field = self.field
        rows = field.encode([given[i].turns for i in kept])["source_ids"]
        answers = [answers[i] for i in kept]
        drawn = np.random.default_rng(settings.get("seed", 0)).permutation(len(kept))
        for i in drawn[: round(empty_contexts * len(kept))]:
            rows.append([field.self_id])
            answers.append(answers[i])
            self.relearn(empty_contexts=True)
        settings = {"rows_multiple_of": num_data_shards(), **settings}
        pad, end = self.tokenizer.pad_id, self.tokenizer.end_id
        batches: TokenBatches | AnswerBatches
        if self.encodes:
            start = self.tokenizer.start_id
            batches = TokenBatches(
                rows, answers, pad_id=pad, end_id=end, start_id=start, **settings
            )
        else:
            most = self.data.max_context + self.data.max_answer
            batches = AnswerBatches(
                rows, answers, pad_id=pad, end_id=end, max_length=most, **settings
            )
        batches._dropped = len(given) - len(kept)
        return batches

    def batches(
        self, examples: Sequence[Any], training: ConversationTraining, shuffle: bool = True
    ) -> TokenBatches | AnswerBatches:
        """Creates the batches of a training run with `dataset`."""
        return self.dataset(
            examples,
            training.empty_contexts if shuffle else 0.0,
            tokens_per_batch=training.tokens_per_batch,
            seed=training.seed,
            shuffle=shuffle,
        )

    def objective(self, training: ConversationTraining) -> dict[str, Any]:
        """Returns a dict with the `loss`: the cross-entropy of answers, with label smoothing."""
        return {"loss": MaskedCrossEntropy(training.label_smoothing)}

    def score(self, examples: Sequence[Any]) -> dict[str, float]:
        """Returns a dict of the `perplexity` of the answers of exchanges."""
        return {"perplexity": self.perplexity(examples)}

    def describe(self, batches: TokenBatches | AnswerBatches) -> list[str]:
        """Returns lines for the log about the model, the batches and exchanges left out."""
        lines = super().describe(batches)
        if batches.dropped:
            most = self.data.max_answer
            lines.append(f"{batches.dropped:,} answers are empty or longer than {most} tokens.")
        return lines

    def digest(self, examples: Sequence[Any], dev: Sequence[Any]) -> str:
        """Returns a digest of the exchanges of a run."""
        return super().digest(checked_exchanges(examples), checked_exchanges(dev) if dev else ())

    # The search

    def longest(self, length: Any) -> int:
        """Returns `max_answer`, the maximum number of tokens of an answer to any turns."""
        return self.data.max_answer

    @property
    def suppressed_ids(self) -> tuple[int, ...]:
        """Ids that are never generated: padding, the start token, and the marks of turns."""
        marks = (self.tokenizer.vocabulary.index(mark) for mark in MARKS)
        return (*super().suppressed_ids, *marks)

    def prompt(self, sources: Tensor) -> Prompt:
        """Returns the beginning of a search for B rows of turns.

        Args:
            sources: Ids of the turns, `(B, S)`.

        Returns:
            A tuple of the decoder; the first ids and their mask; and the encoded turns and their
            mask. With an encoder-decoder, the first ids `(B, 1)` are start tokens without a mask. A
            decoder-only model reads `sources` and their mask `(B, S)` first, and the encoded turns
            and their mask are None.
        """
        if self.encodes:
            return super().prompt(sources)
        decoder = self.kept(lambda: language_decoder(self.model), "decoder")
        return decoder, sources, ops.not_equal(sources, self.tokenizer.pad_id), None, None

    def run(
        self, xp: ArrayModule, tensors: Mapping[str, Any], use: ConversationUse
    ) -> dict[str, Tensor]:
        """Finds or samples an answer to each row of ids; see `SequenceToSequence.run`.

        With `mutual_information`, the beams are reranked by the following score of an answer T to
        the turns S:

            (log p(T | S) - mutual_information log p(T)) / length_penalty(|T|, alpha, kind)

        where |T| is the number of tokens of T, kind is `length_penalty_kind`, and p(T) is the
        probability of T that the same model computes without any turn (Li et al., 2016).

        Args:
            xp: The array module, `keras.ops`.
            tensors: A dict of the ids of the turns, `source_ids (B, S)`, and further tensors; see
                `SequenceToSequence.search`. For sampling, it may also have the settings of sampling
                and `seed`, which override the settings in `use`.
            use: Settings of class `Use`.

        Returns:
            A dict of one answer of at most L tokens for each of the B rows: `tokens (B, 1, L)`,
            `best (B, L)`, and `lengths`, `scores` and `truncated` `(B, 1)`.
        """
        ids, most = tensors[self.source], self.data.max_answer
        tensors = {**tensors, "max_length": most}
        prompt = self.prompt(ids)
        if use.search == "sample":
            numbers = (*SAMPLING, "largest_top_k")
            given = {name: tensors[name] for name in numbers if name in tensors}
            seeds = prompt_seeds(ids, tensors.get("seed", use.seed))
            rules = {**self.rules(tensors, use, most), **use.sampling(), **given}
            drawn = sample(*prompt, max_length=most, seed=seeds, **rules)
            return results(Generation(*(ops.expand_dims(values, 1) for values in drawn)))
        weight = tensors.get("mutual_information", use.mutual_information)
        ranks = is_tensor(weight) or weight
        found = self.search(prompt, tensors, use, use.beams if ranks else 1)
        if ranks:
            tokens = ops.reshape(found.tokens, (-1, most))
            nothing = tokens[:, :1] * 0 + self.field.self_id
            prior = ops.reshape(self.log_probability(nothing, tokens), (-1, use.beams))
            prior = of_rows("mutual_information", weight) * prior
            mask = self.rules(tensors, use, most)["beginning_mask"]
            begun = 0 if mask is None else ops.sum(ops.cast(mask, "int32"), axis=1, keepdims=True)
            alpha = tensors.get("alpha", use.alpha)
            ranking = Ranking.of(alpha, use.length_penalty_kind, begun)
            scores = found.scores - prior / ranking.penalty(found.lengths)
            best = ops.expand_dims(ops.cast(ops.argmax(scores, axis=1), "int32"), 1)
            tokens = ops.take_along_axis(found.tokens, ops.expand_dims(best, 2), axis=1)
            others = (ops.take_along_axis(values, best, axis=1) for values in found[1:])
            found = Generation(tokens, *others)
        return results(found)

    def parted(self, use: ConversationUse) -> tuple[Settings, dict[str, Any], dict[str, Any]]:
        """Splits settings for a compiled search.

        Args:
            use: Settings of class `Use`.

        Returns:
            The settings that are constants of the compiled function; a dict of the numbers that are
            its inputs, which are settings of the beam search or of sampling, depending on
            `use.search`; and a dict of further constants for `tensors` of `run`.
        """
        if use.search == "beam":
            plain = dataclasses.replace(use, mutual_information=0.0)
            kind, numbers, fixed = super().parted(plain)
            if use.mutual_information:
                numbers["mutual_information"] = use.mutual_information
            return kind, numbers, fixed
        default = {name: getattr(ConversationUse, name) for name in OF_SEARCH["sample"]}
        kind, numbers, _ = super().parted(dataclasses.replace(use, **default))
        drawn, fixed = sampling_inputs(use.sampling())
        del numbers["alpha"]
        return kind, {"seed": use.seed, **numbers, **drawn}, fixed

    def log_probability(self, ids: Tensor, answers: Tensor) -> Tensor:
        """Returns `log p(answer | turns)` for each of B conversations, float32 `(B,)`.

        Args:
            ids: Padded ids of the turns, int32 `(B, S)`.
            answers: Padded ids of the answers with their end token, int32 `(B, T)`.
        """
        most = self.data.max_context + self.data.max_answer
        return target_log_probability(self.model, ids, answers, self.tokenizer.start_id, most)

    def log_probabilities(
        self,
        sources: Sequence[Any],
        targets: Sequence[Sequence[int]],
        batch_size: int,
        given: int | None = None,
    ) -> np.ndarray:
        """Returns the log-probability of each answer, float64 `(N,)`.

        Args:
            sources: A list of the ids of the turns before each of N answers.
            targets: A list of the ids of each answer, including the end token.
            batch_size: Number of answers that are computed at once.
            given: Id of a token that does not count where it is the first token of an answer.

        Raises:
            ValueError: If the model is a decoder, and an answer exceeds `max_answer` tokens.
        """
        longest, most = max(map(len, targets), default=0), self.data.max_answer
        if not self.encodes and longest > most:
            raise ValueError(
                f"Expected answers of at most {most} tokens with the end (`max_answer`). Received: "
                f"{longest} tokens."
            )
        return super().log_probabilities(sources, targets, batch_size, given)

    def token_log_probabilities(self, sources: Tensor, targets: Tensor) -> Tensor:
        """Returns the log-probability of each token of B answers, float32 `(B, T)`.

        Args:
            sources: Padded ids of the turns, int32 `(B, S)`.
            targets: Padded ids of the answers with their end token, int32 `(B, T)`.
        """
        most = self.data.max_context + self.data.max_answer
        start = self.tokenizer.start_id
        return target_log_probabilities(self.model, sources, targets, start, most)

    def source_maps(self, source: Source, target: Sequence[int]) -> list[np.ndarray]:
        """Returns the attention weights of an answer of T tokens to turns of S tokens.

        Args:
            source: The ids of the turns, `(S,)`.
            target: The ids of the answer, including the end token.

        Returns:
            A list with an array for each layer: `(1, T, S)`, or `(1, N, T, S)` with N heads. For a
            model without attention, the list is empty.
        """
        if self.encodes:
            return super().source_maps(source, target)
        S, T = len(source), len(target)
        maps = attention_maps(self.model, np.array([[*source, *target[:-1]]], "int32"))
        return [x[..., S - 1 : S - 1 + T, :S] for x in maps.select(role="self")]

    # Predictions

    @staticmethod
    def is_one(conversations: Any) -> bool:
        """Returns whether the argument is a single conversation: a turn, or a tuple of turns."""
        return isinstance(conversations, str | tuple)

    def results(self, conversations: Sequence[Any], use: ConversationUse) -> list[str]:
        """Answers the last turn of conversations.

        The last turn is by the other speaker, the turn before it by the model, and so on,
        alternately. Empty turns are removed first. If no turn is left, the answer is `""`.

        Args:
            conversations: Strings (single turns) and tuples of strings (the turns so far).
            use: Settings of class `Use`.

        Returns:
            A list with an answer for each conversation.

        Raises:
            TypeError: If a turn is not a string, or a setting is unknown.
            ValueError: If a setting is out of range or belongs to the other kind of search, or if
                `mutual_information` is above 0 and the model did not learn answers without turns.
        """
        return [answer for answer, _ in self.answers(conversations, use)]

    def answers(self, turns: Sequence[Any], use: ConversationUse) -> list[tuple[str, Ending]]:
        """Answers like `results`; each answer has an `Ending`, whose number has the end token."""
        signature = self.signatures(self.checked_use(use))["serving_default"]
        rows = signature.field.encode(turns)
        found = self.computed(rows, use)
        texts = signature.outputs["answer"].decode({**rows, **found})
        ends = zip(found["lengths"], found["truncated"], strict=True)
        endings = [Ending(int(length[0]), bool(truncated[0])) for length, truncated in ends]
        return [*zip(texts, endings, strict=True)]

    def answer(self, conversations: Any, **settings: Any) -> Any:
        """Answers the last turn of conversations, like `predict`.

        Args:
            conversations: A string (a single turn), a tuple of strings (the turns so far), or a
                list of strings and tuples.
            **settings: Settings of `predict`: `search`, `beams`, `alpha`, `mutual_information`,
                `temperature`, `seed`, ...

        Returns:
            A string, or a list of strings for a list.

        Raises:
            TypeError: If a turn is not a string, or a setting is unknown.
            ValueError: If a setting is refused as in `predict`.
        """
        return self.predict(conversations, **settings)

    def used(self, given: Mapping[str, Any]) -> ConversationUse:
        """Returns the settings of a call, of class `Use`: values in `given` override `own_use`.

        If the call uses beam search, settings in `own_use` that only apply to sampling are ignored,
        and vice versa.

        Args:
            given: Values of some settings, keyed by name.
        """
        search = {"search": ConversationUse.search, **self.own_use, **given}["search"]
        others = OF_SEARCH["sample" if search == "beam" else "beam"]
        own = {name: value for name, value in self.own_use.items() if name not in others}
        return self.Use.made({**own, **given})

    def checked_use(self, use: ConversationUse) -> ConversationUse:
        """Returns the settings of predictions or of an export unchanged; raises a ValueError if
        `mutual_information` is above 0 and the model did not learn answers without turns."""
        if use.mutual_information and not self.empty_contexts:
            raise ValueError(
                "`mutual_information` requires a model that also learned answers without "
                f"turns. Received: mutual_information={use.mutual_information} for a model "
                "that did not learn them. Train it with empty_contexts=0.1 (--empty-contexts "
                "0.1), or leave it out."
            )
        return use

    def align(self, turns: Any, answer: str | None = None, layer: int = -1) -> Alignment:
        """Returns the attention weights of each token of an answer to the tokens of the turns.

        Args:
            turns: A single turn, or a tuple of turns.
            answer: The answer, of which at most `max_answer` tokens are used; if None, the model
                generates it by beam search with the settings in `own_use`.
            layer: Index of the attention to the turns (a Transformer has one in each block),
                counted from 0; negative indices count from the end.

        Returns:
            An `Alignment` of readable tokens with weights `(T, S)`, the mean over the heads, for T
            tokens of the answer and S tokens of the turns. Each token of the answer, including its
            end token if it has one, is aligned at the step that predicts it.

        Raises:
            TypeError: If a turn is not a string.
            ValueError: If the model has no attention to the turns with the index `layer`, for
                example because it has a fixed context.
        """
        use = self.used({"search": "beam"})
        return self._align(turns, answer, layer, self.checked_use(use) if answer is None else use)

    def _align(self, turns: Any, answer: str | None, layer: int, use: ConversationUse) -> Alignment:
        rows = self.field.encode([turns])
        (source,) = rows["source_ids"]
        if answer is None:
            ids = self.computed(rows, use)["tokens"][0][0].tolist()
        else:
            ids = self.answer_ids(checked_texts([answer]))[0]
        weights = self.source_weights(source, ids, layer)
        tokens = readable_tokens(self.tokenizer, ids)
        return Alignment(self.tokenizer.tokens(source), tokens, weights)

    def explained(self, conversations: Sequence[Any], use: ConversationUse) -> list[Alignment]:
        """Answers conversations as `predict` does, and returns the attention weights of each answer
        to the turns.

        Args:
            conversations: A string (a single turn), a tuple of strings (the turns so far), or a
                list of strings and tuples.
            use: Settings of class `Use`.

        Returns:
            An `Alignment` for one conversation, or a list of `Alignment`s for a list, as returned
            by `align`. `page` creates an HTML page from a list of `Alignment`s.

        Raises:
            TypeError: If a turn is not a string, or a setting is unknown.
            ValueError: If all turns of a conversation are blank, there is no attention to the
                turns, or a setting is refused as in `predict`.
        """
        uses = self.of_each(self.checked_use(use), len(conversations))
        found = []
        for i, turns in enumerate(checked_conversations(conversations)):
            last = spoken(turns, 1)
            if not last:
                raise ValueError(
                    "Expected conversations with a turn that is not blank. Received: "
                    f"{turns!r} at position {i}. Leave it out."
                )
            alignment = self._align(turns, None, -1, uses[i])
            found.append(dataclasses.replace(alignment, title=last[0]))
        return found

    @staticmethod
    def readable(result: str) -> str:
        """Returns an answer on one line, as the command writes it."""
        return " ".join(result.split())

    # Measuring

    def answer_ids(self, answers: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each answer, followed by the end token and cut to the first
        `max_answer` ids."""
        ids = self.tokenizer.encode(answers, add_end=True)
        return [row[: self.data.max_answer] for row in ids]

    def perplexity(
        self, exchanges: Iterable[Any], batch_size: int = ConversationUse.batch_size
    ) -> float:
        """Computes the perplexity of the answers of exchanges, `exp(-1/N sum log p(token))`.

        Args:
            exchanges: `Exchange`s, or tuples of turns and an answer.
            batch_size: Number of answers that are computed at once.

        Returns:
            The perplexity per token, over the N tokens of all answers, including end tokens. If an
            answer is longer than `max_answer`, its first `max_answer` tokens count.

        Raises:
            ValueError: If there are no exchanges, or an exchange has the wrong form.
        """
        examples = checked_exchanges(exchanges)
        rows = self.field.encode([x.turns for x in examples])["source_ids"]
        answers = self.answer_ids([x.answer for x in examples])
        found = self.log_probabilities(rows, answers, batch_size)
        return math.exp(-found.sum() / sum(map(len, answers)))

    @classmethod
    def checked(cls, exchanges: Iterable[Any]) -> TestExchanges:
        """Checks exchanges, and returns them as a list with `train`, the training exchanges of the
        argument, if it has any."""
        train = getattr(exchanges, "train", ())
        return TestExchanges(checked_exchanges(exchanges), train, "")

    def inputs_of(self, exchanges: TestExchanges) -> list[tuple[str, ...]]:
        """Returns the turns before each answer, as tuples."""
        return [x.turns for x in exchanges]

    def measured(
        self, exchanges: TestExchanges, use: ConversationUse
    ) -> tuple[list[str], ConversationUse]:
        """Returns a tuple of the answers, a list of strings with an answer to the turns of each
        exchange, and the settings `use`."""
        return super().measured(exchanges, use), use

    def report(
        self,
        exchanges: TestExchanges,
        results: tuple[list[str], ConversationUse],
        *,
        train: Iterable[Any] | None = None,
        vectors: str,
    ) -> ConversationScores:
        """Generates an answer to the turns of each exchange, and scores these answers.

        Args:
            exchanges: `Exchange`s, or tuples of turns and an answer.
            results: The result of `measured`: the answers, and settings of class `Use`.
            train: Training exchanges, for the baselines of random answers and of the answers of the
                nearest training contexts. If None, the training exchanges included in `exchanges`
                are used; without any, the baselines are left out. `seed` selects random answers.
            vectors: File of word vectors; if empty, the embedding average is left out.

        Returns:
            `ConversationScores`: the perplexity of the right answers, and the BLEU, diversity and
            other scores of the answers of the model and of the baselines.

        Raises:
            FileNotFoundError: If the file of word vectors does not exist.
            ImportError: If `sacrebleu` is not installed, or if there are training exchanges and
                scikit-learn is not installed.
            TypeError: If a setting is unknown.
            ValueError: If there are no exchanges, an exchange has the wrong form, a setting is out
                of range, or no word of the answers has a vector.
        """
        answers, use = results
        train = listed(
            exchanges.train if train is None else train, "exchanges of turns and an answer", 2
        )
        rows = {"model": answers}
        if train:
            learned, most = checked_exchanges(train), self.data.max_turns
            known = [x.answer for x in learned]
            rows["random training answer"] = random_answers(known, len(exchanges), use.seed)
            asked, contexts = (
                [" ".join(spoken(x.turns, most)) for x in side] for side in (exchanges, learned)
            )
            nearest = nearest_answers(asked, contexts, known)
            rows["answer of the nearest training context"] = nearest
        references = [x.answer for x in exchanges]
        given = None
        if vectors:
            words = {
                word
                for text in (*references, *itertools.chain(*rows.values()))
                for word in answer_words(text)
            }
            given = read_word_vectors(vectors, words)
            if not len(given):
                raise ValueError(
                    "Expected a file with vectors for words of the answers. Received: "
                    f"{vectors}, which has none of their {len(words):,} words. Check that the "
                    "file has the right language and case."
                )
        perplexity = self.perplexity(exchanges, use.batch_size)
        return score_conversation(rows, references, perplexity, given)

    # Files and export

    backbone: ClassVar = {
        "source_embedding": ("embedding",),
        "embedding": (),
        "positions": (),
        "encoder": (),
        "decoder": (),
    }

    def vocabularies(self) -> dict[str, str]:
        """Returns a dict with the digest of the vocabulary. Its key is the name of the embedding
        layer: `"source_embedding"` if the model has an encoder, otherwise `"embedding"`."""
        name = "source_embedding" if self.encodes else "embedding"
        return {name: vocabulary_digest(self.tokenizer)}

    def signatures(self, use: ConversationUse) -> dict[str, Signature]:
        """Returns the inputs and outputs of the SavedModel, keyed by signature.

        The input of `serving_default` is `turns: string (B, T)`, the turns of each of B
        conversations (at most T), the oldest first, padded with `""` on either side. Its output is
        `answer: string (B,)`, as in `predict` with the settings of the export. The signature
        `with_settings` also has the settings of `served_numbers` as inputs, each `(B,)`.
        """
        field = self.field
        answer = GeneratedText(self.tokenizer, "best", some="some", graph=field.graph)
        return {"serving_default": Signature(("turns",), field, {"answer": answer})}

    def export_examples(self) -> dict[str, Any]:
        """Returns a dict of the input `turns`: ordinary and unusual conversations of three turns
        each for checking an export."""
        marks = "<self> </s> <end> <other> hi"
        shifted = [ODD_TEXTS[i:] + ODD_TEXTS[:i] for i in range(3)]
        rows = [*zip(*shifted, strict=True), ("", marks, ""), ("", "", ""), ("", "", "x" * 700)]
        return {"turns": [list(row) for row in rows]}

    def served_numbers(self, use: ConversationUse) -> dict[str, tuple[Any, Any]]:
        """Returns a dict from each setting that is an input of the signature `with_settings` to its
        value in `use` and another value for checking an export.

        For a beam search, the settings are `alpha` and, if it is above 0, `mutual_information`. For
        sampling, they are `temperature`, `top_k` (0 keeps all), `top_p`, `min_p`,
        `repetition_penalty` and `seed`.
        """
        if use.search == "sample":
            return own_numbers(use, {**SAMPLED, "seed": 7})
        weight = use.mutual_information
        numbers = super().served_numbers(use)
        return {**numbers, "mutual_information": (weight, weight / 2)} if weight else numbers

    # The command

    @step("chat", takes=("use",), reads="typed", device=True)
    def _chat(self, inputs: Iterable[list[str]], use: ConversationUse) -> Iterator[str | Note]:
        """Talk with a model: each line of standard input is a turn, and is answered by a line.

        The last turns are kept, as many as the model reads. An empty line begins a new
        conversation. Ctrl-D, or the end of the input, ends it.
        """
        if sys.stdin is not None and sys.stdin.isatty():
            yield Note("An empty line begins anew; Ctrl-D ends.")
        values = values_for(self.predict, use)

        def reply(turns: tuple[str, ...]) -> str:
            return self.readable(self.answer(turns, **values))

        lines = itertools.chain.from_iterable(inputs)
        yield from answers_to(lines, reply, self.data.max_turns)


def answers_to(
    lines: Iterable[str], reply: Callable[[tuple[str, ...]], str], max_turns: int
) -> Iterator[str]:
    """Yields an answer to each line, a turn; an empty line begins a new conversation."""
    turns: list[str] = []
    answered = True
    for line in lines:
        if not line.strip():
            turns, answered = [], True
            continue
        # After an empty answer the same side goes on speaking.
        turns = [*turns, line] if answered else [*turns[:-1], f"{turns[-1]} {line}"]
        answer = reply(tuple(turns))
        yield answer
        answered = bool(answer.strip())
        turns = [*turns, *[answer] * answered][-max_turns:]


def _read(path: Location, data: ConversationData) -> Dialogues:
    return read_dialogues(path, data.format, data.on_error, data.max_characters)


def _check_held_out(held: Any, data: ConversationData, purpose: str, share: str) -> None:
    who = data.speaker
    pairs = (pair for dialogue in held for pair in itertools.pairwise(dialogue))
    if held and who and not any(a.speaker != who == b.speaker for a, b in pairs):
        raise ValueError(
            f"Expected answers of {who!r} among the {len(held)} dialogues that are held out "
            f"{purpose}. Received: none. Use another --split-seed, a greater {share}, or a "
            "separate file."
        )


def _split(read: Dialogues, data: ConversationData) -> Any:
    dev = 0 if data.dev else data.dev_share
    return split_dialogues(read, dev, data.test_share, data.split_seed)
