"""Tokens, segments and positions, added, with their mask."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn import attention_maps
from keras_attn.layers import InputEmbedding, PositionalEncoding, TransformerEncoder
from keras_attn.layers.sinusoidal_initializer import SinusoidalInitializer

IDS = np.array([[3, 1, 4, 0], [5, 9, 2, 6]])
SEGMENTS = np.array([[0, 0, 1, 0], [0, 1, 1, 1]])


def layer(**settings):
    made = InputEmbedding(11, 8, num_segments=2, sequence_length=6, **settings)
    made(IDS)
    return made


def test_by_hand():
    made = layer()
    tokens = made.token_embedding.embedding.embeddings.numpy()
    segments = made.segment_embedding.embeddings.numpy()
    table = made.position_layer.embedding.embeddings.numpy()
    total = tokens[IDS] + segments[SEGMENTS] + table[:4]
    mean, deviation = total.mean(-1, keepdims=True), total.std(-1, keepdims=True)
    output = made(IDS, SEGMENTS)
    np.testing.assert_allclose(output, (total - mean) / np.sqrt(deviation**2 + 1e-12), atol=1e-4)
    np.testing.assert_array_equal(output._keras_mask, IDS != 0)
    np.testing.assert_allclose(made(IDS), made(IDS, np.zeros_like(SEGMENTS)), atol=1e-6)
    places = np.array([[2, 3, 4, 5]])
    plain = layer(normalize=False)
    plain.set_weights(made.get_weights()[:3])
    expected = tokens[IDS] + segments[SEGMENTS] + table[places]
    np.testing.assert_allclose(plain(IDS, SEGMENTS, positions=places), expected, atol=1e-6)
    x = np.random.default_rng(0).normal(size=(2, 3, 8)).astype("float32")
    np.testing.assert_allclose(made(x, reverse=True), x @ tokens.T, atol=1e-5)


def test_positions_may_begin_as_sinusoids():
    made = layer(positions_initializer=SinusoidalInitializer(0.05))
    table = made.position_layer.embedding.embeddings
    expected = PositionalEncoding()(np.zeros((1, 6, 8), "float32"))[0]
    np.testing.assert_allclose(table, 0.05 * 2**0.5 * expected, atol=1e-7)
    assert table.trainable
    again = InputEmbedding.from_config(made.get_config())
    again(IDS)
    np.testing.assert_array_equal(again.position_layer.embedding.embeddings, table)
    assert np.std(made.token_embedding.embedding.embeddings) < 0.03  # as without
    with pytest.raises(ValueError, match=r"above 0. Received: 0"):
        SinusoidalInitializer(0)


def test_an_explicit_mask_wins_and_dropout_is_of_training():
    mask = np.array([[1, 1, 0, 0], [1, 1, 1, 1]], bool)
    made = layer(dropout=0.5, seed=1)
    np.testing.assert_array_equal(made(IDS, mask=mask)._keras_mask, mask)
    np.testing.assert_array_equal(made(made(IDS), reverse=True, mask=mask)._keras_mask, mask)
    np.testing.assert_array_equal(made(IDS, training=False), made(IDS))
    dropped = (made(IDS, training=True).numpy() == 0).mean()
    assert 0.2 < dropped < 0.8


def test_the_mask_reaches_what_reads_it():
    ids, segments = keras.Input((None,), dtype="int32"), keras.Input((None,), dtype="int32")
    x = InputEmbedding(11, 8, num_segments=2)(ids, segments)
    model = keras.Model([ids, segments], TransformerEncoder(1, 2, intermediate_dim=12)(x))
    (maps,) = attention_maps(model, [IDS, SEGMENTS]).values()
    assert (np.asarray(maps)[0, ..., 3] == 0).all()
    # What people write in its place is refused.
    tokens = keras.layers.Embedding(11, 8, mask_zero=True)(ids)
    total = keras.layers.Add()([tokens, keras.layers.Embedding(2, 8)(segments)])
    with pytest.raises(ValueError, match=r"`x` has lost its mask: the input of 'add.*padding_mask"):
        TransformerEncoder(1, 2, intermediate_dim=12)(total)


def test_errors():
    made = InputEmbedding(11, 8, positions=None)
    for call, words in [
        (lambda: made(IDS, SEGMENTS), r"no segments.*\(2, 4\).*`num_segments`"),
        (lambda: made(IDS, positions=np.arange(4)), 'no positions.*"learned"'),
        (lambda: layer()(np.ones((2, 7), int)), r"at most 6 tokens.*\(2, 7\)"),
        (lambda: layer()(IDS, SEGMENTS[:, :3]), r"`segment_ids`.*\(2, 3\)"),
        (lambda: InputEmbedding(11, 8, positions="rotary"), "'learned', 'sinusoidal'.*'rotary'"),
        (lambda: InputEmbedding(11, 8, num_segments=0), "positive integer.*0"),
    ]:
        with pytest.raises(ValueError, match=words):
            call()
    for wrong in (np.array([[-1]]), np.array([[11]])):
        with pytest.raises(tf.errors.InvalidArgumentError):
            made(wrong)
