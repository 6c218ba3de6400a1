"""The page for those who come from TensorFlow Addons: its code runs, its names are there."""

import re
from pathlib import Path

import pytest

import keras_attn
from keras_attn import generation, layers, models, training

PAGE = (Path(__file__).parents[2] / "docs" / "from_tfa_seq2seq.md").read_text(encoding="utf-8")
THERE = """AttentionMechanism AttentionWrapper AttentionWrapperState BahdanauAttention
BahdanauMonotonicAttention LuongAttention LuongMonotonicAttention hardmax monotonic_attention
safe_cumprod BasicDecoder BasicDecoderOutput BeamSearchDecoder BeamSearchDecoderOutput
BeamSearchDecoderState FinalBeamSearchDecoderOutput gather_tree gather_tree_from_array tile_batch
BaseDecoder Decoder dynamic_decode SequenceLoss sequence_loss CustomSampler GreedyEmbeddingSampler
InferenceSampler SampleEmbeddingSampler Sampler ScheduledEmbeddingTrainingSampler
ScheduledOutputTrainingSampler TrainingSampler""".split()


@pytest.mark.slow
def test_the_code_runs(capsys):
    [block] = [text.split("```")[0] for text in PAGE.split("```python\n")[1:]]
    exec(block, {})
    assert capsys.readouterr().out == "(2, 1, 8) (2, 6, 5)\n"


def test_every_public_name_of_that_package_has_a_row():
    first_cells = "\n".join(line.split(" | ")[0] for line in PAGE.splitlines() if line[:2] == "| ")
    first_cells += "\n## AttentionWrapper" if "\n## AttentionWrapper\n" in PAGE else ""
    missing = [name for name in THERE if not re.search(rf"\b{name}\b", first_cells)]
    assert not missing


def test_what_it_names_is_there():
    known = {n for room in (generation, layers, models, training) for n in room.__all__}
    known |= set(dir(keras_attn))
    for name in (
        "AdditiveAttention", "AttentionDecoder", "CompiledFunction", "Generation", "LuongAttention",
        "MaskedCrossEntropy", "RecurrentEncoder", "SequenceAttention", "TokenDecoder",
        "TokenEmbedding", "attention_maps", "beam_search", "greedy_search",
        "RecurrentEncoderDecoderConfig", "sample",
    ):  # fmt: skip
        assert name in PAGE
        assert name in known
