"""Files of weights that are cut off or lie, and indexes that point elsewhere."""

import json
import struct

import numpy as np
import pytest
import safetensors.numpy

from keras_attn.interop import read_pretrained, save_pretrained
from keras_attn.interop.tensor_files import stored_tensors
from keras_attn.models import BertConfig

CONFIG = BertConfig(9, dim=4, num_layers=1, num_heads=2, intermediate_dim=6, sequence_length=5)


def file_of(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


DATA = bytes(8)
WRONG = {
    "empty": (b"", "Expected a whole safetensors file"),
    "a pointer": (b"version https://git-lfs.github.com/spec/v1\noid ", "a pointer of Git LFS"),
    "seven bytes": (b"1234567", "Expected a whole safetensors file"),
    "no header": (struct.pack("<Q", 0), "Expected a whole safetensors file"),
    "a huge header": (file_of({}, length=2**63), "Expected a whole safetensors file"),
    "a header past the end": (file_of({"a": entry()}, length=500), "Expected a whole safetensors"),
    "not JSON": (file_of(b"{not json"), "the header of .*: expected JSON"),
    "not UTF-8": (file_of(b'{"\xff": 1}'), "expected JSON"),
    "deep JSON": (file_of(b"[" * 200_000), "expected JSON"),
    "a list": (file_of(b"[]"), "a list"),
    "a name twice": (
        file_of(b'{"a": {}, "a": {}}'),
        "the key 'a' occurs twice",
    ),
    "an entry without offsets": (file_of({"a": {"dtype": "F32"}}), "a must have a dtype"),
    "an unknown dtype": (file_of({"a": entry("F99")}, DATA), "a must have one of the dtypes"),
    "a dtype that is a list": (file_of({"a": entry(["F32"])}, DATA), "a must have one of the dty"),
    "a negative size": (file_of({"a": entry(shape=(-2,))}, DATA), "a must have a shape and two"),
    "a size that is no integer": (file_of({"a": entry(shape=(2.0,))}, DATA), "a must have a shape"),
    "a size that is true": (file_of({"a": entry(shape=(True, 2))}, DATA), "a must have a shape"),
    "three offsets": (file_of({"a": entry(offsets=(0, 8, 8))}, DATA), "a must have a shape"),
    "a huge shape": (
        file_of({"a": entry(shape=(2**62, 2**62))}, DATA),
        "a of dtype F32 and shape .* has .* bytes. Received: offsets .0, 8. in 8 bytes",
    ),
    "a number of 5,000 digits": (
        file_of(b'{"a": {"dtype": "F32", "shape": [1%b], "data_offsets": [0, 8]}}' % (b"0" * 5000)),
        "expected JSON",
    ),
    "a product of many digits": (
        file_of({"a": entry(shape=(10**4000, 10**4000))}, DATA),
        "far too large",
    ),
    "offsets past the end": (file_of({"a": entry(offsets=(8, 16))}, DATA), "a of dtype"),
    "offsets that go back": (file_of({"a": entry(offsets=(8, 0))}, DATA), "a of dtype"),
    "a shape of other bytes": (file_of({"a": entry(shape=(3,))}, DATA), "a of dtype"),
    "two tensors in one place": (file_of({"a": entry(), "b": entry()}, DATA), "b overlaps"),
    "a hole": (file_of({"a": entry(offsets=(4, 12))}, bytes(12)), "a leaves a hole"),
    "bytes at the end": (file_of({"a": entry()}, bytes(9)), "1 bytes after its last tensor"),
    "cut off": (file_of({"a": entry()}, bytes(7)), "a of dtype"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_named_with_its_tensor(name, tmp_path):
    content, message = WRONG[name]
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        stored_tensors(tmp_path)
    assert str(tmp_path / "model.safetensors") in str(caught.value)


def test_what_the_library_writes_is_read(tmp_path):
    arrays = {
        "a": np.arange(6, dtype="float32").reshape(2, 3), "b": np.ones((), "float16"),
        "c": np.zeros((0, 4), "float64"), "d": np.arange(3),
    }  # fmt: skip
    safetensors.numpy.save_file(arrays, tmp_path / "model.safetensors", {"format": "pt"})
    found = stored_tensors(tmp_path)
    assert {name: tensor.shape for name, tensor in found.items()} == {
        name: array.shape for name, array in arrays.items()
    }
    for name in "abc":
        np.testing.assert_array_equal(found[name].read(), arrays[name])
        assert found[name].read().dtype == np.float32
    with pytest.raises(ValueError, match="d must have one of the dtypes"):
        found["d"].read()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "model"
    save_pretrained(folder, CONFIG.build(), CONFIG)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def folder_with(files, folder):
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def test_a_file_that_is_cut_off_anywhere(whole, tmp_path):
    folder_with(whole, tmp_path)
    data = whole["model.safetensors"]
    for length in [*range(0, len(data), 97), len(data) - 1]:
        (tmp_path / "model.safetensors").write_bytes(data[:length])
        with pytest.raises(ValueError, match=str(tmp_path)):
            read_pretrained(tmp_path)


def test_tensors_are_checked_before_any_is_read(whole, tmp_path, monkeypatch):
    folder_with(whole, tmp_path)
    tensors = safetensors.numpy.load(whole["model.safetensors"])
    monkeypatch.setattr(np, "fromfile", lambda *_: pytest.fail("a tensor is read"))
    last = "encoder.layer.0.output.LayerNorm.bias"
    for changed, message in (
        (
            {**tensors, last: np.ones(5, "float32")},
            r"must have the shape \(4,\).* Received: \(5,\)",
        ),
        ({**tensors, last: np.ones(4, "int32")}, f"{last} must have one of the dtypes"),
        ({n: a for n, a in tensors.items() if n != last}, f"requires a tensor {last}"),
        (
            {n: a for n, a in tensors.items() if n != "pooler.dense.bias"},
            "requires a tensor pooler",
        ),
    ):
        safetensors.numpy.save_file(changed, tmp_path / "model.safetensors")
        with pytest.raises(ValueError, match=message):
            read_pretrained(tmp_path)


@pytest.mark.parametrize(
    "file",
    [
        "../other.safetensors", "/etc/passwd", "a/b.safetensors", "..",
        "..\\b.safetensors", "a.bin", 3, "", "a\0.safetensors", "c:b.safetensors",
    ],
)  # fmt: skip
def test_an_index_stays_in_its_folder(file, whole, tmp_path):
    folder_with(whole, tmp_path)
    (tmp_path.parent / "other.safetensors").write_bytes(whole["model.safetensors"])
    (tmp_path / "model.safetensors").unlink()
    index = {"weight_map": {"embeddings.word_embeddings.weight": file}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ValueError, match="files of its own folder"):
        read_pretrained(tmp_path)


def test_an_index_that_is_wrong(whole, tmp_path):
    folder_with(whole, tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "one.safetensors")
    path = tmp_path / "model.safetensors.index.json"
    (tmp_path / "two.safetensors").write_bytes(whole["model.safetensors"])
    for places, message in (
        ({}, "must have a `weight_map`"),
        ({"a": "none.safetensors"}, "which is not in the folder"),
        ({"a": "one.safetensors"}, "says that a is in one.safetensors, which does not have it"),
        ({"a": "one.safetensors", "b": "two.safetensors"}, "is also in .*one.safetensors"),
    ):
        path.write_text(json.dumps({"weight_map": places}))
        with pytest.raises(ValueError, match=message):
            read_pretrained(tmp_path)


def test_a_config_that_is_no_object(whole, tmp_path):
    folder_with({**whole, "config.json": b"[1]"}, tmp_path)
    with pytest.raises(ValueError, match=r"config.json: expected a JSON object. Received: a list"):
        read_pretrained(tmp_path)
