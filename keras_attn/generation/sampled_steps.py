"""Sampling in several calls, which pass on a state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from keras import ops

from keras_attn.generation.decoders import Decoder, integer, laid_out
from keras_attn.generation.loops import check_end, is_end, prefilled
from keras_attn.generation.repetition import History
from keras_attn.generation.rules import TokenRules
from keras_attn.generation.sampling import check_sampling, chooser
from keras_attn.hints import Nest, Size, Tensor
from keras_attn.ops.masks import token_mask

State: TypeAlias = dict[str, Any]


class SampledSteps:
    """Draws the tokens of `sample` in several calls.

        state         = begin(prompt, ...)
        tokens, state = advance(state, count);  tokens, state = advance(state, count);  ...

    Together, the calls draw the same tokens as `sample` with the same settings and seeds. A state
    is a nest of batch-first tensors. Its shapes do not change, so that `CompiledSteps` compiles
    both functions only once. Numbers that are passed to `begin` as tensors are stored in the state,
    and replace the settings of the constructor, so that one compiled function works for all values.

    Args:
        decoder: Any object with `prefill` and `step`.
        end_id: Id of the token that ends a sequence, or a list of several end ids. With None,
            sequences end at their maximum length.
        pad_id: Id of the padding after the end; it may be `end_id`.
        min_length: Minimum number of new tokens, including the end token; above 0, it requires an
            `end_id`.
        suppressed_ids: Ids of tokens that are never generated.
        temperature: Divisor of the logits, above 0.
        top_k: Number of most probable tokens to keep; all if None.
        top_p: Probability of the smallest set of tokens that is kept; all if None.
        min_p: Minimum probability of a kept token, relative to the largest probability; all if
            None.
        repetition_penalty: Penalty r; above 1 makes tokens that already occurred less probable, and
            1 has no effect.
        no_repeat_ngram_size: Size of the n-grams that may not repeat; 0 allows all.
        largest_top_k: Upper limit of `top_k` if it is passed to `begin` as a tensor; without it,
            the whole vocabulary is then sorted at each step.

    Raises:
        ValueError: If `min_length` or a setting of the sampling is out of range, or `min_length` is
            given without `end_id`.

    Example:

    >>> model = RecurrentLanguageModelConfig(9, dim=4, units=8).build()
    >>> steps = SampledSteps(language_decoder(model), end_id=None)
    >>> prompt, seeds = ops.array([[1, 5]]), ops.array([7])
    >>> state = steps.begin(prompt, None, seeds, max_length=6)
    >>> first, state = steps.advance(state, 4)
    >>> second, state = steps.advance(state, 4)
    >>> results = [int(i) for i in [*first["tokens"][0], *second["tokens"][0][:2]]]
    >>> whole = sample(language_decoder(model), prompt, max_length=6, end_id=None, seed=seeds)
    >>> results == [int(i) for i in whole.tokens[0]], int(second["lengths"][0])
    (True, 2)
    """

    def __init__(
        self,
        decoder: Decoder,
        *,
        end_id: int | Sequence[int] | None,
        pad_id: int = 0,
        min_length: int = 0,
        suppressed_ids: Sequence[int] = (),
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        repetition_penalty: float = 1.0,
        no_repeat_ngram_size: int = 0,
        largest_top_k: int | None = None,
    ):
        check_sampling(temperature, top_k, top_p, min_p, repetition_penalty, no_repeat_ngram_size)
        check_end(integer("min_length", min_length, 0), end_id)
        self.decoder = decoder
        self.end_id, self.pad_id = end_id, pad_id
        self.suppressed_ids = suppressed_ids
        self.settings = {
            "temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p,
            "repetition_penalty": repetition_penalty,
            "min_length": min_length,
        }  # fmt: skip
        self.no_repeat_ngram_size = no_repeat_ngram_size
        self.largest_top_k = largest_top_k

    def begin(
        self,
        prompt: Tensor,
        prompt_mask: Tensor | None,
        seeds: Tensor,
        limits: Tensor | None = None,
        *,
        max_length: Size,
        numbers: Mapping[str, Tensor] | None = None,
    ) -> State:
        """Reads the prompts and returns the first state.

        Args:
            prompt: Ids `(B, P)`.
            prompt_mask: `(B, P)`, True for tokens, at least one per row; all if None.
            seeds: Seeds of the rows, int32 `(B,)`.
            limits: Maximum number of new tokens of each row, int32 `(B,)`, each at most
                `max_length`; `max_length` if None.
            max_length: Maximum number of new tokens.
            numbers: A dict of tensors `(B,)` that replace settings: `temperature`, `top_k` (0
                keeps all tokens), `top_p`, `min_p`, `repetition_penalty` and `min_length`.

        Returns:
            The state for `advance`, a dict that is a nest of batch-first tensors.

        Raises:
            ValueError: If `numbers` has a key that is not one of these settings, or `min_length`
                without `end_id`; if P is 0; or if prompt and new tokens exceed the decoder's
                positions.
        """
        numbers = {name: ops.convert_to_tensor(value) for name, value in (numbers or {}).items()}
        if not numbers.keys() <= self.settings.keys():
            raise ValueError(
                f"`numbers` must be among {', '.join(self.settings)}. "
                f"Received: {', '.join(numbers)}."
            )
        check_end(numbers.get("min_length", 0), self.end_id)
        # `advance` reads the last new token too: there may be more calls.
        _, logits, state, lengths = prefilled(
            self.decoder, prompt, prompt_mask, None, None, max_length, spare=1
        )
        prompt = ops.convert_to_tensor(prompt)
        past = self._history(prompt, token_mask(prompt, prompt_mask), logits, numbers)
        zeros = ops.zeros_like(lengths)
        return {
            "logits": logits,
            "decoder": state,
            "history": past.start(max_length),
            "seeds": ops.cast(seeds, "int32"),
            "prompt_lengths": lengths,
            "limits": zeros + (max_length if limits is None else ops.cast(limits, "int32")),
            "steps": zeros,
            "finished": ops.cast(zeros, "bool"),
            "numbers": numbers,
        }

    def _history(self, ids: Tensor, mask: Tensor, logits: Tensor, numbers: Mapping) -> History:
        penalty = numbers.get("repetition_penalty", self.settings["repetition_penalty"])
        return History(ids, mask, logits, penalty, self.no_repeat_ngram_size)

    def advance(self, state: State, count: int) -> tuple[dict[str, Tensor], State]:
        """Draws the next tokens of each row.

        Args:
            state: State from `begin` or the last `advance`.
            count: Maximum number of tokens to draw for each row.

        Returns:
            `(results, state)`: a dict of results, and the next state. The dict has `tokens`, int32
            `(B, count)`, padded on the right; `lengths`, int32 `(B,)`, the number of tokens that
            this call drew for each row; and `finished`, bool `(B,)`, True for rows that have an end
            token from this or an earlier call.

        Raises:
            ValueError: If one of the constructor's ids is outside the vocabulary, or
                `suppressed_ids` leave no possible token.
        """
        logits, before = state["logits"], ops.max(state["steps"])
        lengths, limits = state["prompt_lengths"], state["limits"]
        decoder = laid_out(self.decoder, logits)
        nothing = ops.expand_dims(ops.zeros_like(lengths), 1)
        settings = {**self.settings, **state["numbers"]}
        past = self._history(nothing, ops.equal(nothing, 0), logits, settings)
        rules = TokenRules(
            logits.shape[-1],
            self.end_id,
            self.pad_id,
            settings["min_length"],
            self.suppressed_ids,
            limits=limits,
            past=past,
            lengths=lengths,
        )
        filters = {name: settings[name] for name in ("temperature", "top_k", "top_p", "min_p")}
        filters["largest_top_k"] = self.largest_top_k
        choose = chooser(rules.allowed, past, state["seeds"], lengths, filters)
        slots = ops.expand_dims(ops.arange(count, dtype="int32"), 0)
        pad = ops.cast(self.pad_id, "int32")

        def is_open(step: Tensor, finished: Tensor) -> Tensor:
            return ops.logical_and(ops.logical_not(finished), before + step < limits)

        def body(
            step: Tensor,
            tokens: Tensor,
            written: Tensor,
            finished: Tensor,
            logits: Tensor,
            history: dict[str, Tensor],
            inner: Nest,
        ):
            open_ = is_open(step, finished)
            token, _, history = choose(before + step, logits, history)
            token = ops.where(open_, ops.cast(token, "int32"), pad)
            tokens = ops.where(ops.equal(slots, step), ops.expand_dims(token, 1), tokens)
            ends = ops.logical_and(open_, is_end(token, self.end_id))
            finished = ops.logical_or(finished, ends)
            written = written + ops.cast(open_, "int32")
            # Nothing follows the last token, for which there may be no position.
            places = ops.minimum(before + step, ops.maximum(limits - 2, 0))
            logits, inner = decoder.step(token, lengths + places, inner)
            return step + 1, tokens, written, finished, logits, history, inner

        def going(
            step: Tensor,
            tokens: Tensor,
            written: Tensor,
            finished: Tensor,
            logits: Tensor,
            history: dict[str, Tensor],
            inner: Nest,
        ) -> Tensor:
            return ops.logical_and(step < count, ops.any(is_open(step, finished)))

        first = ops.convert_to_tensor(0, "int32")
        start = (
            first, nothing + ops.zeros_like(slots) + pad, ops.zeros_like(lengths),
            state["finished"], logits, state["history"], state["decoder"],
        )  # fmt: skip
        step, tokens, written, finished, logits, history, inner = ops.while_loop(going, body, start)
        results = {"tokens": tokens, "lengths": written, "finished": finished}
        return results, {
            **state, "logits": logits, "decoder": inner, "history": history,
            "steps": state["steps"] + step, "finished": finished,
        }  # fmt: skip
