"""A cache of image features on disk."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_attn.archives import map_array
from keras_attn.files import atomic_write, check_writable, only_one, remove_partial_files
from keras_attn.folder_headers import check_sum, checksum, read_header, write_header
from keras_attn.images.feature_filling import CacheFill, Filling
from keras_attn.images.loading import MAX_PIXELS, check_sizes
from keras_attn.progress import progress_lines, report
from keras_attn.records.reading import check_on_error, is_integer

FORMAT_VERSION = 2

_HEADER = "cache.json"
_DTYPES = ("float16", "float32")


def encoder_fingerprint(model: keras.Model) -> str:
    """Returns a hash of a model's weights.

    The hash does not depend on the architecture, so add the name of the architecture and the image
    size to the key of the cache.

    Args:
        model: The encoder.

    Returns:
        16 hexadecimal digits of the SHA-256 of all weights, in their order, with their shapes.

    Example:

    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> before = encoder_fingerprint(model)
    >>> model.set_weights([weight + 1 for weight in model.get_weights()])
    >>> len(before), encoder_fingerprint(model) == before
    (16, False)
    """
    digest = hashlib.sha256()
    for weight in model.weights:
        value = np.asarray(keras.ops.convert_to_numpy(weight))
        digest.update(f"{value.dtype.name}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()[:16]


class FeatureCache:
    """A folder with features of images, so that an encoder computes them only once.

    The features of an image are an array `(R, D)`, for example R regions with vectors of width D.

    A frozen encoder computes the same features of an image in each epoch. `fill` encodes the images
    that are not in the cache, and writes their features in shards, each of them atomically. If the
    process is killed, the next `fill` resumes after the last complete shard. Shards are
    memory-mapped, so the features need not fit into memory.

    Each folder has one `key`, which contains everything that determines the features. Opening a
    folder with another key raises an error. An image is identified by its path, size and
    modification time, and is encoded again if its file has changed.

    Args:
        folder: The folder, which `fill` creates.
        key: A dictionary of JSON values, such as `{"encoder": "vgg16", "weights":
            encoder_fingerprint(model), "image_size": [224, 224]}`.
        dtype: Dtype of the stored features: `"float16"` (half the space, three digits) or
            `"float32"`.
        shard_bytes: Approximate size of a shard. Features since the last complete shard are kept in
            memory, and are lost if the process is killed.

    Raises:
        ValueError: If a setting is invalid; or if the cache in the folder has another key or dtype
            (the message has both), has a newer format, or is damaged.

    Example:

    >>> import os, tempfile
    >>> from PIL import Image
    >>> folder = tempfile.mkdtemp()
    >>> path = os.path.join(folder, "red.png")
    >>> Image.new("RGB", (8, 8), "red").save(path)
    >>> cache = FeatureCache(os.path.join(folder, "features"), {"encoder": "mean"})
    >>> def encode(images):  # (B, H, W, 3) of uint8 -> (B, R, D)
    ...     return images.mean((1, 2))[:, None] / 255.0
    >>> print(cache.fill([path], encode, image_size=8, verbose=0).summary())
    1 picture with features: 1 computed now, 0 found.
    >>> cache.read([path]).tolist()
    [[[1.0, 0.0, 0.0]]]
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        key: Mapping[str, Any],
        dtype: str = "float16",
        shard_bytes: int = 2**26,
    ):
        if dtype not in _DTYPES:
            raise ValueError(f"Expected `dtype` to be one of {_DTYPES}. Received: {dtype!r}.")
        if not is_integer(shard_bytes, 1):
            raise ValueError(
                f"Expected `shard_bytes` to be an integer >= 1. Received: {shard_bytes!r}."
            )
        self.folder = Path(folder).expanduser()
        self.key = _as_json(key)
        self.dtype = dtype
        self.shard_bytes = shard_bytes
        self.shape: tuple[int, int] | None = None
        """The shape (R, D); None if the cache is empty."""
        self._places: dict[str, tuple[int, int, Any]] = {}  # path: shard, row, identity
        self._shards: dict[int, np.ndarray] = {}
        self._sums: dict[int, str] = {}  # checksums of the shards
        self._next = 0
        self._open()

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, path: str | os.PathLike[str]) -> bool:
        return _absolute(path) in self._places

    def __getitem__(self, path: str | os.PathLike[str]) -> np.ndarray:
        """The memory-mapped features (R, D) of an image, as computed by `fill`."""
        place = self._places.get(_absolute(path))
        if place is None:
            raise KeyError(
                f"Expected a picture whose features are in {self.folder}. Received: "
                f"{os.fspath(path)}. Call `fill` with it first."
            )
        return self._shard(place[0])[place[1]]

    def read(self, paths: Iterable[str | os.PathLike[str]], dtype: str = "float32") -> np.ndarray:
        """Returns the stored features of images.

        Args:
            paths: B image files that are in the cache. The files themselves are not read.
            dtype: Dtype of the result.

        Returns:
            A NumPy array `(B, R, D)` of the given dtype, in the order of `paths`.

        Raises:
            KeyError: If an image is not in the cache.
            ValueError: If there is no path, or a shard of the cache is damaged.
        """
        found = [self[path] for path in paths]
        if not found:
            raise ValueError("Expected at least one picture. Received: none.")
        return np.stack(found).astype(dtype, copy=False)

    def fill(
        self,
        paths: Iterable[str | os.PathLike[str]],
        encode: Callable[[np.ndarray], Any],
        image_size: int | tuple[int, int],
        batch_size: int = 32,
        on_error: str = "error",
        max_pixels: int = MAX_PIXELS,
        verbose: int = 1,
    ) -> CacheFill:
        """Computes the features of images that are not in the cache or have changed.

        Args:
            paths: The image files.
            encode: Function (such as a Keras model) from uint8 images `(B, H, W, 3)` to features
                `(B, R, D)`, for any B up to `batch_size`.
            image_size: Height and width to which images are resized, or one number for both.
            batch_size: Number of images that are encoded together.
            on_error: `"error"` raises an error at the first broken or missing image; the features
                of earlier, complete batches are kept. `"skip"` leaves broken and missing images
                out, and lists them in `problems` of the result.
            max_pixels: Maximum number of pixels of an image; larger images count as broken.
            verbose: Whether to show progress: a bar in a terminal, and lines elsewhere.

        Returns:
            A `CacheFill` with `computed`, `found`, `problems` and `summary()`.

        Raises:
            BlockingIOError: If another process is filling this cache (not detected on Windows).
            ImportError: If images must be encoded, and Pillow is not installed.
            OSError: If, with `on_error="error"`, a file cannot be read, or if the folder cannot be
                written to.
            ValueError: If a setting is invalid; if, with `on_error="error"`, an image is broken; or
                if the features have another shape than in the cache or are not finite.
        """
        check_on_error(on_error)
        check_sizes(image_size, max_pixels)
        if not is_integer(batch_size, 1):
            raise ValueError(f"Expected `batch_size` to be an integer >= 1. Received: {batch_size}")
        files = list(dict.fromkeys(_absolute(path) for path in paths))
        self._open()  # another process may have added to it
        if all(path in self._places for path in files):
            reading = Filling(self, encode, image_size, batch_size, max_pixels)
            if all(reading.is_there(path) for path in files):
                return CacheFill(0, len(files), [])  # it may be locked, or read-only
        check_writable(self.folder)
        with only_one(self.folder / ".lock", "fills the features"):
            self._open()  # another process may have added to it
            filling = Filling(self, encode, image_size, batch_size, max_pixels)
            shown = bool(verbose) and sys.stdout.isatty()
            bar = keras.utils.Progbar(len(files), verbose=int(shown), unit_name="picture")
            # A bar would fill a log file.
            lines = progress_lines(_say, 30.0) if verbose and not shown else nullcontext()
            try:
                with lines:
                    for number, path in enumerate(files, start=1):
                        filling.add(path, on_error == "skip")
                        if number % batch_size == 0:
                            bar.update(number)
                            report(number, len(files), "pictures")
                    filling.encode_batch()
                    bar.update(len(files), finalize=True)
            finally:
                filling.write()
        return CacheFill(filling.computed, filling.found, filling.problems)

    def _open(self) -> None:
        """Reads the header and the lists of images; a shard without a list is ignored."""
        header = self._read(_HEADER)
        if header is None:  # new, or somebody has removed it
            self._places, self._shards, self._next = {}, {}, 0
            self._sums = {}
            self.shape = None
            return
        for name in ("key", "dtype"):
            own = getattr(self, name)
            if header.get(name) != own:
                raise ValueError(
                    f"{self.folder} has features with another {name}. Expected: "
                    f"{json.dumps(own)}. Received: {json.dumps(header.get(name))}. Use "
                    "another folder, or remove this one."
                )
        self.shape = tuple(header["shape"])
        while (listed := self._read(self._path(self._next, "json").name)) is not None:
            self._take(listed["pictures"], listed["sum"])

    def _take(self, listed: Sequence[Sequence[Any]], sum_: str | None) -> None:
        """Notes path, identity, shard and row of the images of a list."""
        for path, identity, shard, row in listed:
            self._places[path] = (shard, row, identity)
        if sum_ is not None:
            self._sums[self._next] = sum_
        self._next += 1

    def _read(self, name: str) -> dict[str, Any] | None:
        """Reads a JSON file of the folder; None if there is none."""
        if not (self.folder / name).exists():
            return None
        advice = f"Remove {self.folder} and fill it again."
        return read_header(self.folder / name, FORMAT_VERSION, "a feature cache", advice)

    def _path(self, shard: int, suffix: str) -> Path:
        return self.folder / f"features-{shard:05d}.{suffix}"

    def _shard(self, shard: int) -> np.ndarray:
        if shard not in self._shards:
            path = self._path(shard, "npy")
            expected = f"a whole file of features (else remove {self.folder} and fill it again)"
            check_sum(path, self._sums.get(shard), expected)
            self._shards[shard] = map_array(path, expected)
        return self._shards[shard]

    def _write(self, features: Sequence[np.ndarray], listed: Sequence[Sequence[Any]]) -> None:
        """Writes a shard, and then its list, which completes it."""
        sum_ = None
        if features:
            if self.shape is None:
                shape = tuple(features[0].shape[1:])
                self._write_json(_HEADER, key=self.key, dtype=self.dtype, shape=shape)
                self.shape = shape
            path = self._path(self._next, "npy")
            remove_partial_files(path)
            with atomic_write(path) as partial, open(partial, "wb") as file:
                np.save(file, np.concatenate(features), allow_pickle=False)
            sum_ = checksum(path)
        self._write_json(self._path(self._next, "json").name, pictures=listed, sum=sum_)
        self._take(listed, sum_)

    def _write_json(self, name: str, **entries: Any) -> None:
        remove_partial_files(self.folder / name)
        write_header(self.folder / name, FORMAT_VERSION, **entries)


def _say(line: str) -> None:
    print(line, flush=True)


def _absolute(path: str | os.PathLike[str]) -> str:
    return os.path.abspath(os.path.expanduser(os.fspath(path)))


def _as_json(key: Mapping[str, Any]) -> dict[str, Any]:
    """A key after a JSON round trip: tuples become lists."""
    try:
        if isinstance(key, Mapping) and key:
            return json.loads(json.dumps(dict(key), sort_keys=True, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Expected `key` to have JSON values. Received: {key!r} ({error})."
        ) from error
    raise ValueError(
        "Expected `key` to be a dictionary that says what the features are, such as "
        f"{{'encoder': 'vgg16'}}. Received: {key!r}."
    )
