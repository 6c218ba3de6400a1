"""Text classifiers of architectures that the package does not have, cut behind their vectors."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.models.text_classifier import embedding_and_rest, known_kind

IDS = np.array([[3, 5, 2, 0, 0], [4, 0, 0, 0, 0], [1, 2, 3, 4, 5]], "int32")


def recurrent():
    """Its mask is that of Keras: nothing in it says where padding is but the embedding."""
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(6, 4, mask_zero=True)(ids)
    x = keras.layers.GRU(3)(keras.layers.Dropout(0.5)(x))
    return keras.Model(ids, keras.layers.Dense(2)(x))


def of_two_tables():
    ids = keras.Input((None,), dtype="int32")
    one, two = (keras.layers.Embedding(6, 4, mask_zero=zero)(ids) for zero in (True, False))
    x = keras.layers.GlobalAveragePooling1D()(keras.layers.Concatenate()([one, two]))
    return keras.Model(ids, keras.layers.Dense(2)(x))


@pytest.mark.parametrize(("make", "count"), [(recurrent, 1), (of_two_tables, 2)])
def test_both_parts_are_the_whole(make, count):
    model = make()
    assert known_kind(model) is None
    embed, rest = embedding_and_rest(model)
    vectors = embed(IDS)
    assert [tuple(x.shape) for x in vectors] == [(3, 5, 4)] * count
    ids = ops.convert_to_tensor(IDS)
    found = ops.convert_to_numpy(rest([*(ops.stop_gradient(x) for x in vectors), ids]))
    np.testing.assert_allclose(found, ops.convert_to_numpy(model(ids)), atol=1e-6)
    changed = [x * 2.0 for x in vectors]
    assert np.abs(ops.convert_to_numpy(rest([*changed, ids])) - found).max() > 1e-4


def without_vectors():
    ids = keras.Input((4,), dtype="int32")
    return keras.Model(ids, keras.layers.Dense(2)(ops.cast(ids, "float32")))


@pytest.mark.parametrize("make", [without_vectors, keras.Sequential, dict])
def test_models_without_vectors(make):
    with pytest.raises(TypeError, match=r"a layer that makes vectors \(B, S, D\) of the ids"):
        embedding_and_rest(make())
