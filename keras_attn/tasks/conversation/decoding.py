"""From the turns so far to ids, from these to an answer, and how probable an answer is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attn.generation import (
    CompiledFunction,
    Generation,
    Recent,
    beam_search,
    length_penalty,
    sample,
)
from keras_attn.generation.noise import mixed_bits
from keras_attn.generation.numbers import columns, is_tensor, of_rows, sampling_inputs
from keras_attn.layers import RecurrentEncoder, attention_maps
from keras_attn.models import SequenceDecoder, language_decoder
from keras_attn.ops.token_losses import token_cross_entropy
from keras_attn.tasks.conversation.settings import ConversationUse
from keras_attn.tasks.families.decoding_batches import DecodingBatches
from keras_attn.text import BytePairTokenizer

Tensor = Any
MARKS = ("<other>", "<self>")
"""Special tokens before the turns of others and of whoever answers, never made of a text."""


def with_marks(tokenizer: BytePairTokenizer) -> BytePairTokenizer:
    """Returns a tokenizer with the marks of who speaks as further special tokens.

    Args:
        tokenizer: Byte pairs.

    Example:

    >>> from keras_attn.text import BytePairTokenizer
    >>> with_marks(BytePairTokenizer.train(["<other>"], 259)).vocabulary[-2:]
    ('<other>', '<self>')
    """
    return BytePairTokenizer(
        [*tokenizer.vocabulary, *MARKS],
        tokenizer.merges,
        tokenizer.normalize,
        tokenizer.pattern,
        [*tokenizer.special_tokens, *MARKS],
    )


def spoken(turns: Sequence[str], max_turns: int) -> list[str]:
    """Returns the turns that are read: the last ones with a word.

    Args:
        turns: The turns so far.
        max_turns: Largest number of them.

    Example:

    >>> spoken(["Hi.", " ", "Hello!", "Who is there?"], max_turns=2)
    ['Hello!', 'Who is there?']
    """
    return [turn for turn in turns if turn.strip()][-max_turns:]


def search_inputs(
    use: ConversationUse,
) -> tuple[ConversationUse, dict[str, Any], dict[str, Any]]:
    """Parts settings into what a search is compiled for and the numbers that are its inputs.

    Args:
        use: The settings.

    Returns:
        `(kind, numbers, fixed)`: settings without the numbers, the numbers by their names, and
        further arguments of `sample`.

    Example:

    >>> kind, numbers, fixed = search_inputs(ConversationUse(beams=3, alpha=0.7))
    >>> kind == ConversationUse(beams=3), numbers, fixed
    (True, {'alpha': 0.7}, {})
    """
    if use.search == "beam":
        numbers = {"alpha": use.alpha}
        if use.mutual_information:
            numbers["mutual_information"] = use.mutual_information
        return ConversationUse(beams=use.beams), numbers, {}
    numbers, fixed = sampling_inputs(use.sampling())
    return ConversationUse(search="sample"), {"seed": use.seed, **numbers}, fixed


class AnswerSearch:
    """Reads turns, and searches and scores answers with the layers of a model.

    The turns become one row of ids, from old to new, each behind the mark of who speaks; a last
    mark asks for the answer:

        ... <self> ids of a turn <other> ids of the last turn <self>

    A row has at most `max_context` ids. What is too much is cut off at its old end; of a turn that
    is cut the last ids stay, behind its mark. It has no weights of its own.

    Args:
        model: A model that one of `CONVERSATION_MODELS` built.
        tokenizer: Its tokenizer, with the special tokens `MARKS`.
        max_turns: Largest number of turns that are read.
        max_context: Largest number of ids of a row.
        max_answer: Largest number of ids of an answer, with its end.

    Example:

    >>> from keras_attn.text import BytePairTokenizer
    >>> tokenizer = with_marks(BytePairTokenizer.train(["one dog"], 259))
    >>> model = GptConfig(261, dim=8, num_layers=1, num_heads=2, sequence_length=12).build()
    >>> search = AnswerSearch(model, tokenizer, max_turns=2, max_context=8, max_answer=4)
    >>> tokenizer.tokens(search.read([["Hi.", "So?"]])[0])
    ['<self>', 'i', '.', '<other>', 'S', 'o', '?', '<self>']
    """

    def __init__(
        self,
        model: keras.Model,
        tokenizer: BytePairTokenizer,
        max_turns: int,
        max_context: int,
        max_answer: int,
    ):
        self.model = model
        self.encodes = "source_ids" in (model.input if isinstance(model.input, dict) else ())
        self.layers = layers = SequenceDecoder(model) if self.encodes else language_decoder(model)
        recurrent = isinstance(layers, SequenceDecoder) and isinstance(
            layers.encoder, RecurrentEncoder
        )
        self.tokenizer = tokenizer
        self.other_id, self.self_id = map(tokenizer.vocabulary.index, MARKS)
        self.max_turns = max_turns
        self.max_context = max_context
        self.max_answer = max_answer
        self._batches = DecodingBatches(tokenizer.pad_id, self.self_id, recurrent)
        self._compiled: Recent[CompiledFunction] = Recent()

    # Texts and ids

    def read(self, conversations: Sequence[Sequence[str]]) -> list[list[int]]:
        """Returns the ids of the turns so far of each conversation."""
        turns = [spoken(some, self.max_turns) for some in conversations]
        flat = self.tokenizer.encode([turn for some in turns for turn in some])
        rows, start = [], 0
        for some in turns:
            row, marks = [self.self_id], [self.other_id, self.self_id]
            for back, ids in enumerate(reversed(flat[start : start + len(some)])):
                room = self.max_context - len(row) - 1
                if room < 0:
                    break
                row = [marks[back % 2], *ids[max(len(ids) - room, 0) :], *row]
            start += len(some)
            rows.append(row)
        return rows

    def answer_ids(self, answers: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each answer with its end, as many as an answer may have."""
        return [ids[: self.max_answer] for ids in self.tokenizer.encode(answers, add_end=True)]

    def answers(
        self, rows: Sequence[list[int]], use: ConversationUse, batch_size: int
    ) -> list[list[int]]:
        """Returns the ids of an answer to each row."""
        found: list[list[int]] = [[] for _ in rows]
        kind, numbers, fixed = search_inputs(use)
        key = (kind, tuple(numbers), tuple(fixed.items()), self.max_answer, self.max_context)

        def answer(*inputs: Tensor) -> Generation:
            ids, _, *values = inputs
            return self.search(ids, kind, {**fixed, **dict(zip(numbers, values, strict=True))})

        for members, ids, compiled in self._batches(rows, batch_size):
            run = self._function((compiled, *key), answer, compiled)
            best = run(ids, 1, *columns(numbers, len(ids)))
            for r, i in enumerate(members):
                found[i] = best.tokens[r, : best.lengths[r]].tolist()
        return found

    def log_probabilities(
        self, rows: Sequence[list[int]], answers: Sequence[list[int]], batch_size: int
    ) -> np.ndarray:
        """Returns the log-probability of each answer, float64 `(N,)`."""
        found = np.zeros(len(rows), "float64")
        run = self._function(
            ("score", self.max_answer, self.max_context),
            lambda ids, length, answers: self.log_probability(ids, answers),
            False,
        )
        for numbers, ids, _ in self._batches(rows, batch_size, jit_compile=False):
            given = np.full((len(ids), self.max_answer), self.tokenizer.pad_id, "int32")
            for r, i in enumerate(numbers):
                given[r, : len(answers[i])] = answers[i]
            found[numbers] = run(ids, 1, given)[: len(numbers)]
        return found

    def _function(self, key: Any, function: Callable, compiled: bool) -> CompiledFunction:
        return self._compiled.get(
            key, lambda: CompiledFunction(function, self.model, jit_compile=compiled)
        )

    # Tensors: for any backend, and for the export

    def search(
        self, ids: Tensor, use: ConversationUse, numbers: Mapping[str, Any] | None = None
    ) -> Generation:
        """Finds an answer to each row of ids `(B, S)`; tokens are `(B, max_answer)`.

        `numbers`, tensors `(B,)` by the names of settings, replace settings of `use`.

        With `mutual_information` the R beams are ranked anew, T an answer and S the turns:

            (log p(T | S) - mutual_information log p(T)) / length_penalty(|T|, alpha)

        where p(T) is the model's own without any turn (Li et al., 2016).
        """
        pad, end = self.tokenizer.pad_id, self.tokenizer.end_id
        suppressed = pad, self.tokenizer.start_id, self.other_id, self.self_id
        decoder, *given = self._prompted(ids)
        numbers = dict(numbers or {})
        if use.search == "sample":
            seeds = self.seeds(ids, numbers.pop("seed", use.seed))
            return sample(
                decoder, *given, max_length=self.max_answer, end_id=end, pad_id=pad,
                suppressed_ids=suppressed, seed=seeds, **{**use.sampling(), **numbers},
            )  # fmt: skip
        alpha = numbers.get("alpha", use.alpha)
        weight = numbers.get("mutual_information", use.mutual_information)
        ranks = is_tensor(weight) or weight
        found = beam_search(
            decoder, *given, max_length=self.max_answer, end_id=end, pad_id=pad,
            suppressed_ids=suppressed, num_beams=use.beams, alpha=alpha,
            num_return_sequences=use.beams if ranks else 1,
        )  # fmt: skip
        best = ops.zeros_like(found.lengths[:, :1])
        if ranks:
            tokens = ops.reshape(found.tokens, (-1, self.max_answer))
            prior = self.log_probability(tokens[:, :1] * 0 + self.self_id, tokens)
            prior = of_rows("mutual_information", weight) * ops.reshape(prior, (-1, use.beams))
            scores = found.scores - prior / length_penalty(found.lengths, of_rows("alpha", alpha))
            best = ops.expand_dims(ops.cast(ops.argmax(scores, axis=1), "int32"), 1)
        tokens = ops.take_along_axis(found.tokens, ops.expand_dims(best, 2), axis=1)[:, 0]
        return Generation(tokens, *(ops.take_along_axis(t, best, axis=1)[:, 0] for t in found[1:]))

    def _prompted(self, ids: Tensor) -> tuple[Any, Tensor, *tuple[Tensor | None, ...]]:
        """The decoder with the prompts, their mask, and the memory of an encoder with its mask."""
        if isinstance(self.layers, SequenceDecoder):
            start = ids[:, :1] * 0 + self.tokenizer.start_id
            memory, mask = self.layers.encode(ids)
            return self.layers.decoder, start, None, memory, mask
        return self.layers, ids, ops.not_equal(ids, self.tokenizer.pad_id), None, None

    def seeds(self, ids: Tensor, seed: Any) -> Tensor:
        """Returns a seed for each row, int32 `(B,)`, made of its ids and an integer or `(B,)`."""
        places = ops.cumsum(ops.ones_like(ids), axis=1)
        real = ops.cast(ops.not_equal(ids, self.tokenizer.pad_id), "int32")
        bits = mixed_bits(mixed_bits(ids) + places) * real
        return mixed_bits(ops.cast(ops.sum(bits, axis=1), "int32") + seed)

    def log_probability(self, ids: Tensor, answers: Tensor) -> Tensor:
        """Returns `log p(answer | turns)`, the sum over the tokens of the answer.

        Args:
            ids: Rows of turns, `(B, S)`.
            answers: Ids `(B, T)` with their ends, then padding.

        Returns:
            float32 `(B,)`.
        """
        pad = self.tokenizer.pad_id
        ids, answers = ops.convert_to_tensor(ids), ops.convert_to_tensor(answers)
        if self.encodes:
            start = answers[:, :1] * 0 + self.tokenizer.start_id
            inputs = ops.concatenate([start, answers[:, :-1]], axis=1)
            logits = self.model({"source_ids": ids, "target_ids": inputs}, training=False)
        else:
            # (B, S + T): each answer directly behind its turns.
            turns = ops.cast(ops.not_equal(ids, pad), "int32")
            length = ops.sum(turns, axis=1, keepdims=True)
            both = ops.concatenate([ids, answers], axis=1)
            places = ops.cumsum(ops.ones_like(both), axis=1) - 1
            width = ops.shape(ids)[1]
            source = ops.where(places < length, places, places - length + width)
            last = ops.shape(both)[1] - 1
            row = ops.take_along_axis(both, ops.minimum(source, last), axis=1)
            row = ops.where(source > last, ops.cast(pad, row.dtype), row)
            row = row[:, : self.max_context + self.max_answer]
            logits = self.model(row, training=False)
            slots = ops.cumsum(ops.ones_like(answers), axis=1) - 2 + length  # (B, T)
            logits = ops.take_along_axis(logits, ops.expand_dims(slots, 2), axis=1)
        nats = token_cross_entropy(answers, ops.cast(logits, "float32"))
        return -ops.sum(ops.where(ops.equal(answers, pad), 0.0, nats), axis=1)

    def weights(self, row: list[int], answer: list[int], layer: int) -> np.ndarray:
        """Returns the attention of the tokens of an answer to those of the turns.

        Args:
            row: Ids of the turns.
            answer: Ids of the answer.
            layer: Number of the attention of the answer to the turns.

        Returns:
            float32 `(T, S)`, the mean over the heads.

        Raises:
            ValueError: If there is no such attention.
        """
        S, T = len(row), len(answer)
        inputs: np.ndarray | dict[str, np.ndarray]
        if self.encodes:
            inputs = {
                "source_ids": np.array([row], "int32"),
                "target_ids": np.array([[self.tokenizer.start_id, *answer[:-1]]], "int32"),
            }
        else:
            inputs = np.array([[*row, *answer[:-1]]], "int32")
        maps = []
        if not isinstance(self.layers, SequenceDecoder) or self.layers.num_attentions:
            role = "cross" if self.encodes else "self"
            maps = attention_maps(self.model, inputs).select(role=role)
        if not isinstance(layer, int) or not -len(maps) <= layer < len(maps):
            raise ValueError(
                "`layer` must be the number of an attention of the answer to the turns, of which "
                f"the model has {len(maps)}. Received: {layer!r}."
            )
        weights = np.asarray(maps[layer][0])
        weights = weights.mean(axis=0) if weights.ndim == 3 else weights
        return weights if self.encodes else weights[S - 1 : S - 1 + T, :S]
