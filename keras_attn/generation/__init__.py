"""Greedy and beam search over anything that can `prefill` and `step`."""

from keras_attn.generation.compiled import CompiledFunction
from keras_attn.generation.decoders import Decoder, RecomputeDecoder
from keras_attn.generation.search import (
    Generation,
    beam_search,
    greedy_search,
    length_penalty,
)

__all__ = [
    "CompiledFunction",
    "Decoder",
    "Generation",
    "RecomputeDecoder",
    "beam_search",
    "greedy_search",
    "length_penalty",
]
