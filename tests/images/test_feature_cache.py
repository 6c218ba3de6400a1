"""Features computed once: what is kept, recomputed, refused, and survives a kill."""

import itertools
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import keras
import numpy as np
import pytest
from PIL import Image

from keras_attn.files import only_one
from keras_attn.images import FeatureCache, encoder_fingerprint, feature_cache
from keras_attn.version import __version__

KEY = {"encoder": "toy", "image_size": (4, 4)}


class Encoder:
    """Regions: the rows of a picture, their mean colours."""

    def __init__(self):
        self.batches = []

    def __call__(self, images):
        assert images.dtype == np.uint8
        self.batches.append(len(images))
        return images.mean(2) / 255.0


def expected(number):
    return np.full((4, 3), number / 255, "float32")


def picture(folder, number):
    path = folder / f"{number}.png"
    Image.new("RGB", (5, 6), (number,) * 3).save(path)
    return str(path)


@pytest.fixture
def paths(tmp_path):
    (tmp_path / "images").mkdir()
    return [picture(tmp_path / "images", number) for number in range(10)]


def fill(cache, paths, encode, **options):
    return cache.fill(paths, encode, **{"image_size": 4, "batch_size": 2, "verbose": 0, **options})


def test_computed_once(tmp_path, paths):
    encode = Encoder()
    cache = FeatureCache(tmp_path / "cache", KEY, shard_bytes=3 * 24)
    assert len(cache) == 0 and cache.shape is None and not (tmp_path / "cache").exists()
    done = fill(cache, [*paths[:5], paths[0]], encode)
    assert (done.computed, done.found, done.problems) == (5, 0, [])
    assert encode.batches == [2, 2, 1]
    done = fill(cache, paths, encode)
    assert (done.computed, done.found) == (5, 5)
    assert done.summary() == "10 pictures with features: 5 computed now, 5 found."
    other = FeatureCache(str(tmp_path / "cache"), KEY)
    for known in (cache, other):
        assert len(known) == 10 and known.shape == (4, 3)
        read = known.read(paths[::-1])
        assert read.dtype == np.float32
        np.testing.assert_allclose(read, [expected(n) for n in range(9, -1, -1)], atol=1e-3)
        assert known[paths[3]].dtype == np.float16
        assert isinstance(known._shards[0], np.memmap)
        assert paths[4] in known and tmp_path / "x" not in known
    assert fill(other, paths, encode).found == 10
    assert sum(encode.batches) == 10
    assert len(list((tmp_path / "cache").glob("*.npy"))) == 4
    header = json.loads((tmp_path / "cache" / "cache.json").read_text())
    assert header["keras_attn"] == __version__ and header["format_version"] == 2


def test_relative_paths(tmp_path, paths, monkeypatch):
    cache = FeatureCache(tmp_path / "cache", KEY)
    fill(cache, paths[:1], Encoder())
    monkeypatch.chdir(tmp_path)
    assert "images/0.png" in cache and "images/1.png" not in cache
    with pytest.raises(KeyError, match=r"images/1\.png. Call `fill`"):
        cache["images/1.png"]
    with pytest.raises(ValueError, match="at least one picture"):
        cache.read([])


def test_changed_pictures_are_computed_again(tmp_path, paths):
    encode = Encoder()
    cache = FeatureCache(tmp_path / "cache", KEY)
    fill(cache, paths[:3], encode)
    os.replace(picture(tmp_path, 100), paths[1])
    assert fill(FeatureCache(tmp_path / "cache", KEY), paths[:3], encode).computed == 1
    cache = FeatureCache(tmp_path / "cache", KEY)
    np.testing.assert_allclose(cache[paths[1]], expected(100), atol=1e-3)
    np.testing.assert_allclose(cache[paths[2]], expected(2), atol=1e-3)


def test_a_file_is_read_once(tmp_path, paths, monkeypatch):
    reads = []
    read_bytes = Path.read_bytes

    def read(path):
        if path.suffix == ".png":
            reads.append(str(path))
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", read)
    cache = FeatureCache(tmp_path / "cache", KEY)
    assert fill(cache, paths[:3], Encoder()).computed == 3
    assert reads == paths[:3]
    reads.clear()
    assert fill(cache, paths[:3], Encoder()).found == 3
    assert reads == []


@pytest.mark.parametrize(
    ("settings", "both"),
    [
        ({"key": {**KEY, "encoder": "other"}}, ('"encoder": "other"', '"encoder": "toy"')),
        ({"key": {"encoder": "toy"}}, ('{"encoder": "toy"}', '"image_size": [4, 4]')),
        ({"dtype": "float32"}, ('"float32"', '"float16"')),
    ],
)
def test_another_cache_is_refused(tmp_path, paths, settings, both):
    fill(FeatureCache(tmp_path / "cache", KEY), paths[:1], Encoder())
    with pytest.raises(ValueError, match="features with another") as caught:
        FeatureCache(tmp_path / "cache", **{"key": KEY, **settings})
    for part in both:
        assert part in str(caught.value)
    FeatureCache(tmp_path / "cache", {"image_size": [4, 4], "encoder": "toy"})


def test_broken_pictures(tmp_path, paths):
    with open(paths[3], "r+b") as file:
        file.truncate(45)
    os.remove(paths[4])
    cache = FeatureCache(tmp_path / "cache", KEY)
    with pytest.raises(ValueError, match=r"3\.png: expected a whole picture"):
        fill(cache, paths, Encoder())
    assert len(cache) == 2  # whole batches before it are kept
    with pytest.raises(FileNotFoundError):
        fill(cache, paths[4:], Encoder())
    done = fill(cache, paths, Encoder(), on_error="skip")
    assert (done.computed, done.found) == (6, 2)
    assert [problem.kind for problem in done.problems] == ["broken", "missing"]
    assert "1 whose file is not there" in done.summary()
    assert paths[3] not in cache
    nothing = FeatureCache(tmp_path / "nothing", KEY)
    assert fill(nothing, paths[3:5], Encoder(), on_error="skip").computed == 0
    assert len(FeatureCache(tmp_path / "nothing", KEY)) == 0


def test_wrong_features(tmp_path, paths):
    cache = FeatureCache(tmp_path / "cache", KEY)
    with pytest.raises(ValueError, match=r"2 features of shape \(R, D\).*\(2, 48\)"):
        fill(cache, paths, lambda images: images.reshape(len(images), -1))
    with pytest.raises(ValueError, match=r"2 features of .*\(1, 4, 3\)"):
        fill(cache, paths, lambda images: images.mean(2)[:1])
    fill(cache, paths[:2], Encoder())
    with pytest.raises(ValueError, match=r"shape \(4, 3\).*\(2, 2, 3\)"):
        fill(cache, paths, lambda images: images.mean(2)[:, :2])
    with pytest.raises(ValueError, match=r"finite in float16.*1e\+05.*float32"):
        fill(cache, paths, lambda images: np.full((len(images), 4, 3), 1e5))
    wide = FeatureCache(tmp_path / "wide", KEY, "float32")
    fill(wide, paths[:2], lambda images: np.full((len(images), 4, 3), 1e5))
    assert wide.read(paths[:2]).max() == 1e5
    with pytest.raises(ValueError, match="finite in float32"):
        fill(wide, paths, lambda images: np.full((len(images), 4, 3), np.nan))


def test_an_interrupted_encoder_keeps_what_it_did(tmp_path, paths):
    def encode(images):
        if len(calls) == 2:
            raise KeyboardInterrupt
        calls.append(1)
        return images.mean(2)

    calls = []
    cache = FeatureCache(tmp_path / "cache", KEY)
    with pytest.raises(KeyboardInterrupt):
        fill(cache, paths, encode)
    assert len(FeatureCache(tmp_path / "cache", KEY)) == 4


@pytest.mark.slow
@pytest.mark.parametrize("when", [pytest.param("array", marks=pytest.mark.slow), "list"])
def test_kill_at_any_moment(tmp_path, paths, when):
    """Within the second shard's array, half written, and between it and its list."""
    script = """
        import os, signal, sys
        import numpy as np
        from keras_attn.images import FeatureCache, feature_cache

        def kill():
            os.kill(os.getpid(), signal.SIGKILL)

        save, write = np.save, feature_cache.write_header
        def half(file, array, **options):
            if "00001" in file.name and sys.argv[1] == "array":
                file.write(b"half"), file.flush(), kill()
            save(file, array, **options)
        def late(path, version, **entries):
            if "00001" in path.name:
                kill()
            write(path, version, **entries)
        np.save, feature_cache.write_header = half, late
        cache = FeatureCache("cache", {"encoder": "toy", "image_size": (4, 4)}, shard_bytes=96)
        cache.fill(sys.argv[2:], lambda images: images.mean(2) / 255, 4, 2, verbose=0)
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), when, *paths],
        cwd=tmp_path,
        env={**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    folder = tmp_path / "cache"
    cache = FeatureCache(folder, KEY, shard_bytes=96)
    assert len(cache) == 4
    np.testing.assert_allclose(cache.read(paths[:4])[:, 0, 0] * 255, range(4), atol=0.1)
    done = fill(cache, paths, Encoder())
    assert (done.computed, done.found) == (6, 4)
    again = FeatureCache(folder, KEY)
    np.testing.assert_allclose(again.read(paths)[:, 0, 0] * 255, range(10), atol=0.1)
    assert not [name for name in os.listdir(folder) if "partial" in name]


def test_damaged_files(tmp_path, paths):
    folder = tmp_path / "cache"
    fill(FeatureCache(folder, KEY), paths[:2], Encoder())
    array = folder / "features-00000.npy"
    whole = array.read_bytes()
    array.write_bytes(whole[:-8])
    with pytest.raises(ValueError, match=r"Expected a whole file of features.*00000\.npy"):
        FeatureCache(folder, KEY)[paths[0]]
    array.unlink()
    with pytest.raises(FileNotFoundError, match=r"Expected a whole file of features.*00000\.npy"):
        FeatureCache(folder, KEY)[paths[0]]
    header = json.loads((folder / "cache.json").read_text())
    for version, message in ((3, "Install a newer"), (1, r"format version 2.*fill it again")):
        (folder / "cache.json").write_text(json.dumps({**header, "format_version": version}))
        with pytest.raises(ValueError, match=message):
            FeatureCache(folder, KEY)
    (folder / "cache.json").write_text("{")
    with pytest.raises(ValueError, match=r"whole file.*cache\.json, which is cut off or damaged"):
        FeatureCache(folder, KEY)


def test_one_process_fills(tmp_path, paths):
    cache = FeatureCache(tmp_path / "cache", KEY)

    def encode(images):
        with pytest.raises(BlockingIOError, match="fills the features"):
            fill(FeatureCache(tmp_path / "cache", KEY), paths, Encoder())
        return images.mean(2)

    assert fill(cache, paths[:2], encode).computed == 2


def test_two_objects_and_a_removed_folder(tmp_path, paths):
    one, other = (FeatureCache(tmp_path / "cache", KEY) for _ in range(2))
    fill(one, paths[:2], Encoder())
    done = fill(other, paths[:4], Encoder())
    assert (done.computed, done.found) == (2, 2)
    assert fill(one, paths[:4], Encoder()).found == 4
    feature_cache.Path(tmp_path / "cache").rename(tmp_path / "away")
    assert fill(one, paths[:3], Encoder()).computed == 3
    assert len(one) == 3


def test_settings(tmp_path):
    for wrong in (
        {"key": {}},
        {"key": {"model": object()}},
        {"key": {"x": float("nan")}},
        {"key": "vgg16"},
        {"dtype": "float64"},
        {"shard_bytes": 0},
    ):
        (name,) = wrong
        with pytest.raises(ValueError, match=f"Expected `{name}`"):
            FeatureCache(tmp_path, **{"key": KEY, **wrong})
    with pytest.raises(ValueError, match="batch_size"):
        FeatureCache(tmp_path / "a", KEY).fill([], Encoder(), 4, batch_size=0)
    with pytest.raises(ValueError, match="size of pictures"):  # not a problem of each picture
        FeatureCache(tmp_path / "a", KEY).fill(["x.png"], Encoder(), (4, 0), on_error="skip")


@pytest.mark.parametrize("terminal", [True, False])
def test_progress(tmp_path, paths, capsys, monkeypatch, terminal):
    """A bar in a terminal; a line each half a minute in a log file, which a bar would fill."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    if not terminal:
        ticks = itertools.count(0, 20)
        monkeypatch.setattr("keras_attn.progress.time.monotonic", lambda: next(ticks))
    fill(FeatureCache(tmp_path / "cache", KEY), paths[:5], Encoder(), verbose=1)
    out = capsys.readouterr().out
    assert "5/5" in out if terminal else "  4 of 5 pictures" in out.splitlines()


def test_with_a_keras_model(tmp_path, paths):
    inputs = keras.Input((4, 4, 3))
    model = keras.Model(inputs, keras.layers.Reshape((16, 3))(inputs))
    cache = FeatureCache(tmp_path / "cache", KEY)
    fill(cache, paths[:3], model)
    assert cache.read(paths[:3])[:, 7, 1].tolist() == [0, 1, 2]


def test_fingerprint():
    def model(kernel, units=2):
        layer = keras.Sequential([keras.Input((3,)), keras.layers.Dense(units)])
        layer.set_weights([np.full((3, units), kernel), np.zeros(units)])
        return layer

    assert encoder_fingerprint(model(1)) == encoder_fingerprint(model(1))
    assert len({encoder_fingerprint(m) for m in (model(1), model(2), model(1, 3))}) == 3


def test_what_is_there_is_read_while_another_process_fills(tmp_path, paths):
    cache = FeatureCache(tmp_path / "cache", KEY)
    fill(cache, paths[:2], Encoder())
    with only_one(tmp_path / "cache" / ".lock", "fills the features"):
        found = fill(FeatureCache(tmp_path / "cache", KEY), paths[:2], Encoder())
        assert (found.computed, found.found) == (0, 2)
        with pytest.raises(BlockingIOError):
            fill(cache, paths, Encoder())
