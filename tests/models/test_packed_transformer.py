"""Rows of several pairs: the losses and gradients of rows of their own."""

from pathlib import Path

import keras
import numpy as np
import pytest
from packed_script import CASES, everything, pairs
from processes import answer

from keras_attn.batches import PackedBatches
from keras_attn.layers import DecoderBlock
from keras_attn.models import (
    RecurrentEncoderDecoderConfig,
    TransformerEncoderDecoderConfig,
    packed_transformer,
)
from keras_attn.ops import segment_mask, segment_positions


def check(found, cases):
    assert set(found) == set(cases)
    for name, difference in found.items():
        assert difference["loss"] < 4e-6, name  # some eight units of the last place
        assert difference["size"] > 0.05, name
        assert difference["gradient"] < 2e-6, name


@pytest.mark.slow
def test_same_loss_and_gradients():
    cases = set(CASES) - {"causal encoder"}  # which PyTorch tries below
    check(everything(cases), cases)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "cases"),
    [
        ("jax", ["encoder-decoder"]),  # which compiles for seconds
        ("torch", ["encoder-decoder", "causal encoder"]),
        pytest.param("jax", CASES, marks=pytest.mark.slow),
        pytest.param("torch", CASES, marks=pytest.mark.slow),
    ],
    ids=["jax", "torch", "jax, all", "torch, all"],
)
def test_same_loss_and_gradients_elsewhere(backend, cases):
    script = Path(__file__).parent / "packed_script.py"
    check(answer(backend, script, *cases), cases)


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    return TransformerEncoderDecoderConfig(
        40, num_layers=1, dim=16, num_heads=2, intermediate_dim=32
    ).build()


@pytest.mark.slow
def test_nothing_leaks_from_one_pair_to_another(model):
    """Exactly nothing: other ids of one pair, and the logits of all others are what they were."""
    packed = packed_transformer(model)
    inputs, _, _ = PackedBatches(*pairs(), start_id=1, end_id=2, tokens_per_row=30)[0]
    before = keras.ops.convert_to_numpy(packed(inputs))
    for side in ("source", "target"):
        of_second = inputs[f"{side}_segments"] == 2
        ids = np.where(of_second, 3, inputs[f"{side}_ids"])
        after = keras.ops.convert_to_numpy(packed({**inputs, f"{side}_ids": ids}))
        changed = (before != after).any(axis=-1)
        second = inputs["target_segments"] == 2
        assert changed[second].mean() > 0.9
        assert not changed[~second].any()


@pytest.mark.slow
def test_it_is_the_same_weights_and_can_be_saved(model, tmp_path):
    packed = packed_transformer(model)
    assert {id(v) for v in packed.variables} == {id(v) for v in model.variables}
    inputs, _, _ = PackedBatches(*pairs(), start_id=1, end_id=2, tokens_per_row=30)[0]
    packed.save(tmp_path / "packed.keras")
    again = keras.saving.load_model(tmp_path / "packed.keras")
    np.testing.assert_allclose(again(inputs), packed(inputs), atol=1e-6)
    model.save(tmp_path / "model.keras")
    alone = keras.saving.load_model(tmp_path / "model.keras")
    ids = {"source_ids": np.array([[5, 6, 2]]), "target_ids": np.array([[1, 7]])}
    np.testing.assert_allclose(alone(ids), model(ids), atol=1e-6)


@pytest.mark.slow
def test_a_recurrent_model_is_refused():
    config = RecurrentEncoderDecoderConfig(40, dim=8, units=8)
    with pytest.raises(ValueError, match=r"`T5Config`, .* carries its state from one pair to the"):
        packed_transformer(config.build())


def test_a_mask_of_the_memory_needs_a_memory():
    block = DecoderBlock(2, intermediate_dim=16)
    with pytest.raises(ValueError, match=r"`cross_attention_mask` of shape .* but no `memory`"):
        block(np.ones((1, 2, 8), "float32"), cross_attention_mask=np.ones((1, 2, 3), "bool"))


def test_segments_by_hand():
    segments, keys = np.array([[1, 1, 2, 0]]), np.array([[2, 1, 0]])
    own = [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
    assert np.array_equal(segment_mask(segments)[0], own)
    cross = [[0, 1, 0], [0, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert np.array_equal(segment_mask(segments, keys)[0], cross)
    assert segment_positions(
        np.array([[1, 1, 2, 2, 2, 0], [3, 5, 5, 0, 0, 0]])
    ).numpy().tolist() == [
        [0, 1, 0, 1, 2, 0],
        [0, 0, 1, 0, 1, 2],
    ]
