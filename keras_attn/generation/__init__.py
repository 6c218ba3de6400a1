"""Greedy search, beam search and sampling with any decoder that implements `prefill` and `step`."""

from keras_attn.generation.compiled import CompiledFunction
from keras_attn.generation.compiled_steps import CompiledSteps
from keras_attn.generation.decoders import Decoder, RecomputeDecoder
from keras_attn.generation.keeper import Keeper
from keras_attn.generation.loops import Generation
from keras_attn.generation.noise import prompt_seeds, row_seeds, uniform_noise
from keras_attn.generation.ranking import length_penalty
from keras_attn.generation.recent import Recent
from keras_attn.generation.sampled_steps import SampledSteps
from keras_attn.generation.sampling import sample
from keras_attn.generation.search import beam_search, greedy_search
from keras_attn.generation.text_writer import Ending, NBestTexts, TextWriter, Writing
from keras_attn.generation.window_decoder import WindowDecoder

__all__ = [
    "CompiledFunction",
    "CompiledSteps",
    "Decoder",
    "Ending",
    "Generation",
    "Keeper",
    "NBestTexts",
    "Recent",
    "RecomputeDecoder",
    "SampledSteps",
    "TextWriter",
    "WindowDecoder",
    "Writing",
    "beam_search",
    "greedy_search",
    "length_penalty",
    "prompt_seeds",
    "row_seeds",
    "sample",
    "uniform_noise",
]
