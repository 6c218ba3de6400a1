"""Continuations of texts: as a whole, and as they are written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_attn.fields import checked_texts
from keras_attn.generation import (
    CompiledFunction,
    CompiledSteps,
    Generation,
    SampledSteps,
    beam_search,
    sample,
)
from keras_attn.generation.numbers import columns
from keras_attn.generation.sampling import SAMPLING, check_sampling
from keras_attn.tasks.base.checks import check_count
from keras_attn.tasks.text_generation.reading import TextGenerationReading
from keras_attn.tasks.text_generation.settings import TextGenerationUse, check_beams
from keras_attn.tasks.text_generation.writing_kinds import WritingKind, seeds_of, writing_kind
from keras_attn.text.checks import well_formed
from keras_attn.text.pieces import StopReader, TokenReader, checked_stops, cut_at_stop

Tensor = Any

PIECES = ((2e6, 64), (2e7, 16))
"""Tokens of a piece of `stream` for models with so many weights at most; 4 for larger ones. A call
costs about a millisecond beside its steps, and those of small models take a tenth of that."""
STEPS_TO_STOP = 32
"""Tokens after which `generate` looks for stop strings."""
_ROOM = 256
"""Texts in parts have room for a multiple of so many tokens, since JAX compiles for each room."""


class TextGenerationWriting(TextGenerationReading):
    """What a text generator writes: a base class of `TextGenerator`."""

    def generate(
        self,
        prompts: str | Sequence[str] = "",
        num_characters: int = TextGenerationUse.num_characters,
        temperature: float = TextGenerationUse.temperature,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        repetition_penalty: float = TextGenerationUse.repetition_penalty,
        no_repeat_ngram_size: int = TextGenerationUse.no_repeat_ngram_size,
        seed: int | Sequence[int] = TextGenerationUse.seed,
        batch_size: int = TextGenerationUse.batch_size,
        stop: str | Sequence[str] = (),
        end_token: bool = True,
        min_length: int = TextGenerationUse.min_length,
        beams: int | None = None,
    ) -> Any:
        """Continues texts.

        The same prompts, settings and seed give the same texts, whatever they are batched with and
        on which backend, but for rounding; see `keras_attn.generation.sample`.

        Args:
            prompts: A string or a list of strings; `""` is the beginning of nothing in particular.
                Of each the last `longest_prompt` tokens are read.
            num_characters: Number of new tokens: characters, or byte pairs.
            temperature: Above 0; below 1 more sober, above 1 wilder.
            top_k: Number of most probable tokens that may come, or None.
            top_p: Total probability of the tokens that may come, or None.
            min_p: Smallest probability that may come, as a share of the greatest, or None.
            repetition_penalty: Above 1: tokens that were there come less often. At the level of
                characters that soon spoils the spelling.
            no_repeat_ngram_size: Above 0: a sequence of so many tokens never comes twice.
            seed: Integer, of which each prompt gets a seed of its own; or a list of seeds.
            batch_size: Texts generated at a time, those with prompts of like lengths together.
            stop: A string or several. What follows a prompt ends where the first of them begins in
                it; the prompt itself may have them.
            end_token: Whether a text ends at the end token, if the generator has `ends`. If not,
                that token is never written.
            min_length: Number of new tokens before which the end token is not written. A stop
                string ends a text all the same.
            beams: Width of a beam search for the most probable text, which is written instead of a
                sample; 1 is greedy search. Scores of texts that end are divided by the length
                penalty with `alpha=1`. Settings of the sampling are refused, and seeds change
                nothing.

        Returns:
            The prompt and what follows: a string for a string, a list for a list.

        Raises:
            TypeError: If an input is not a string.
            ValueError: If a setting is out of range.
        """
        given = locals()
        check_count("num_characters", num_characters)
        check_count("batch_size", batch_size)
        settings = {name: given[name] for name in SAMPLING}
        check_sampling(**settings)
        check_beams(beams, settings)
        self._check_least(min_length, num_characters, end_token)
        stops = checked_stops(stop)
        one = isinstance(prompts, str)
        texts = checked_texts([prompts] if isinstance(prompts, str) else prompts)
        seeds = seeds_of(seed, len(texts))
        kind, numbers = self._kind(settings, end_token, min_length, beams)
        if not texts:
            return []
        rows = self._prompt_ids(texts)
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        results = [""] * len(rows)
        compiles_each_length = keras.backend.backend() == "jax"
        for first in range(0, len(rows), batch_size):
            members = order[first : first + batch_size]
            ids = self._padded([rows[i] for i in members], batch_size)
            of_rows = [np.resize(seeds[members], len(ids)), *columns(numbers, len(ids))]
            if beams is None and (stops or compiles_each_length):
                run = self._steps(kind, STEPS_TO_STOP if stops else _ROOM)
                pieces = self._pieces(run, ids, of_rows, len(members), num_characters, stops)
                found = list(map("".join, zip(*pieces, strict=True)))
            else:
                room = _room(num_characters) if compiles_each_length else num_characters
                limits = np.full(len(ids), num_characters)
                tokens = self._run(kind)(ids, room, limits, *of_rows)
                tokens = tokens[: len(members), :num_characters]
                found = [cut_at_stop(x, stops) for x in self.tokenizer.decode(tokens.tolist())]
            for i, text in zip(members, found, strict=True):
                results[i] = well_formed(texts[i]) + text
        return results[0] if one else results

    predict = generate  # as all tasks call what they are for

    def stream(
        self,
        prompt: str = "",
        num_characters: int = TextGenerationUse.num_characters,
        temperature: float = TextGenerationUse.temperature,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        repetition_penalty: float = TextGenerationUse.repetition_penalty,
        no_repeat_ngram_size: int = TextGenerationUse.no_repeat_ngram_size,
        seed: int | Sequence[int] = TextGenerationUse.seed,
        stop: str | Sequence[str] = (),
        end_token: bool = True,
        min_length: int = TextGenerationUse.min_length,
    ) -> Iterator[str]:
        """Continues a text, and gives out what is written while it is written.

        All pieces together are what `generate` puts after the prompt with the same settings. 64
        tokens are written at a time; 16 by a model of more than 2 million weights, and 4 by one of
        more than 20 million. A character of several tokens comes as a whole, and what may be the
        beginning of a stop string is held back. Nothing is written ahead: who takes no further
        piece ends the work.

        Args:
            prompt: As in `generate`, one string.
            num_characters: As in `generate`.
            temperature: As in `generate`.
            top_k: As in `generate`.
            top_p: As in `generate`.
            min_p: As in `generate`.
            repetition_penalty: As in `generate`.
            no_repeat_ngram_size: As in `generate`.
            seed: As in `generate`: an integer, or a list of one seed.
            stop: As in `generate`.
            end_token: As in `generate`.
            min_length: As in `generate`.

        Returns:
            An iterator over pieces of text, without the prompt; none of them is empty.

        Raises:
            TypeError: If the prompt is not a string.
            ValueError: If a setting is out of range.

        Example:

        >>> tokenizer = CharacterTokenizer.train(["to be"])
        >>> generator = TextGenerator(tokenizer, model={"units": 8}, data={"sequence_length": 8})
        >>> pieces = list(generator.stream("to", num_characters=70, seed=7))
        >>> "to" + "".join(pieces) == generator.generate("to", 70, seed=7), len(pieces)
        (True, 2)
        """
        given = locals()
        if not isinstance(prompt, str):
            raise TypeError(
                f"`prompt` must be one string. Received: {prompt!r}. For several texts call "
                "`stream` for each, or `generate`."
            )
        check_count("num_characters", num_characters)
        settings = {name: given[name] for name in SAMPLING}
        check_sampling(**settings)
        self._check_least(min_length, num_characters, end_token)
        stops, seeds = checked_stops(stop), seeds_of(seed, 1)
        ids = self._padded(self._prompt_ids([prompt]), 1)
        kind, numbers = self._kind(settings, end_token, min_length)
        run = self._steps(kind, _piece_tokens(self.model.count_params()))
        of_rows = [np.resize(seeds, len(ids)), *columns(numbers, len(ids))]
        pieces = self._pieces(run, ids, of_rows, 1, num_characters, stops)
        return (piece for (piece,) in pieces if piece)

    def streamed(
        self,
        prompts: Sequence[str],
        seed: int = 0,
        batch_size: int = 1,
        beams: int | None = None,
        **use: Any,
    ) -> Iterator[Iterator[str]]:
        """Gives out the texts of `generate`, one after the other, while they are written.

        Args:
            prompts: Strings.
            seed: As in `generate`.
            batch_size: Has no effect, since texts are written one after the other.
            beams: None.
            **use: As in `stream`.

        Yields:
            For each text an iterator over its pieces, the prompt first.

        Raises:
            ValueError: If there are beams.
        """
        if beams is not None:
            raise ValueError(
                "Which text is the most probable is known at its end: `beams` and `stream` do not "
                f"go together. Received: beams={beams}. Leave one of them out."
            )
        for prompt, own in zip(prompts, seeds_of(seed, len(prompts)), strict=True):
            yield self._with_prompt(prompt, self.stream(prompt, seed=[own], **use))

    @staticmethod
    def _with_prompt(prompt: str, pieces: Iterator[str]) -> Iterator[str]:
        yield well_formed(prompt)
        yield from pieces

    def _pieces(
        self,
        run: CompiledSteps,
        ids: np.ndarray,
        of_rows: Sequence[np.ndarray],
        rows: int,
        num_characters: int,
        stops: tuple[str, ...],
    ) -> Iterator[list[str]]:
        """What is written after prompts, some tokens at a time: a piece for each row."""
        readers = [(TokenReader(self.tokenizer), StopReader(stops)) for _ in range(rows)]
        state = run.begin(ids, _room(num_characters), np.full(len(ids), num_characters), *of_rows)
        left, over = num_characters, False
        while not over:
            found, state = run.go_on(state)
            left -= found["tokens"].shape[1]
            pieces = []
            for row, (tokens, stopping) in enumerate(readers):
                new = found["tokens"][row, : found["lengths"][row]].tolist()
                text = tokens.read(new)
                if left <= 0 or found["finished"][row]:
                    text = stopping.read(text + tokens.end()) + stopping.end()
                else:
                    text = stopping.read(text)
                pieces.append(text)
            ended = [
                stopping.stopped or finished
                for (_, stopping), finished in zip(readers, found["finished"][:rows], strict=True)
            ]
            over = left <= 0 or all(ended)
            yield pieces

    def _check_least(self, min_length: Any, num_characters: int, end_token: bool) -> None:
        if not min_length:
            return
        check_count("min_length", min_length)
        if min_length > num_characters:
            raise ValueError(
                f"`min_length` must be at most the number of new tokens, {num_characters}. "
                f"Received: {min_length}."
            )
        if not (end_token and self.ends):
            raise ValueError(
                "`min_length` delays the end token. Received: "
                f"min_length={min_length} where no end token is written. Leave it out."
            )

    def _rules(self, end_token: bool, min_length: int | Tensor = 0) -> dict[str, Any]:
        """The special tokens, as `sample` takes them."""
        tokenizer = self.tokenizer
        # Some models of Llama's kind end a text at any of several tokens.
        ends = getattr(tokenizer, "end_ids", (tokenizer.end_id,)) if end_token and self.ends else ()
        special = {tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id, tokenizer.unknown_id}
        # Llama 3 has hundreds more, none of which is text.
        more = set(getattr(tokenizer, "special_tokens", ()))
        special.update(i for i, token in enumerate(tokenizer.vocabulary) if token in more)
        return {
            "end_id": list(ends) or None,
            "pad_id": tokenizer.pad_id,
            "min_length": min_length,
            "suppressed_ids": sorted(special - {None, *ends}),
        }

    def continue_ids(
        self,
        ids: Tensor,
        max_length: Any,
        seeds: Tensor,
        end_token: bool = True,
        beams: int | None = None,
        min_length: int | Tensor = 0,
        max_lengths: Tensor | None = None,
        **settings: Any,
    ) -> Generation:
        """Samples or searches after prompts; for any backend, and for the export.

        Args:
            ids: `(B, P)`: the start token, the prompt, padding.
            max_length: Number of new tokens; an integer, or a tensor in a graph.
            seeds: int32 `(B,)`.
            end_token: As in `generate`.
            beams: As in `generate`.
            min_length: As in `generate`; or a tensor, as `sample` takes it.
            max_lengths: int32 `(B,)`, the number of new tokens of each row; `max_length` if None.
            **settings: Of `sample`.

        Returns:
            `Generation`.
        """
        if beams is not None:
            # What never ends has an end token too, which is then among the suppressed ids.
            rules = self._rules(end_token, min_length)
            rules["end_id"] = rules["end_id"] or self.tokenizer.end_id
            found = beam_search(
                self._decoder,
                ids,
                self._mask(ids),
                num_beams=beams,
                max_length=max_length,
                max_lengths=max_lengths,
                alpha=1.0,
                **rules,
            )
            return Generation(*(values[:, 0] for values in found))
        return sample(
            self._decoder,
            ids,
            self._mask(ids),
            max_length=max_length,
            max_lengths=max_lengths,
            seed=seeds,
            **self._rules(end_token, min_length),
            **settings,
        )

    def _kind(
        self,
        settings: Mapping[str, float | None],
        end_token: bool,
        min_length: int,
        beams: int | None = None,
    ) -> tuple[WritingKind, dict[str, float]]:
        ends = bool(end_token and self.ends)
        return writing_kind(self.tokenizer, ends, settings, min_length, beams)

    def _run(self, kind: WritingKind) -> CompiledFunction:
        """`(ids, room, limits, seeds, *numbers) -> tokens`, compiled."""

        def run(*inputs: Tensor) -> Tensor:
            ids, room, limits, seeds, *numbers = inputs
            given = {**dict(kind.fixed), **dict(zip(kind.numbers, numbers, strict=True))}
            found = self.continue_ids(
                ids, room, seeds, kind.ends, kind.beams, max_lengths=limits, **given
            )
            return found.tokens

        return self._compiled.get(("generate", kind), lambda: CompiledFunction(run, self.model))

    def _steps(self, kind: WritingKind, count: int) -> CompiledSteps:
        """The same in parts of `count` tokens, `(ids, room, limits, seeds, *numbers)`."""

        def make() -> CompiledSteps:
            steps = SampledSteps(self._decoder, **{**self._rules(kind.ends), **dict(kind.fixed)})

            def begin(*inputs: Tensor) -> Any:
                ids, room, limits, seeds, *more = inputs
                numbers = dict(zip(kind.numbers, more, strict=True))
                mask = self._mask(ids)
                return steps.begin(ids, mask, seeds, limits, max_length=room, numbers=numbers)

            return CompiledSteps(begin, lambda state: steps.go_on(state, count), self.model)

        return self._compiled.get(("steps", count, kind), make)


def _room(num_characters: int) -> int:
    return -(-num_characters // _ROOM) * _ROOM


def _piece_tokens(weights: int) -> int:
    return next((count for most, count in PIECES if weights <= most), 4)
