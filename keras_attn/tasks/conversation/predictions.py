"""Answers to the turns so far, and how good they are."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from keras import ops

from keras_attn.arrays import Array, ArrayModule
from keras_attn.explain.alignment import Alignment
from keras_attn.fields import (
    MARKS,
    ODD_TEXTS,
    GeneratedText,
    Signature,
    TurnRows,
    checked_texts,
    spoken,
)
from keras_attn.generation import CompiledFunction, Generation, length_penalty, prompt_seeds, sample
from keras_attn.generation.numbers import is_tensor, of_rows, sampling_inputs
from keras_attn.generation.sampling import SAMPLING
from keras_attn.hints import Tensor
from keras_attn.inputs import listed
from keras_attn.interop import read_word_vectors
from keras_attn.layers import attention_maps
from keras_attn.metrics.conversation import (
    ConversationScores,
    answer_scores,
    answer_words,
    nearest_answers,
    random_answers,
)
from keras_attn.models import language_decoder, target_log_probability
from keras_attn.tasks.base.checks import check_count
from keras_attn.tasks.base.learned import Learned
from keras_attn.tasks.base.served_numbers import SAMPLED, own_numbers
from keras_attn.tasks.conversation.settings import ConversationData, ConversationUse
from keras_attn.tasks.conversation.turns import checked_exchanges
from keras_attn.tasks.families.sequence_to_sequence import Prompt, SequenceToSequence, results
from keras_attn.text import BytePairTokenizer
from keras_attn.text.readable import readable_tokens


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


class ConversationPredictions(SequenceToSequence):
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
    def target_tokenizer(self) -> BytePairTokenizer:
        """The tokenizer, which is that of the turns too."""
        return self.tokenizer

    @property
    def field(self) -> TurnRows:
        """Reads turns as rows of ids."""
        graph = functools.cache(self.tokenizer.to_graph)
        return TurnRows(self.tokenizer, self.data.max_turns, self.data.max_context, graph)

    @property
    def encodes(self) -> bool:
        """Whether the model has an encoder of the turns; else turns and answer are one row."""
        return isinstance(self.model.input, dict) and self.source in self.model.input

    def longest(self, length: Any) -> int:
        """Returns the largest number of tokens of an answer."""
        return self.data.max_answer

    @property
    def suppressed_ids(self) -> tuple[int, ...]:
        """Ids that no answer has: those of the marks too."""
        marks = (self.tokenizer.vocabulary.index(mark) for mark in MARKS)
        return (*super().suppressed_ids, *marks)

    def prompt(self, sources: Tensor) -> Prompt:
        """Returns what the search begins with: of a decoder alone, the turns."""
        if self.encodes:
            return super().prompt(sources)
        decoder = self.kept(lambda: language_decoder(self.model), "decoder")
        return decoder, sources, ops.not_equal(sources, self.tokenizer.pad_id), None, None

    def run(
        self, xp: ArrayModule, tensors: Mapping[str, Any], use: ConversationUse
    ) -> dict[str, Tensor]:
        """Finds an answer to each row of ids, as `SequenceToSequence.run`, or draws one.

        With `mutual_information` the R beams are ranked anew, T an answer and S the turns:

            (log p(T | S) - mutual_information log p(T)) / length_penalty(|T|, alpha)

        where p(T) is the model's own without any turn (Li et al., 2016).
        """
        ids, most = tensors[self.source], self.data.max_answer
        tensors = {**tensors, "max_length": most}
        prompt = self.prompt(ids)
        if use.search == "sample":
            numbers = (*SAMPLING, "largest_top_k")
            given = {name: tensors[name] for name in numbers if name in tensors}
            seeds = prompt_seeds(ids, tensors.get("seed", use.seed))
            drawn = sample(
                *prompt,
                max_length=most,
                end_id=self.tokenizer.end_id,
                pad_id=self.tokenizer.pad_id,
                suppressed_ids=self.suppressed_ids,
                seed=seeds,
                **{**use.sampling(), **given},
            )
            return results(Generation(*(ops.expand_dims(values, 1) for values in drawn)))
        weight = tensors.get("mutual_information", use.mutual_information)
        ranks = is_tensor(weight) or weight
        found = self.search(prompt, tensors, use, use.beams if ranks else 1)
        if ranks:
            tokens = ops.reshape(found.tokens, (-1, most))
            nothing = tokens[:, :1] * 0 + self.field.self_id
            prior = ops.reshape(self.log_probability(nothing, tokens), (-1, use.beams))
            prior = of_rows("mutual_information", weight) * prior
            alpha = of_rows("alpha", tensors.get("alpha", use.alpha))
            scores = found.scores - prior / length_penalty(found.lengths, alpha)
            best = ops.expand_dims(ops.cast(ops.argmax(scores, axis=1), "int32"), 1)
            tokens = ops.take_along_axis(found.tokens, ops.expand_dims(best, 2), axis=1)
            others = (ops.take_along_axis(values, best, axis=1) for values in found[1:])
            found = Generation(tokens, *others)
        return results(found)

    def parted(
        self, use: ConversationUse
    ) -> tuple[ConversationUse, dict[str, Any], dict[str, Any]]:
        """Parts settings into what a search is compiled for and the numbers that are its inputs."""
        if use.search == "beam":
            numbers = {"alpha": use.alpha}
            if use.mutual_information:
                numbers["mutual_information"] = use.mutual_information
            return ConversationUse(beams=use.beams), numbers, {}
        numbers, fixed = sampling_inputs(use.sampling())
        return ConversationUse(search="sample"), {"seed": use.seed, **numbers}, fixed

    def log_probability(self, ids: Tensor, answers: Tensor) -> Tensor:
        """Returns `log p(answer | turns)`, see `target_log_probability`."""
        most = self.data.max_context + self.data.max_answer
        return target_log_probability(self.model, ids, answers, self.tokenizer.start_id, most)

    def log_probabilities(
        self, rows: Sequence[list[int]], answers: Sequence[list[int]], batch_size: int
    ) -> np.ndarray:
        """Returns the log-probability of each answer, float64 `(N,)`.

        Args:
            rows: Ids of the turns of each.
            answers: Ids of each answer, with its end.
            batch_size: Answers computed at a time.
        """
        found = np.zeros(len(rows), "float64")
        function = self.kept(
            lambda: CompiledFunction(
                lambda ids, length, answers: self.log_probability(ids, answers), self.model
            ),
            "log_probability",
        )
        for numbers, ids, _ in self.source_batches(rows, batch_size, jit_compile=False):
            given = np.full((len(ids), self.data.max_answer), self.tokenizer.pad_id, "int32")
            for r, i in enumerate(numbers):
                given[r, : len(answers[i])] = answers[i]
            found[numbers] = function(ids, 1, given)[: len(numbers)]
        return found

    def answer_ids(self, answers: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each answer with its end, as many as an answer may have."""
        ids = self.tokenizer.encode(answers, add_end=True)
        return [row[: self.data.max_answer] for row in ids]

    def source_maps(self, source: Array, target: Sequence[int]) -> list[np.ndarray]:
        """Returns the attention to the turns in each layer."""
        if self.encodes:
            return super().source_maps(source, target)
        S, T = len(source), len(target)
        maps = attention_maps(self.model, np.array([[*source, *target[:-1]]], "int32"))
        return [x[..., S - 1 : S - 1 + T, :S] for x in maps.select(role="self")]

    def signatures(self, use: ConversationUse) -> dict[str, Signature]:
        """Returns what the SavedModel takes and gives.

        The signature `serving_default` takes `turns: string (B, T)`, the turns so far from old to
        new, padded with `""` on either side, and gives `answer: string (B,)`, equal to `answer`
        with the settings of the export. `with_settings` also takes the numbers of `served_numbers`,
        each `(B,)`.
        """
        field = self.field
        answer = GeneratedText(self.tokenizer, "best", some="some", graph=field.graph)
        return {"serving_default": Signature(("turns",), field, {"answer": answer})}

    def export_examples(self) -> dict[str, Any]:
        """Returns odd turns beside ordinary ones."""
        marks = "<self> </s> <end> <other> hi"
        shifted = [ODD_TEXTS[i:] + ODD_TEXTS[:i] for i in range(3)]
        rows = [*zip(*shifted, strict=True), ("", marks, ""), ("", "", ""), ("", "", "x" * 700)]
        return {"turns": [list(row) for row in rows]}

    def served_numbers(self, use: ConversationUse) -> dict[str, tuple[Any, Any]]:
        """Returns the numbers that `with_settings` takes.

        A beam search has `alpha`, and `mutual_information` if the export sets it. A sample has
        `temperature`, `top_k`, where 0 keeps all, `top_p`, `min_p`, `repetition_penalty` and
        `seed`.
        """
        if use.search == "sample":
            return own_numbers(use, {**SAMPLED, "seed": 7})
        weight = use.mutual_information
        numbers = super().served_numbers(use)
        return {**numbers, "mutual_information": (weight, weight / 2)} if weight else numbers

    def checked_use(self, use: ConversationUse) -> ConversationUse:
        """Refuses `mutual_information` if the model learned no answers without turns."""
        if use.mutual_information and not self.empty_contexts:
            raise ValueError(
                "`mutual_information` needs a model that learned answers without turns too. "
                f"Received: mutual_information={use.mutual_information} for a model that did not. "
                "Train it with empty_contexts=0.1 (--empty-contexts 0.1), or leave it out."
            )
        return use

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
        use = self.checked_use(ConversationUse.made(given))
        one = isinstance(conversations, str | tuple)
        signature = self.signatures(use)["serving_default"]
        rows = signature.field.encode([conversations] if one else conversations)
        answers = signature.outputs["answer"].decode({**rows, **self.computed(rows, use)})
        return answers[0] if one else answers

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
        rows = self.field.encode([x.turns for x in examples])["source_ids"]
        answers = self.answer_ids([x.answer for x in examples])
        found = self.log_probabilities(rows, answers, batch_size)
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
        most = self.data.max_turns
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
        rows = self.field.encode([turns])
        (source,) = rows["source_ids"]
        if answer is None:
            ids = self.computed(rows, ConversationUse())["tokens"][0][0].tolist()
        else:
            ids = self.answer_ids(checked_texts([answer]))[0]
        weights = self.source_weights(source, ids, layer)
        tokens = readable_tokens(self.tokenizer, ids)
        return Alignment(self.tokenizer.tokens(source), tokens, weights)
