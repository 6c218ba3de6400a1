"""Conversation: the turns so far in, an answer out."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import keras
import numpy as np

from keras_attn.batches import AnswerBatches, TokenBatches
from keras_attn.fields import MARKS, with_marks
from keras_attn.models import CONVERSATION_MODELS
from keras_attn.records import (
    Dialogues,
    exchanges,
    read_dialogues,
    split_dialogues,
    without,
)
from keras_attn.settings import Choice
from keras_attn.tasks.base.steps import Note, step, values_for
from keras_attn.tasks.base.task import Examples
from keras_attn.tasks.base.task_run import Scored
from keras_attn.tasks.conversation.predictions import (
    ConversationLearned,
    ConversationPredictions,
)
from keras_attn.tasks.conversation.settings import (
    ConversationData,
    ConversationTest,
    ConversationTraining,
    ConversationUse,
)
from keras_attn.tasks.conversation.turns import TestExchanges, answers_to, checked_exchanges
from keras_attn.text import BytePairTokenizer
from keras_attn.text.registry import vocabulary_digest
from keras_attn.training import MaskedCrossEntropy, num_data_shards


class Talker(ConversationPredictions):
    """A model that answers the turns so far (Vinyals and Le, 2015): strings in, strings out.

    `.model` is the plain Keras model, `.dataset(exchanges)` what its `fit` takes. An
    encoder-decoder reads the turns with its encoder; a GPT has the turns and the answer in one row.
    Both learn the answers alone. The examples of `fit` are exchanges: the turns before an answer,
    and the answer. `keras_attn.records.exchanges` makes them of dialogues.

    References:
        - [Vinyals and Le, 2015](https://arxiv.org/abs/1506.05869): a neural conversational model.

    Args:
        tokenizer: A `BytePairTokenizer` with the special tokens `<other>` and `<self>`, such as
            `create` makes.
        empty_contexts: Whether the model learned answers without any turn too, without which
            `mutual_information` is refused. Batches that have some set it.
        model: Settings of the model: those of one of `CONVERSATION_MODELS`, a dict of some of
            them, such as `{"model": "gpt", "dim": 128}`, or None for a Transformer.
        data: Settings `ConversationData`, or a dict of some of them, such as `max_turns`,
            `max_context` and `max_answer`.
        dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.

    Raises:
        TypeError: If the tokenizer is of another class.
        ValueError: If a setting is unknown or out of range, or the tokenizer lacks the marks.

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
    summary = "Answer the turns of a conversation: a model trained on your dialogues."
    kinds = CONVERSATION_MODELS
    Data = ConversationData
    Training = ConversationTraining
    Use = ConversationUse
    Test = ConversationTest
    examples_are = "answers"
    main_layer = "decoder"
    reads = "turns"

    def configured(self, model: Any) -> Any:
        """Returns settings and sizes of the model, whose rows are padded on the right."""
        if isinstance(model, Choice):
            model = {self.kinds.key: model.name, **model.values}
        if model is None or isinstance(model, Mapping):
            model = dict(model or {})
            if model.get(self.kinds.key, self.kinds.default) == "transformer":
                model = {"right_padding": True, **model}
        return super().configured(model)

    def model_sizes(self) -> dict[str, Any]:
        """Returns the sizes of the vocabulary and of the rows."""
        size = self.tokenizer.vocabulary_size
        return {
            "vocabulary_size": size,
            "source_vocabulary_size": size,
            "target_vocabulary_size": None,
            "sequence_length": self.data.max_context + self.data.max_answer,
        }

    def facts(self) -> list[str]:
        """What tells this talker from others, for its `repr`."""
        return [
            self.kinds.name_of(self.config),
            f"{self.tokenizer.vocabulary_size:,} tokens",
            f"{self.data.max_turns} turns",
        ]

    # Data and training

    @classmethod
    def read(cls, data: ConversationData) -> Examples:
        """Reads dialogues: JSON lines, DailyDialog's text files, or chitchat-dataset's JSON.

        Whole dialogues are held out for the test and to choose the best weights, by the perplexity
        of their answers; dialogues of equal words are on one side.
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
        """Reads the held-out dialogues, or others, and those of the training for the baselines."""
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
        """Makes the byte pairs of turns and answers."""
        turns = (text for x in checked_exchanges(examples) for text in (*x.turns, x.answer))
        texts = list(dict.fromkeys(turns))
        if data.split_digits:  # no pair with a digit is learnt
            without = [re.sub(r"\d", " ", text) for text in texts]
            texts = without if any(map(str.strip, without)) else ["?"]
        size = data.vocabulary_size - len(MARKS)
        tokenizer = BytePairTokenizer.train(filter(str.strip, texts), size, allow_fewer=True)
        return ConversationLearned(with_marks(tokenizer))

    def dataset(
        self, examples: Sequence[Any], empty_contexts: float = 0.0, **settings: Any
    ) -> TokenBatches | AnswerBatches:
        """Makes batches of exchanges for `model.fit`.

        Args:
            examples: `Exchange`s, or tuples of turns and an answer. Answers of more than
                `max_answer` tokens, and empty ones, are left out and counted in `dropped`.
            empty_contexts: Share of the answers that is there a second time without any turn. Where
                there are some, the talker's `empty_contexts` becomes True.
            **settings: Of `TokenBatches` or `AnswerBatches`: `tokens_per_batch`, `seed`, ...

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
        """Makes the batches of a training."""
        return self.dataset(
            examples,
            training.empty_contexts if shuffle else 0.0,
            tokens_per_batch=training.tokens_per_batch,
            seed=training.seed,
            shuffle=shuffle,
        )

    def objective(self, training: ConversationTraining) -> dict[str, Any]:
        """Cross-entropy of the tokens of the answers."""
        return {"loss": MaskedCrossEntropy(training.label_smoothing)}

    def scored_by(self, training: ConversationTraining) -> tuple[str, int]:
        """Perplexity: less is better."""
        return "perplexity", -1

    def scorer(
        self, dev: Sequence[Any], training: ConversationTraining
    ) -> Callable[[keras.Model], Scored]:
        """Scores development answers."""

        def score(model: keras.Model) -> Scored:
            found = self.perplexity(dev)
            return Scored((-found,), {"val_perplexity": found})

        return score

    def describe(self, batches: TokenBatches | AnswerBatches) -> list[str]:
        """Says what is trained, and what is left out."""
        lines = super().describe(batches)
        if batches.dropped:
            most = self.data.max_answer
            lines.append(f"{batches.dropped:,} answers are empty or longer than {most} tokens.")
        return lines

    def digest(self, examples: Sequence[Any], dev: Sequence[Any]) -> str:
        """Names the exchanges of a run."""
        return super().digest(checked_exchanges(examples), checked_exchanges(dev) if dev else ())

    @staticmethod
    def readable(result: str) -> str:
        """Returns an answer as the command writes it, on one line."""
        return " ".join(result.split())

    @step("chat", takes=("use",), reads="typed", device=True)
    def _chat(self, inputs: Iterable[list[str]], use: ConversationUse) -> Iterator[str | Note]:
        """Talk with a model: each line of standard input is a turn, and is answered by a line.

        The last turns are kept, as many as the model reads. An empty line begins a new
        conversation. Ctrl-D, or the end of the input, ends it.
        """
        if sys.stdin is not None and sys.stdin.isatty():
            yield Note("An empty line begins anew; Ctrl-D ends.")
        values = values_for(self.answer, use)

        def reply(turns: tuple[str, ...]) -> str:
            return self.readable(self.answer(turns, **values))

        lines = itertools.chain.from_iterable(inputs)
        yield from answers_to(lines, reply, self.data.max_turns)

    # Files and export

    backbone: ClassVar = {
        "source_embedding": ("embedding",),
        "embedding": (),
        "positions": (),
        "encoder": (),
        "decoder": (),
    }

    def vocabularies(self) -> dict[str, str]:
        """Returns what names the vocabulary of the embedding."""
        name = "source_embedding" if self.encodes else "embedding"
        return {name: vocabulary_digest(self.tokenizer)}


def _read(path: str, data: ConversationData) -> Dialogues:
    return read_dialogues(path, data.format, data.on_error, data.max_characters)


def _check_held_out(held: Any, data: ConversationData, purpose: str, share: str) -> None:
    who = data.speaker
    pairs = (pair for dialogue in held for pair in itertools.pairwise(dialogue))
    if held and who and not any(a.speaker != who == b.speaker for a, b in pairs):
        raise ValueError(
            f"Expected answers of {who!r} among the {len(held)} dialogues that are held "
            f"out {purpose}. Received: none. Take another --split-seed, a greater {share}, or a "
            "file of its own."
        )


def _split(read: Dialogues, data: ConversationData) -> Any:
    dev = 0 if data.dev else data.dev_share
    return split_dialogues(read, dev, data.test_share, data.split_seed)
