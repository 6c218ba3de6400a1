"""Batches of captioned pictures: the right picture with each caption, once; order; resuming."""

import hashlib
import os
import tracemalloc
from pathlib import Path

import keras
import numpy as np
import pytest
from PIL import Image
from processes import run_python

from keras_attn.batches import CachedRegions, CaptionBatches, EpochOrder, PictureFiles
from keras_attn.images import FeatureCache
from keras_attn.training import TrainingCheckpoint, fit_resumable, seed_everything

HERE = Path(__file__).parent
START, END = 1, 2
VOCABULARY = 300


class Numbered:
    """Pictures that are their numbers."""

    def __init__(self, count, shape=(2, 3)):
        self.count, self.shape, self.asked = count, shape, []

    def __len__(self):
        return self.count

    def read(self, numbers):
        self.asked.append(len(numbers))
        return np.stack([np.full(self.shape, number, "float32") for number in numbers])


def captions(pictures=40, each=5, longest=17, seed=0):
    """Numbers and ids of captions; the first two ids name the picture and the caption."""
    rng = np.random.default_rng(seed)
    numbers, ids = [], []
    for picture in range(pictures):
        for caption in range(each):
            rest = rng.integers(10, 200, rng.integers(0, longest - 2))
            numbers.append(picture)
            ids.append([200 + picture, 3 + caption, *rest.tolist()])
    return numbers, ids


def make(data, pictures=None, **kwargs):
    kwargs = {"batch_size": 16, **kwargs}
    pictures = Numbered(1 + max(data[0])) if pictures is None else pictures
    return CaptionBatches(pictures, *data, start_id=START, end_id=END, **kwargs)


def rows(batches, name="regions"):
    """(number of the picture, decoder input, labels) of every row that counts."""
    found = []
    for inputs, labels, weight in batches:
        assert inputs["target_ids"].dtype == labels.dtype == "int32"
        assert weight.dtype == "float32"
        np.testing.assert_array_equal(weight, labels != 0)
        for picture, t, y, w in zip(
            inputs[name], inputs["target_ids"], labels, weight, strict=True
        ):
            assert (picture == picture.flat[0]).all()
            if w.any():
                found.append((int(picture.flat[0]), t[t != 0].tolist(), y[y != 0].tolist()))
    return found


@pytest.fixture(scope="module")
def data():
    return captions()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """40 pictures of 8 x 6, each of one grey: its number."""
    folder = tmp_path_factory.mktemp("pictures")
    paths = [folder / f"{number}.png" for number in range(40)]
    for number, path in enumerate(paths):
        Image.new("L", (8, 6), number).save(path)
    return paths


def fill_cache(folder, paths, regions=4, width=3, **kwargs):
    def encode(images):
        values = images[:, 0, 0, 0].astype("float32")
        return np.tile(values[:, None, None], (1, regions, width))

    cache = FeatureCache(folder, {"encoder": "grey"}, **kwargs)
    cache.fill(paths, encode, image_size=4, verbose=0)
    return cache


def test_layout_of_a_batch():
    batches = make(([1, 0, 1], [[8, 9, 10], [7], []]), shuffle=False)
    ((inputs, labels, weight),) = list(batches)
    assert list(inputs) == ["regions", "target_ids"]
    assert inputs["regions"].tolist() == [[[n] * 3] * 2 for n in (1, 0, 1)]
    assert inputs["target_ids"].tolist() == [[1, 8, 9, 10], [1, 7, 0, 0], [1, 0, 0, 0]]
    assert labels.tolist() == [[8, 9, 10, 2], [7, 2, 0, 0], [2, 0, 0, 0]]
    assert weight.tolist() == [[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]]
    assert batches.shapes == [(3, 4)]
    assert (batches.num_examples, batches.dropped) == (3, 0)
    assert batches.padded_share == pytest.approx(1 - 7 / 12)


@pytest.mark.parametrize("kwargs", [{}, {"rows_multiple_of": 6}, {"shuffle": False}])
def test_every_caption_once_an_epoch_with_its_picture(data, kwargs):
    expected = sorted((n, [START, *i], [*i, END]) for n, i in zip(*data, strict=True))
    batches = make(data, **kwargs)
    orders = []
    for epoch in range(3):
        batches.set_epoch(epoch)
        found = rows(batches)
        assert sorted(found) == expected
        orders.append(found)
    assert (orders[0] != orders[1]) == (orders[1] != orders[2]) == kwargs.get("shuffle", True)


def test_few_shapes_of_at_most_so_many_rows(data):
    for kwargs in ({}, {"max_shapes": 2}, {"rows_multiple_of": 8}, {"batch_size": 7}):
        batches = make(data, **kwargs)
        assert 2 <= len(batches.shapes) <= kwargs.get("max_shapes", 4)
        found = [labels.shape for _, labels, _ in batches]
        assert set(found) == set(batches.shapes)
        for count, width in batches.shapes:
            assert count <= kwargs.get("batch_size", 16)
            assert count % kwargs.get("rows_multiple_of", 1) == 0
            assert width % 4 == 0
        assert set(batches.pictures.asked) == {count for count, _ in batches.shapes}
        assert 0 < batches.padded_share < 0.35
        real = sum(weight.sum() for _, _, weight in batches)
        positions = sum(labels.size for _, labels, _ in batches)
        assert batches.padded_share == pytest.approx(1 - real / positions)
    assert make(([0], [[5]]), rows_multiple_of=3, batch_size=1).shapes == [(3, 4)]


def test_rows_that_fill_a_batch_count_nothing():
    inputs, labels, weight = make(([2] * 5, [[6]] * 5), rows_multiple_of=4)[0]
    assert (inputs["regions"] == 2).all()
    assert (inputs["target_ids"][:5] == [START, 6, 0, 0]).all()
    assert not inputs["target_ids"][5:].any()
    assert labels.shape == (8, 4)
    assert weight.sum() == 10
    assert not weight[5:].any()
    assert not labels[5:].any()


def test_longer_captions_are_left_out_and_counted(data):
    batches = make(data, max_length=10)
    kept = [(n, i) for n, i in zip(*data, strict=True) if len(i) < 10]
    assert 0 < batches.dropped == len(data[1]) - len(kept)
    assert batches.num_examples == len(kept)
    assert sorted(y[:-1] for _, _, y in rows(batches)) == sorted(i for _, i in kept)
    assert max(width for _, width in batches.shapes) == 10


def test_order_depends_on_seed_and_epoch_alone(data):
    one, same, other = make(data), make(data), make(data, seed=1)
    first = rows(one)
    assert first == rows(one) == rows(same) != rows(other)
    one.set_epoch(4)
    assert one.state() == {"epoch": 4, "seed": 0}
    fourth = rows(one)
    same.set_epoch(2)
    same.set_epoch(4)
    assert rows(same) == fourth != first


def test_regions_out_of_a_cache(files, data, tmp_path):
    cache = fill_cache(tmp_path, files, shard_bytes=200)
    regions = CachedRegions(cache, files)
    assert (len(regions), regions.shape) == (40, (4, 3))
    found = regions.read([39, 0, 39])
    assert found.dtype == "float32"
    np.testing.assert_array_equal(found[:, 0, 0], [39, 0, 39])
    assert regions.read([]).shape == (0, 4, 3)
    found[:] = -1  # a copy, not the cache
    assert regions.read(np.array([39], "int32")).max() == 39
    numbers = [pair[0] for pair in rows(make(data, regions))]
    assert sorted(numbers) == data[0]


def test_features_are_never_all_in_memory(tmp_path):
    paths = [tmp_path / f"{number}.png" for number in range(120)]
    for number, path in enumerate(paths):
        Image.new("L", (4, 4), number).save(path)
    cache = fill_cache(tmp_path / "cache", paths, 64, 128, shard_bytes=2**20)
    everything = 120 * 64 * 128 * 2
    cache = FeatureCache(cache.folder, cache.key)
    batches = make(captions(120, 2), CachedRegions(cache, paths), batch_size=4)
    tracemalloc.start()
    for inputs, _, _ in batches:
        assert inputs["regions"].shape[1:] == (64, 128)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert all(isinstance(shard, np.memmap) for shard in cache._shards.values())
    assert peak < everything / 4


@pytest.mark.parametrize("keep_bytes", [2**30, 40 * 4 * 5 * 3, 40 * 4 * 5 * 3 - 1])
def test_pictures_are_read_from_their_files(files, data, keep_bytes, monkeypatch):
    from keras_attn.batches import picture_sources

    opened, load = [], picture_sources.load_image
    monkeypatch.setattr(
        picture_sources, "load_image", lambda path, *more: opened.append(path) or load(path, *more)
    )
    pictures = PictureFiles(files, (4, 5), keep_bytes)
    assert (len(pictures), pictures.shape) == (40, (4, 5, 3))
    assert not opened
    found = pictures.read([7, 39, 7])
    assert found.dtype == "uint8"
    np.testing.assert_array_equal(
        found, np.uint8([7, 39, 7])[:, None, None, None] + [[[[0] * 3] * 5] * 4]
    )
    assert sorted(map(os.path.basename, opened)) == ["39.png", "7.png"]
    found[:] = 0
    assert pictures.read([39]).max() == 39
    batches = make(data, pictures, name="images")
    for epoch in range(2):
        batches.set_epoch(epoch)
        assert sorted(row[0] for row in rows(batches, "images")) == data[0]
    assert (len(opened) == 40) == (keep_bytes >= 40 * 4 * 5 * 3)
    assert pictures.read([]).shape == (0, 4, 5, 3)


@pytest.mark.parametrize(
    ("numbers", "ids", "kwargs", "message"),
    [
        ([], [], {}, "0 numbers and 0 captions"),
        ([0], [[3], [4]], {}, "1 numbers and 2 captions"),
        ([0, 2], [[3], [4]], {}, "from 0 to 1, the numbers of 2 pictures. .*from 0 to 2"),
        ([0, -1], [[3], [4]], {}, "Received: numbers from -1 to 0"),
        ([0, 0.5], [[3], [4]], {}, "Received: float64 values of shape"),
        ([0, 1], [[3], [4, 0]], {}, "`pad_id`=0 must not occur.*sequence 1 of `ids`"),
        ([0], [[3.5]], {}, "integer ids.*float64"),
        ([0], [[3, 4]], {"max_length": 2}, "No caption is left.*the shortest has 3 ids"),
        ([0], [[3]], {"pad_id": 1}, "`pad_id` must differ"),
        ([0], [[3]], {"name": "target_ids"}, "Expected different names"),
        ([0], [[3]], {"batch_size": 0}, "`batch_size` must be >= 1"),
        ([0], [[3]], {"max_length": 0}, "`max_length` must be >= 1"),
        ([0], [[3]], {"multiple": 0}, "`multiple` must be >= 1"),
        ([0], [[3]], {"max_shapes": 0}, "`max_shapes` must be >= 1"),
        ([0], [[3]], {"rows_multiple_of": 0}, "`rows_multiple_of` must be >= 1"),
        ([0], [[3]], {"seed": -1}, "`seed` must be >= 0"),
    ],
)
def test_errors(numbers, ids, kwargs, message):
    with pytest.raises(ValueError, match=message):
        make((numbers, ids), Numbered(2), **kwargs)


def test_errors_of_pictures(files, tmp_path):
    cache = fill_cache(tmp_path / "cache", files[:2])
    with pytest.raises(
        ValueError, match=r"features of 3 pictures.*without the features of 1 of them.*2\.png"
    ):
        CachedRegions(cache, files[:3])
    with pytest.raises(ValueError, match="at least one picture"):
        CachedRegions(cache, [])
    with pytest.raises(ValueError, match="a list of paths"):
        PictureFiles(str(files[0]), 4)
    with pytest.raises(FileNotFoundError, match=r"1 paths without a file, such as .*no\.png"):
        PictureFiles([files[0], tmp_path / "no.png"], 4)
    for size in (None, 0, (4,)):
        with pytest.raises(ValueError, match="size"):
            PictureFiles(files, size)
    with pytest.raises(ValueError, match="`keep_bytes`"):
        PictureFiles(files, 4, keep_bytes=-1)
    for pictures in (PictureFiles(files, 4), CachedRegions(cache, files[:2])):
        for wrong in ([40], [-1], [0.5], [[0]]):
            with pytest.raises(IndexError, match="Expected a vector of integers from 0 to"):
                pictures.read(wrong)
    (tmp_path / "broken.png").write_bytes(files[0].read_bytes()[:40])
    with pytest.raises(ValueError, match=r"broken\.png: expected a"):
        PictureFiles([tmp_path / "broken.png"], 4).read([0])


def make_model(name="images"):
    """The mean of a picture, through a convolution, added to each word; with dropout."""
    seed_everything(3)
    picture = keras.Input((4, 4, 3) if name == "images" else (4, 3), name=name)
    target = keras.Input((None,), dtype="int32", name="target_ids")
    x = keras.layers.Rescaling(1 / 40)(picture)
    if name == "images":
        x = keras.layers.Conv2D(8, 3)(x)
        x = keras.layers.Reshape((4, 8))(x)
    x = keras.layers.GlobalAveragePooling1D(keepdims=True)(keras.layers.Dense(8)(x))
    x = keras.layers.Add()([keras.layers.Embedding(VOCABULARY, 8)(target), x])
    x = keras.layers.Dense(VOCABULARY)(keras.layers.Dropout(0.1)(x))
    model = keras.Model({name: picture, "target_ids": target}, x)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.05), loss, jit_compile=False, weighted_metrics=[])
    return model


class Losses(keras.callbacks.Callback):
    """Remembers the loss of each batch, and ends the run after some."""

    def __init__(self, stop_after=None):
        super().__init__()
        self.losses, self.stop_after = [], stop_after

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(logs["loss"])
        if len(self.losses) == self.stop_after:
            raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param("images", marks=pytest.mark.slow), "regions"])
def test_a_resumed_run_is_the_uninterrupted_one(name, files, tmp_path):
    pictures = PictureFiles(files, 4)
    if name == "regions":
        pictures = CachedRegions(fill_cache(tmp_path / "cache", files), files)

    def run(path, *callbacks):
        model = make_model(name)
        batches = make(captions(each=2), pictures, name=name, max_shapes=2)
        checkpoint = TrainingCheckpoint(path, 1)
        done = fit_resumable(model, batches, checkpoint, 3, callbacks, 0)
        return done, model.get_weights()

    whole = Losses()
    done, expected = run(tmp_path / "whole.npz", whole)
    assert done
    assert whole.losses[-1] < 0.9 * whole.losses[0]
    count = len(whole.losses) // 3
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut.npz", Losses(count + 3))
    assert TrainingCheckpoint(tmp_path / "cut.npz").position == (1, 2)
    rest = Losses()
    done, weights = run(tmp_path / "cut.npz", rest)
    assert done
    assert len(rest.losses) == 2 * count - 2
    for a, b in zip(weights, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_fit_goes_through_the_epochs(files, data, workers):
    batches = make(data, PictureFiles(files, 4, 0), name="images", max_shapes=2, workers=workers)
    held_out = make(data, PictureFiles(files, 4), name="images", max_shapes=2, shuffle=False)
    model = make_model()
    before = model.evaluate(held_out, verbose=0)
    model.fit(batches, epochs=2, shuffle=False, verbose=0, validation_data=held_out)
    assert batches.state()["epoch"] == 2
    model.fit(
        batches, initial_epoch=7, epochs=8, shuffle=False, verbose=0,
        callbacks=[EpochOrder(batches)],
    )  # fmt: skip
    assert batches.state()["epoch"] == 8
    assert model.evaluate(held_out, verbose=0) < before


def digest():
    """Of all batches of two epochs."""
    batches = make(captions(), seed=3, max_length=12)
    digest = hashlib.sha256()
    for epoch in range(2):
        batches.set_epoch(epoch)
        for inputs, labels, weight in batches:
            for array in (*inputs.values(), labels, weight):
                digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_the_same_on_all_backends(backend):
    if backend == keras.backend.backend():
        pytest.skip("this process")
    pytest.importorskip(backend)
    script = (
        "import sys, test_caption_batches; print(test_caption_batches.digest(), "
        "'tensorflow' in sys.modules)"
    )
    done = run_python(backend, script, path=[HERE])
    assert done.stdout.split() == [digest(), str(backend == "tensorflow")]
