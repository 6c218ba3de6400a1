"""Resizing and scaling, against TensorFlow's and Keras' own."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_attn.layers import ImagePreprocessing

PICTURES = np.random.default_rng(0).integers(0, 256, (2, 11, 7, 3)).astype("uint8")


def numpy(x):
    return ops.convert_to_numpy(x)


@pytest.mark.parametrize("size", [(4, 3), (5, 20), (22, 14), (11, 3), (1, 1)])
def test_resizing_is_that_of_tensorflow(size):
    expected = tf.image.resize(PICTURES, size, antialias=True)
    ours = numpy(ImagePreprocessing(size)(PICTURES))
    np.testing.assert_allclose(ours, expected, atol=1e-3)


def test_the_same_size_is_left_as_it_is():
    layer = ImagePreprocessing((11, 7))
    np.testing.assert_array_equal(numpy(layer(PICTURES)), PICTURES)
    model = keras.Sequential([keras.Input((None, None, 3)), layer])
    np.testing.assert_array_equal(model.predict(PICTURES, verbose=0), PICTURES)


@pytest.mark.parametrize("scaling", ["tf", "torch", "caffe"])
def test_scalings_are_those_of_keras(scaling):
    expected = keras.applications.imagenet_utils.preprocess_input(
        PICTURES.astype("float32"), mode=scaling
    )
    ours = numpy(ImagePreprocessing((11, 7), scaling=scaling)(PICTURES))
    np.testing.assert_allclose(ours, expected, atol=1e-4)


@pytest.mark.slow
def test_integers_and_floats_of_any_size_in_one_graph():
    layer = ImagePreprocessing((5, 4), scaling="torch")
    signature = tf.TensorSpec((None, None, None, 3))
    for jit_compile in (False, True):
        compiled = tf.function(layer.__call__, input_signature=[signature], jit_compile=jit_compile)
        for pictures in (PICTURES, PICTURES[:1, :3, :, :], PICTURES[:, :, :4]):
            expected = numpy(layer(pictures))
            floats = tf.constant(pictures, tf.float32)
            np.testing.assert_allclose(compiled(floats), expected, atol=1e-4)
    assert compiled(np.zeros((0, 9, 9, 3), "float32")).shape == (0, 5, 4, 3)


def test_half_precision_begins_after_the_scaling():
    layer = ImagePreprocessing((4, 4), scaling="tf", dtype="mixed_bfloat16")
    exact = numpy(ImagePreprocessing((4, 4), scaling="tf")(PICTURES))
    ours = layer(PICTURES.astype("float32"))
    assert ours.dtype == tf.bfloat16
    np.testing.assert_array_equal(
        numpy(tf.cast(ours, "float32")), tf.cast(tf.cast(exact, "bfloat16"), "float32")
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ImagePreprocessing(0), "`image_size` of ImagePreprocessing.*0"),
        (lambda: ImagePreprocessing((2, 3, 4)), r"rows, columns.*\(2, 3, 4\)"),
        (lambda: ImagePreprocessing("ab"), "rows, columns.*'ab'"),
        (lambda: ImagePreprocessing((2, 2.5)), r"2\.5"),
        (lambda: ImagePreprocessing(4, scaling="imagenet"), "`scaling`.*'caffe'.*'imagenet'"),
        (lambda: ImagePreprocessing(4)(PICTURES[0]), r"\(B, H, W, 3\).*\(11, 7, 3\)"),
        (lambda: ImagePreprocessing(4)(keras.Input((4, 4, 1))), r"\(None, 4, 4, 1\)"),
    ],
)
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()
