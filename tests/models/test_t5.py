"""T5: its start, padding, decoding step by step, first weights and saving."""

import keras
import numpy as np
import pytest
from model_toys import batch, compiled, numpy, randomize

from keras_attn.models import SequenceDecoder, T5Config, packed_transformer

CONFIG = T5Config(
    11, dim=8, num_layers=2, num_heads=2, intermediate_dim=12, key_dim=3, num_decoder_layers=1,
    num_buckets=4, max_distance=5,
)  # fmt: skip


def started(start):
    """Ids whose targets begin with a token."""
    ids = batch()
    ids["target_ids"][:, 0] = start
    return ids


@pytest.mark.slow
def test_padding_and_steps_change_nothing_and_the_start_is_seen(tmp_path):
    """The start has the id of padding: it counts as a token, in a model and in a search."""
    model = randomize(CONFIG.build())
    forward, ids = compiled(model), started(0)
    logits = numpy(forward(ids))
    real = np.arange(4) < np.maximum((ids["target_ids"] != 0).sum(1) + 1, 1)[:, None]
    padded = {name: np.pad(value, [[0, 0], [0, 3]]) for name, value in ids.items()}
    np.testing.assert_allclose(numpy(forward(padded))[:, :4][real], logits[real], atol=1e-5)
    other = numpy(forward(started(7)))
    assert np.abs(other - logits)[0].max(axis=1).min() > 1e-3  # at each place behind it too

    parts = SequenceDecoder(model)
    memory = parts.encode(keras.ops.convert_to_tensor(ids["source_ids"]))
    found, state = parts.decoder.prefill(ids["target_ids"][:, :1], None, *memory, max_length=4)
    for place in range(4):
        np.testing.assert_allclose(numpy(found)[0], logits[0, place], atol=1e-5)
        if place < 3:
            tokens = keras.ops.convert_to_tensor(ids["target_ids"][:, place + 1])
            places = keras.ops.zeros_like(tokens) + place + 1
            found, state = parts.decoder.step(tokens, places, state)
    model.save(tmp_path / "t5.keras")
    again = keras.saving.load_model(tmp_path / "t5.keras")
    np.testing.assert_allclose(numpy(again(ids)), logits, atol=1e-6)


@pytest.mark.slow
def test_several_pairs_in_a_row():
    model = randomize(CONFIG.build())
    rows = {"source_ids": [[5, 6, 2, 7, 2]], "target_ids": [[0, 8, 0, 9, 0]]}
    rows |= {"source_segments": [[1, 1, 1, 2, 2]], "target_segments": [[1, 1, 2, 2, 0]]}
    packed = packed_transformer(model)({name: np.array(row) for name, row in rows.items()})
    for source, target, place in (([5, 6, 2], [0, 8], 0), ([7, 2], [0, 9], 2)):
        alone = model({"source_ids": np.array([source]), "target_ids": np.array([target])})
        np.testing.assert_allclose(numpy(packed)[0, place : place + 2], numpy(alone)[0], atol=1e-5)


@pytest.mark.slow
def test_first_weights():
    """Products of queries and keys, which are not scaled, and logits have about deviation 1."""
    keras.utils.set_random_seed(0)
    model = T5Config(40, dim=64, num_layers=1, num_heads=2, key_dim=16).build()
    attention = model.get_layer("decoder").blocks[0].cross_attention
    query, key = (numpy(dense.kernel) for dense in (attention.query_dense, attention.key_dense))
    assert query.std() == pytest.approx((64 * 16) ** -0.5, rel=0.1)
    assert key.std() == pytest.approx(64**-0.5, rel=0.1)
    assert 0.5 < numpy(model(started(0))).std() < 2
    with pytest.raises(ValueError, match="`dim` must be divisible by `num_heads`"):
        T5Config(40, dim=9, num_heads=2)
    assert T5Config(40, dim=9, num_heads=2, key_dim=4).key_dim == 4
