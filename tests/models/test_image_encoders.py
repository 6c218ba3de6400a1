"""Encoders of pictures: regions, grids, saving, and networks that were there before."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from model_toys import compile_for

from keras_attn import attention_maps
from keras_attn.corpora import DownloadError
from keras_attn.layers import ImagePreprocessing
from keras_attn.models import (
    ImageEncoder,
    applications_encoder,
    encoder_from_model,
    patch_encoder,
    small_cnn_encoder,
)
from keras_attn.models.image_encoders import APPLICATIONS

PICTURES = np.random.default_rng(0).integers(0, 256, (3, 13, 10, 3)).astype("uint8")


def own_model(size=8):
    x = images = keras.Input((size, size, 3))
    for i in range(2):
        x = keras.layers.Conv2D(4, 3, 2, padding="same", activation="relu", name=f"map_{i}")(x)
    return keras.Model(images, keras.layers.GlobalAveragePooling2D(name="pool")(x))


ENCODERS = {
    "cnn": lambda **kwargs: small_cnn_encoder(
        (16, 8), (4, 6), "cbam", reduction=2, kernel_size=3, **kwargs
    ),
    "patches": lambda **kwargs: patch_encoder(
        (16, 8), 4, num_layers=1, dim=6, num_heads=2, intermediate_dim=8, **kwargs
    ),
    "own": lambda: encoder_from_model(own_model(), "map_1", preprocess="tf"),
}
GRIDS = {"cnn": ((4, 2), 6), "patches": ((4, 2), 6), "own": ((2, 2), 4)}


@pytest.mark.quick("patches")
@pytest.mark.parametrize("name", ENCODERS)
def test_the_interface(name, tmp_path):
    encoder = ENCODERS[name]()
    (rows, columns), width = GRIDS[name]
    assert (encoder.grid, encoder.region_dim) == GRIDS[name]
    assert encoder.num_regions == rows * columns
    assert encoder.output_shape == (None, rows * columns, width)
    assert encoder.image_size == ((8, 8) if name == "own" else (16, 8))
    assert isinstance(encoder.preprocess, ImagePreprocessing)
    expected = encoder.predict(PICTURES, verbose=0)
    assert expected.shape == (3, rows * columns, width)
    assert np.abs(expected[0] - expected[1]).max() > 1e-3
    floats = PICTURES.astype("float32")
    for pictures in (floats, keras.ops.convert_to_tensor(floats), PICTURES):
        np.testing.assert_allclose(np.asarray(encoder(pictures)), expected, atol=1e-5)
    assert encoder.predict(np.zeros((2, 40, 3, 3), "uint8"), verbose=0).shape[0] == 2
    # Saved and loaded it is one of ours still.
    encoder.save(tmp_path / "encoder.keras")
    loaded = keras.models.load_model(tmp_path / "encoder.keras", safe_mode=True)
    assert type(loaded) is ImageEncoder
    assert (loaded.grid, loaded.image_size) == (encoder.grid, encoder.image_size)
    np.testing.assert_allclose(np.asarray(loaded(PICTURES)), expected, atol=1e-5)
    assert loaded.fingerprint() == json.loads(json.dumps(encoder.fingerprint()))
    clone = keras.models.clone_model(encoder)
    assert (type(clone), clone.grid) == (ImageEncoder, encoder.grid)


@pytest.mark.slow
def test_a_saved_model_takes_pictures_of_any_size(tmp_path):
    encoder = ENCODERS["cnn"]()
    encoder.export(tmp_path / "exported", verbose=False)
    served = tf.saved_model.load(tmp_path / "exported")
    for pictures in (PICTURES, PICTURES[:1, :5]):
        np.testing.assert_allclose(
            served.serve(pictures.astype("float32")), np.asarray(encoder(pictures)), atol=1e-5
        )


def test_a_fingerprint_knows_weights_sizes_and_scaling():
    model = own_model()
    prints = [
        encoder_from_model(model, "map_1", preprocess="tf").fingerprint(),
        encoder_from_model(model, "map_1", preprocess="torch").fingerprint(),
        encoder_from_model(model, "map_0", preprocess="tf").fingerprint(),
        encoder_from_model(own_model(16), "map_1", preprocess="tf").fingerprint(),
    ]
    again = encoder_from_model(model, "map_1", preprocess="tf").fingerprint()
    assert again == prints[0]
    model.get_layer("map_1").bias.assign([0, 0, 0, 1e-7])
    prints.append(encoder_from_model(model, "map_1", preprocess="tf").fingerprint())
    assert len({json.dumps(p) for p in prints}) == 5


def test_regions_lie_in_rows():
    """The network averages blocks of 2 x 2 pixels."""
    images = keras.Input((4, 6, 3))
    model = keras.Model(images, keras.layers.AveragePooling2D(2)(images))
    encoder = encoder_from_model(model)
    pictures = np.random.default_rng(0).integers(0, 256, (1, 4, 6, 3)).astype("uint8")
    regions = encoder.predict(pictures, verbose=0)
    assert encoder.grid == (2, 3)
    expected = [pictures[0, 2:4, 2:4].mean((0, 1)), pictures[0, :2, 4:].mean((0, 1))]
    np.testing.assert_allclose(regions[0, [1 * 3 + 1, 0 * 3 + 2]], expected, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cnn", "patches"])
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_dtypes(name, policy):
    keras.utils.set_random_seed(0)
    exact = ENCODERS[name]()
    encoder = ENCODERS[name](dtype=policy)
    encoder.set_weights(exact.get_weights())
    regions = encoder(PICTURES)
    assert keras.backend.standardize_dtype(regions.dtype) == policy.removeprefix("mixed_")
    difference = np.asarray(keras.ops.cast(regions, "float32")) - np.asarray(exact(PICTURES))
    assert np.abs(difference).max() < 0.1
    assert all(weight.dtype == "float32" for weight in encoder.trainable_weights)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cnn", pytest.param("patches", marks=pytest.mark.slow)])
def test_it_learns_where_something_is(name):
    """Whether a region is red or blue."""
    rng = np.random.default_rng(0)
    encoder = ENCODERS[name]()
    (rows, columns), _ = GRIDS[name]
    red = rng.integers(0, 2, (32, rows, columns))
    colors = np.array([[0, 0, 255], [255, 0, 0]], "uint8")[red]
    pictures = colors.repeat(4, axis=1).repeat(4, axis=2)
    model = keras.Sequential([encoder, keras.layers.Dense(1)])
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    compile_for(model, keras.optimizers.Adam(0.02), loss)
    model.fit(pictures, red.reshape(32, -1, 1), epochs=20, batch_size=16, verbose=0)
    logits = model.predict(pictures, verbose=0)[..., 0]
    assert ((logits > 0) == red.reshape(32, -1)).mean() > 0.85


# 4 -> 2 -> 4 with biases; 7 x 7 of two maps.
@pytest.mark.parametrize(
    ("attention", "kind", "weights"),
    [
        ("channel", "ChannelAttention", 22),
        ("spatial", "SpatialAttention", 98),
        ("cbam", "CBAM", 120),
    ],
)
def test_attention_of_the_cnn(attention, kind, weights):
    reduction = None if attention == "spatial" else 2
    plain = small_cnn_encoder(8, (4,))
    encoder = small_cnn_encoder(8, (4,), attention, reduction=reduction)
    assert encoder.count_params() - plain.count_params() == weights
    names = [type(layer).__name__ for layer in encoder.layers]
    assert names[names.index("Add") - 1] == kind  # on the branch, before the addition


def test_maps_of_patches():
    maps = attention_maps(ENCODERS["patches"](), PICTURES)
    assert [(key.role, tuple(w.shape)) for key, w in maps.items()] == [("self", (3, 2, 8, 8))]


@pytest.mark.slow
def test_own_preprocessing_and_shared_weights():
    model = own_model()
    grey = keras.layers.Lambda(lambda x: 255 - x)
    inverted = encoder_from_model(model, "map_1", preprocess=grey)
    plain = encoder_from_model(model, "map_1")
    np.testing.assert_allclose(
        inverted.predict(PICTURES, verbose=0), plain.predict(255 - PICTURES, verbose=0), atol=1e-3
    )
    before = plain.predict(PICTURES, verbose=0)
    model.get_layer("map_0").bias.assign([50.0] * 4)
    assert np.abs(plain.predict(PICTURES, verbose=0) - before).max() > 1


@pytest.mark.parametrize("functional", [True, False])
def test_a_nested_network(functional):
    """As in transfer learning: a backbone is one layer of the model."""
    images = keras.Input((8, 8, 3))
    if functional:
        backbone = keras.Model(images, keras.layers.Conv2D(5, 2, 2)(images), name="backbone")
    else:
        convolution = keras.layers.Conv2D(5, 2, 2)
        backbone = keras.Sequential([keras.Input((8, 8, 3)), convolution], name="backbone")
    images = keras.Input((8, 8, 3))
    features = backbone(keras.layers.Rescaling(1 / 255)(images))
    pooled = keras.layers.GlobalAveragePooling2D()(features)
    model = keras.Model(images, keras.layers.Dense(2)(pooled))
    encoder = encoder_from_model(model, "backbone")
    pictures = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3)).astype("uint8")
    expected = np.asarray(backbone(pictures / np.float32(255))).reshape(2, 16, 5)
    np.testing.assert_allclose(encoder.predict(pictures, verbose=0), expected, atol=1e-5)


def test_a_model_without_a_fixed_size():
    model = keras.Sequential([keras.Input((None, None, 3)), keras.layers.Conv2D(2, 3)])
    with pytest.raises(ValueError, match=r"`image_size`.*without a fixed.*\(None, None, None, 3\)"):
        encoder_from_model(model)
    assert encoder_from_model(model, image_size=(6, 9)).grid == (4, 7)


def called_twice():
    images = keras.Input((8, 8, 3))
    layer = keras.layers.Conv2D(3, 3, name="twice")
    encoder_from_model(keras.Model(images, layer(layer(images))), "twice")


def channels_first():
    keras.config.set_image_data_format("channels_first")
    try:
        patch_encoder(8, 4)
    finally:
        keras.config.set_image_data_format("channels_last")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (called_twice, r"one feature map.*'twice' of shape \(None, ., ., 3\), \(None, ., ., 3\)"),
        (channels_first, "patch_encoder requires.*channels last.*'channels_first'"),
        (lambda: small_cnn_encoder(attention="self"), "`attention`.*'cbam'.*'self'"),
        (lambda: small_cnn_encoder(filters=()), r"`filters`.*\(\)"),
        (lambda: small_cnn_encoder(filters=(8, 0)), "`filters`.*0"),
        (lambda: small_cnn_encoder(dropout=1.0), r"`dropout`.*1\.0"),
        (lambda: small_cnn_encoder(reduction=4), "`reduction`.*'channel' or 'cbam'.*None"),
        (
            lambda: small_cnn_encoder(attention="channel", kernel_size=3),
            "`kernel_size`.*'spatial' or 'cbam'.*kernel_size=3 with attention='channel'",
        ),
        (lambda: small_cnn_encoder(8, (8,), "cbam"), "reduction=16, 8 channels"),
        (lambda: patch_encoder((16, 20), 8), r"divisible.*\(16, 20\), patch_size=8"),
        (
            lambda: patch_encoder(16, 8, dim=10),
            "divisible by the number of heads. Received: width 10 and 4 heads",
        ),
        (lambda: patch_encoder(16, 8, dropout=-0.1), "`dropout`"),
        (lambda: encoder_from_model(own_model()), r"map_0, map_1.*output of shape \(None, 4\)"),
        (lambda: encoder_from_model(own_model(), "pool"), r"'pool' of shape \(None, 4\)"),
        (lambda: encoder_from_model(own_model(), "map"), "must be one of map_0, map_1.*'map'"),
        (lambda: encoder_from_model(own_model(), "map_1", "vgg"), "`scaling`.*'vgg'"),
        (lambda: encoder_from_model(keras.Sequential()), "functional or built Sequential"),
        (lambda: applications_encoder("vgg"), "`name`.*vgg16, vgg19.*'vgg'.*encoder_from_model"),
        (lambda: applications_encoder(weights="no.h5"), "'imagenet', None or a file.*'no.h5'"),
    ],
)
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# --- keras.applications


def test_names_are_those_of_keras():
    for function, *_ in APPLICATIONS.values():
        assert callable(getattr(keras.applications, function))


@pytest.mark.slow
def test_vgg16_is_that_of_keras():
    """Cut at its last convolution."""
    encoder = applications_encoder("vgg16", weights=None, image_size=32)
    assert (encoder.grid, encoder.region_dim) == ((2, 2), 512)
    assert encoder.preprocess.scaling == "caffe"
    network = encoder.get_layer("network")
    pixels = np.random.default_rng(0).uniform(0, 255, (1, 32, 32, 3))
    scaled = keras.applications.vgg16.preprocess_input(pixels.copy())
    expected = np.asarray(network(scaled)).reshape(1, 4, 512)
    np.testing.assert_allclose(np.asarray(encoder(pixels)), expected, rtol=1e-4, atol=1e-5)


def fake_vgg(calls):
    def make(**arguments):
        calls.append(arguments)
        images = keras.Input(arguments["input_shape"])
        x = keras.layers.Conv2D(5, 3, 4, padding="same", name="block5_conv3")(images)
        return keras.Model(images, keras.layers.MaxPooling2D(2)(x))

    return make


def test_what_keras_is_asked_for(monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr(keras.applications, "VGG16", fake_vgg(calls))
    assert applications_encoder().grid == (56, 56)
    assert calls.pop() == {
        "weights": "imagenet",
        "include_top": False,
        "input_shape": (224, 224, 3),
    }
    file = tmp_path / "vgg.weights.h5"
    file.touch()
    applications_encoder("vgg16", weights=file, image_size=(16, 24))
    assert calls.pop() == {"weights": str(file), "include_top": False, "input_shape": (16, 24, 3)}


def test_weights_that_cannot_be_downloaded(monkeypatch):
    def fails(message):
        def make(**arguments):
            raise Exception(message)

        return make

    monkeypatch.setattr(
        keras.applications, "VGG16", fails("URL fetch failure on https://x: 404 -- Not Found")
    )
    with pytest.raises(DownloadError, match=r"404 -- Not Found.*weights=.*weights=None"):
        applications_encoder()
    monkeypatch.setattr(keras.applications, "VGG16", fails("something else"))
    with pytest.raises(Exception, match=r"^something else$"):
        applications_encoder()


def test_another_layer_or_preprocessing_is_another_fingerprint():
    inputs = keras.Input((8, 8, 3))
    x = keras.layers.Conv2D(4, 3, name="map")(inputs)
    base = keras.Model(inputs, keras.layers.ReLU(name="positive")(x))
    found = [
        encoder_from_model(base, "map").fingerprint(),
        encoder_from_model(base, "positive").fingerprint(),
        encoder_from_model(base, "map", keras.layers.Rescaling(1 / 255)).fingerprint(),
        encoder_from_model(base, "map", keras.layers.Rescaling(1 / 127.5, -1)).fingerprint(),
    ]
    assert len({of_it["layers"] for of_it in found}) == 4
    assert len({of_it["weights"] for of_it in found}) == 1
    again = encoder_from_model(base, "map", keras.layers.Rescaling(1 / 255)).fingerprint()
    assert again == found[2]  # names that Keras counts up do not matter


def test_cells_of_the_small_cnn_are_in_the_middle_of_what_they_see():
    encoder = small_cnn_encoder(32, filters=(4, 4))
    image = np.random.default_rng(0).integers(0, 256, (1, 32, 32, 3)).astype("float32")
    found = keras.ops.convert_to_numpy(encoder(image)).reshape(8, 8, 4)
    kernels = [np.flip(w, (0, 1)) if w.ndim == 4 else w for w in encoder.get_weights()]
    encoder.set_weights(kernels)  # the network as in a mirror, of the picture in a mirror
    mirrored = keras.ops.convert_to_numpy(encoder(image[:, ::-1, ::-1])).reshape(8, 8, 4)
    np.testing.assert_allclose(mirrored[::-1, ::-1], found, atol=1e-5)
