"""Continuation of prompts by a language model, complete or streamed."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_attn.generation.compiled import CompiledFunction
from keras_attn.generation.compiled_steps import CompiledSteps
from keras_attn.generation.decoders import Decoder
from keras_attn.generation.loops import Generation
from keras_attn.generation.numbers import columns, sampling_inputs
from keras_attn.generation.recent import Recent
from keras_attn.generation.sampled_steps import SampledSteps
from keras_attn.generation.sampling import sample
from keras_attn.generation.search import beam_search
from keras_attn.hints import Size, Tensor
from keras_attn.text import CharacterTokenizer
from keras_attn.text.pieces import StopReader, TokenReader, cut_at_stop
from keras_attn.text.registry import PieceTokenizer

PIECES = ((2e6, 64), (2e7, 16))
"""Tokens per piece of a stream, by the maximum number of weights; 4 for larger models. A call adds
about a millisecond to its steps, and a step of a small model takes a tenth of that."""
STEPS_TO_STOP = 32
"""Number of tokens after which stop strings are searched for."""
_ROOM = 256
"""Capacities of streams are multiples of this number of tokens, because JAX compiles for each."""


class NBestTexts(NamedTuple):
    """The R best continuations of a prompt, in descending order of their scores.

    Example:

    >>> NBestTexts(["to be", "to do"], [-0.5, -0.7], [True, True]).texts[0]
    'to be'
    """

    texts: list[str]
    """The texts, each beginning with the prompt."""
    scores: list[float]
    """Log-probabilities of the new tokens, divided by the length penalty."""
    truncated: list[bool]
    """Whether a text was cut at the requested number of tokens, without an end token."""


class Ending(NamedTuple):
    """The end of a streamed text, the value that its generator returns.

    Example:

    >>> Ending(num_tokens=70, truncated=True).truncated
    True
    """

    num_tokens: int
    """Number of generated tokens, up to the end of a stop string."""
    truncated: bool
    """Whether the text was cut at the requested number of tokens: it contains neither an end token
    nor a stop string."""


class Writing(NamedTuple):
    """Settings with which a `TextWriter` continues texts.

    Example:

    >>> kind, numbers = Writing((("temperature", 0.8), ("top_k", 5)), stops=("end",)).parted()
    >>> numbers, kind.stops
    ({'temperature': 0.8, 'top_k': 5}, ())
    """

    sampling: tuple[tuple[str, Any], ...] = ()
    """Arguments of `sample`, as pairs of a name and a value."""
    ends: bool = False
    """Whether the end token ends a text; otherwise, it is never generated."""
    min_length: int = 0
    """Minimum number of new tokens, including the end token."""
    beams: int | None = None
    """Number of beams, to search for the most probable text instead of sampling."""
    stops: tuple[str, ...] = ()
    """Strings at which a text ends."""
    ranking: tuple[tuple[str, Any], ...] = (("alpha", 1.0),)
    """Arguments of `beam_search` that rank texts, as pairs of a name and a value."""
    suppressed_ids: tuple[int, ...] = ()
    """Ids that are never generated, in addition to the special tokens."""

    @property
    def no_repeat_ngram_size(self) -> int:
        """Size of the n-grams that may not repeat; 0 if all may repeat."""
        return dict(self.sampling).get("no_repeat_ngram_size", 0)

    def parted(self) -> tuple[Writing, dict[str, float]]:
        """Separates the settings that are compiled into a function from its numeric inputs.

        Returns:
            A tuple of a `Writing` with the compiled settings, and a dict of the inputs, such as
            `temperature`, keyed by name. Stop strings are in neither. With `beams`, the settings of
            `sampling` are left out, except `no_repeat_ngram_size`.
        """
        given = {"no_repeat_ngram_size": self.no_repeat_ngram_size} if self.beams else self.sampling
        numbers, fixed = sampling_inputs(dict(given))
        ranking = dict(self.ranking)
        if self.beams:
            numbers["alpha"] = ranking["alpha"]
        if self.min_length:
            numbers["min_length"] = self.min_length
        kind = self._replace(
            sampling=tuple(fixed.items()),
            min_length=0,
            stops=(),
            ranking=tuple({**ranking, "alpha": 1.0}.items()),
        )
        return kind, numbers


class TextWriter:
    """Continues prompts with a decoder, whose search is compiled.

    Args:
        model: The model whose weights the decoder uses.
        decoder: Any object with `prefill` and `step`.
        tokenizer: The tokenizer of the texts. Its special tokens are never generated, except the
            end token in calls with `Writing(ends=True)`.
        max_prompt: Maximum number of ids of a prompt, including the start token. Methods raise a
            ValueError for longer prompts.

    Example:

    >>> from keras_attn.text import CharacterTokenizer
    >>> tokenizer = CharacterTokenizer.train(["to be"])
    >>> model = RecurrentLanguageModelConfig(tokenizer.vocabulary_size, units=8).build()
    >>> writer = TextWriter(model, language_decoder(model), tokenizer, max_prompt=8)
    >>> tokens = writer.tokens([[1, 5], [1]], seeds=np.array([7, 8]), count=3, how=Writing())
    >>> [len(row) for row in tokens]
    [3, 3]
    """

    def __init__(
        self,
        model: keras.Model,
        decoder: Decoder,
        tokenizer: PieceTokenizer | CharacterTokenizer,
        max_prompt: int,
    ):
        self.model = model
        self.decoder = decoder
        self.tokenizer = tokenizer
        self.max_prompt = max_prompt
        self._compiled: Recent[Any] = Recent()

    def search(
        self,
        ids: Tensor,
        how: Writing,
        max_length: Size,
        seeds: Tensor,
        max_lengths: Tensor | None = None,
        numbers: Mapping[str, Tensor] | None = None,
        count: int | None = None,
    ) -> Generation:
        """Samples continuations, or finds the most probable ones by beam search if `how` has beams.

        The method is not compiled, and can be part of an exported graph.

        Args:
            ids: Ids `(B, P)`: the start token, the prompt, then padding.
            how: Settings of the search; its stop strings are ignored.
            max_length: Maximum number of new tokens; an integer, or a tensor in a graph.
            seeds: Seeds of the rows, int32 `(B,)`; beam search ignores them.
            max_lengths: Maximum number of new tokens of each row, int32 `(B,)`; `max_length` if
                None.
            numbers: A dict of tensors `(B,)` that replace the numbers in `how`, such as
                `temperature`, keyed by name.
            count: Number R of texts that beam search returns; None for only the best text. Sampling
                ignores it.

        Returns:
            A `Generation` with shapes `(B, ...)`; `(B, R, ...)` after beam search with a `count`.
        """
        mask, given = self._mask(ids), numbers or {}
        settings: dict[str, Any] = {
            "max_length": max_length,
            "max_lengths": max_lengths,
            "min_length": how.min_length,
            **self.rules(how.ends, how.suppressed_ids),
        }
        if how.beams is None:
            settings = {**settings, **dict(how.sampling), **given}
            return sample(self.decoder, ids, mask, seed=seeds, **settings)
        # What never ends has an end token too, which is then among the suppressed ids.
        end = settings["end_id"] or self.tokenizer.end_id
        settings = {
            **settings,
            "end_id": end,
            "num_beams": how.beams,
            "num_return_sequences": count or 1,
            "no_repeat_ngram_size": how.no_repeat_ngram_size,
            **dict(how.ranking),
            **given,
        }
        beams = beam_search(self.decoder, ids, mask, **settings)
        return beams if count else Generation(*(values[:, 0] for values in beams))

    def tokens(
        self,
        rows: Sequence[Sequence[int]],
        seeds: np.ndarray,
        count: int,
        how: Writing,
        batch_size: int = 64,
    ) -> list[list[int]]:
        """Samples continuations of prompts, or finds them by beam search if `how` has `beams`.

        Args:
            rows: Ids of each prompt, beginning with the start token.
            seeds: Seeds of the N prompts, int32 `(N,)`; beam search ignores them.
            count: Maximum number of new tokens.
            how: Settings of the search.
            batch_size: Maximum number of prompts in a batch; prompts of similar lengths are batched
                together.

        Returns:
            A list of the new ids of each prompt, at most `count`, without padding. With `how.ends`,
            the last id may be an end token. A text with a stop string contains the whole string,
            and possibly more.
        """
        written: list[list[int]] = [[] for _ in rows]
        for members, ids in self._batches(rows, batch_size):
            new = self._new(ids, np.resize(seeds[members], len(ids)), len(members), count, how)
            for i, row in zip(members, new, strict=True):
                written[i] = row
        return written

    def best(
        self,
        rows: Sequence[Sequence[int]],
        count: int,
        how: Writing,
        several: int,
        batch_size: int = 64,
    ) -> dict[str, list[np.ndarray]]:
        """Finds the R best continuations of prompts by beam search.

        Args:
            rows: Ids of each prompt, beginning with the start token.
            count: Maximum number of new tokens.
            how: Settings of the search, with `beams`.
            several: Number R of continuations of each prompt, at most `how.beams`.
            batch_size: Maximum number of prompts in a batch.

        Returns:
            A dict of lists with an array for each prompt: `tokens (R, count)`, the new ids, then
            padding; and `scores (R,)`, `lengths (R,)` and `finished (R,)`, as in `Generation`.
        """
        found: dict[str, list[np.ndarray]] = {
            name: [np.zeros(0)] * len(rows) for name in Generation._fields
        }
        for members, ids in self._batches(rows, batch_size):
            seeds = np.zeros(len(ids), "int32")
            for name, values in self._searched(ids, seeds, count, how, several).items():
                for i, value in zip(members, values, strict=False):
                    found[name][i] = value
        return found

    def _batches(
        self, rows: Sequence[Sequence[int]], batch_size: int
    ) -> Iterator[tuple[list[int], np.ndarray]]:
        """Indices of prompts of similar lengths, and their padded ids."""
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        for first in range(0, len(rows), batch_size):
            members = order[first : first + batch_size]
            yield members, self.padded([rows[i] for i in members], batch_size)

    def stream(
        self, row: Sequence[int], seed: np.ndarray, count: int, how: Writing, begins: bool = False
    ) -> Generator[str, None, Ending]:
        """Samples a continuation of a prompt, and yields pieces of the text while it is generated.

        Args:
            row: Ids of the prompt, beginning with the start token.
            seed: Seed of the prompt, int32 `(1,)`.
            count: Maximum number of new tokens.
            how: Settings of the sampling, without `beams`.
            begins: Whether to leave out the space that SentencePiece puts at the beginning of a
                text.

        Returns:
            A generator of non-empty strings, the pieces of the new text up to a stop string. The
            value that it returns is an `Ending`.
        """
        weights = self.model.count_params()
        tokens = next((tokens for most, tokens in PIECES if weights <= most), 4)
        pieces = self._pieces(self.padded([row], 1), seed, 1, count, how, tokens)
        return self._streamed(pieces, how.stops, begins)

    def _streamed(
        self, pieces: Iterator[_Part], stops: Sequence[str], begins: bool
    ) -> Generator[str, None, Ending]:
        """The texts and the ending of the parts of a single row."""
        ids: list[int] = []
        ended = False
        for part in pieces:
            ids += part.ids[0]
            ended = part.ended[0]
            text = part.texts[0].removeprefix(" ") if begins else part.texts[0]
            if text:
                yield text
            begins = begins and not part.texts[0]
        return Ending(self._length(ids, stops), not ended)

    def _length(self, ids: Sequence[int], stops: Sequence[str]) -> int:
        """The number of ids up to the first stop string."""
        reader, text = TokenReader(self.tokenizer), ""
        for i, index in enumerate(ids if stops else ()):
            text += reader.read([index])
            if cut_at_stop(text, stops) != text:
                return i + 1
        return len(ids)

    def _new(
        self, ids: np.ndarray, seeds: np.ndarray, rows: int, count: int, how: Writing
    ) -> list[list[int]]:
        """The new ids of the first `rows` of padded prompts."""
        compiles_each_length = keras.backend.backend() == "jax"
        if how.beams is None and (how.stops or compiles_each_length):
            steps = STEPS_TO_STOP if how.stops else _ROOM
            parts = [part.ids for part in self._pieces(ids, seeds, rows, count, how, steps)]
            return [[*itertools.chain.from_iterable(row)] for row in zip(*parts, strict=True)]
        found = self._searched(ids, seeds, count, how)
        lengths = found["lengths"][:rows]
        return [row[:n].tolist() for row, n in zip(found["tokens"], lengths, strict=False)]

    def _searched(
        self,
        ids: np.ndarray,
        seeds: np.ndarray,
        count: int,
        how: Writing,
        several: int | None = None,
    ) -> dict[str, np.ndarray]:
        """The compiled result of `search` for padded prompts."""
        kind, numbers = how.parted()
        names = tuple(numbers)

        def search(ids: Tensor, room: Size, limits: Tensor, seeds: Tensor, *more: Tensor) -> Any:
            given = dict(zip(names, more, strict=True))
            return self.search(ids, kind, room, seeds, limits, given, several)._asdict()

        key = (kind, names, several)
        run = self._compiled.get(key, lambda: CompiledFunction(search, self.model))
        room = _room(count) if keras.backend.backend() == "jax" else count
        found = run(ids, room, np.full(len(ids), count), seeds, *columns(numbers, len(ids)))
        return {**found, "tokens": found["tokens"][..., :count]}

    def _pieces(
        self, ids: np.ndarray, seeds: np.ndarray, rows: int, count: int, how: Writing, steps: int
    ) -> Iterator[_Part]:
        """Writes after padded prompts, `steps` tokens at a time."""
        readers = [(TokenReader(self.tokenizer), StopReader(how.stops)) for _ in range(rows)]
        kind, numbers = how.parted()
        run = self._steps(kind, tuple(numbers), steps)
        limits, seeds = np.full(len(ids), count), np.resize(seeds, len(ids))
        state = run.begin(ids, _room(count), limits, seeds, *columns(numbers, len(ids)))
        left, over = count, False
        while not over:
            part, state = run.advance(state)
            left -= part["tokens"].shape[1]
            ids_of, texts, ended = [], [], []
            for row, (tokens, stopping) in enumerate(readers):
                new = part["tokens"][row, : part["lengths"][row]].tolist()
                text = tokens.read(new)
                finished = bool(part["finished"][row])
                if left <= 0 or finished:
                    text = stopping.read(text + tokens.end()) + stopping.end()
                else:
                    text = stopping.read(text)
                ids_of.append(new)
                texts.append(text)
                ended.append(finished or stopping.stopped)
            over = left <= 0 or all(ended)
            yield _Part(ids_of, texts, ended)

    def _steps(self, kind: Writing, names: tuple[str, ...], count: int) -> CompiledSteps:
        """Writes `count` tokens at a time."""

        def make() -> CompiledSteps:
            rules = self.rules(kind.ends, kind.suppressed_ids)
            steps = SampledSteps(self.decoder, **{**rules, **dict(kind.sampling)})

            def begin(ids: Tensor, room: Size, limits: Tensor, seeds: Tensor, *more: Tensor) -> Any:
                numbers = dict(zip(names, more, strict=True))
                mask = self._mask(ids)
                return steps.begin(ids, mask, seeds, limits, max_length=room, numbers=numbers)

            return CompiledSteps(begin, lambda state: steps.advance(state, count), self.model)

        return self._compiled.get(("steps", count, kind, names), make)

    def rules(self, ends: bool, suppressed_ids: Sequence[int] = ()) -> dict[str, Any]:
        """Returns the arguments of `sample` that depend on the tokenizer.

        Args:
            ends: Whether the end token ends a text; otherwise, it is never generated.
            suppressed_ids: Further ids that are never generated.

        Returns:
            A dict of `end_id`, a list of ids, or None if `ends` is False; `pad_id`; and
            `suppressed_ids`, a list with the special tokens (except the end tokens if `ends` is
            True) and the given ids.
        """
        tokenizer = self.tokenizer
        # Some models of Llama's kind end a text at any of several tokens.
        end_ids = getattr(tokenizer, "end_ids", (tokenizer.end_id,)) if ends else ()
        special = {tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id, tokenizer.unknown_id}
        # Llama 3 has hundreds more, none of which is text.
        more = set(getattr(tokenizer, "special_tokens", ()))
        special.update(i for i, token in enumerate(tokenizer.vocabulary) if token in more)
        return {
            "end_id": list(end_ids) or None,
            "pad_id": tokenizer.pad_id,
            "suppressed_ids": sorted({*(special - {None, *end_ids}), *suppressed_ids}),
        }

    def padded(self, rows: Sequence[Sequence[int]], batch_size: int) -> np.ndarray:
        """Returns the ids of prompts as an array `(B, P)`, padded on the right.

        P is the length of the longest prompt, and B the number of prompts. On JAX, which compiles
        for each shape, P and B are rounded up; additional rows have only the start token.

        Args:
            rows: Ids of each prompt, beginning with the start token.
            batch_size: On JAX, the limit to which B is rounded up.

        Returns:
            Ids, int32 `(B, P)`.

        Raises:
            ValueError: If a prompt has more than `max_prompt` ids.
        """
        width, count = max(map(len, rows)), len(rows)
        if width > self.max_prompt:
            raise ValueError(
                f"A prompt must have at most {self.max_prompt} ids, with the start token. "
                f"Received: {width} ids. Shorten the prompt."
            )
        if keras.backend.backend() == "jax":  # it compiles for each shape
            width = min(-(-width // 16) * 16, self.max_prompt)
            count = max(count, min(batch_size, 2 ** (count - 1).bit_length()))
        ids = np.full((count, width), self.tokenizer.pad_id, "int32")
        ids[:, 0] = self.tokenizer.start_id
        for r, row in enumerate(rows):
            ids[r, : len(row)] = row
        return ids

    def _mask(self, ids: Tensor) -> Tensor:
        # The start token is read, though some vocabularies have one token for it and for padding.
        first = ops.cumsum(ops.ones_like(ids), axis=1) == 1
        return ops.logical_or(ops.not_equal(ids, self.tokenizer.pad_id), first)


class _Part(NamedTuple):
    """What some steps wrote, a value for each row."""

    ids: list[list[int]]
    texts: list[str]
    ended: list[bool]
    """Whether there is an end token or a stop string by now."""


def _room(count: int) -> int:
    return -(-count // _ROOM) * _ROOM
