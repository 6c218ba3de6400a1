"""Task files that were made on purpose: refused before they take memory, with their names."""

import json
import tracemalloc
import zipfile

import keras
import numpy as np
import pytest

from keras_attn.models.tensors import from_bytes, to_bytes
from keras_attn.models.weight_limits import check_num_layers
from keras_attn.tasks import TextClassifier, TextGenerator
from keras_attn.tasks.base.backbones import read_backbone, read_language_model
from keras_attn.text import BytePairTokenizer, CharacterTokenizer

SMALL = {"dim": 8, "num_layers": 1, "num_heads": 2, "intermediate_dim": 8}
KINDS = {
    "transformer": SMALL,
    "bert": SMALL,
    "modern_bert": SMALL,
    "rnn": {"dim": 4, "units": 4},
    "bag": {"dim": 4, "pair_buckets": 0},
}
LIMIT = 50_000_000  # bytes


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A file of each architecture."""
    folder = tmp_path_factory.mktemp("tasks")
    tokenizer = BytePairTokenizer.train(["good bad"], 259)
    for kind, settings in KINDS.items():
        classifier = TextClassifier(
            tokenizer, ["no", "yes"], model={"model": kind, **settings}, data={"max_length": 8}
        )
        classifier.save(folder / f"{kind}.task")
    settings = {"model": "gpt", **SMALL}
    TextGenerator(
        CharacterTokenizer.train(["abc"]), model=settings, data={"sequence_length": 8}
    ).save(folder / "writer.task")
    return folder


def changed(path, place, change=None, tensors=None):
    """Writes a file like another one, with other settings or weights."""
    with zipfile.ZipFile(path) as archive:
        header = json.loads(archive.read("task.json"))
        weights = archive.read("model.safetensors")
    text = json.dumps(header)
    if change is not None:
        text = change(header) or json.dumps(header)
    if tensors is not None:
        found = from_bytes(weights)
        weights = tensors(found) or to_bytes(found)
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr("task.json", text, zipfile.ZIP_DEFLATED)
        archive.writestr("model.safetensors", weights)
    return place


def inflating(path, place, member):
    """Writes a file whose member takes 150 MB."""
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(place, "w") as made:
        for name in archive.namelist():
            if name != member:
                made.writestr(name, archive.read(name))
        info = zipfile.ZipInfo(member)
        info.compress_type = zipfile.ZIP_DEFLATED
        with made.open(info, "w") as file:
            for _ in range(150):
                file.write(bytes(1_000_000))
    return place


def setting(name, value):
    """Changes a setting of the model, or of the task."""

    def change(header):
        parts = [header["config"][part] for part in ("model", "data", "learned")]
        next(part for part in parts if name in part)[name] = value

    return change


def refused(read, path, message):
    """Reads a file, which must be refused with its name."""
    with pytest.raises(ValueError, match=message) as caught:
        read(path)
    assert type(caught.value) is ValueError and str(path) in str(caught.value)


@pytest.mark.quick(
    slow=["transformer-dim-3000000", "transformer-num_layers-3000", "rnn-units-3000000"]
)
@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("transformer", "dim", 3_000_000),
        ("transformer", "num_layers", 3000),
        ("transformer", "intermediate_dim", 10**12),
        ("transformer", "intermediate_dim", 100_000),
        ("bert", "sequence_length", 10**9),
        ("rnn", "units", 3_000_000),
        ("rnn", "num_layers", 3000),
        ("rnn", "num_layers", 10**9),
        ("modern_bert", "num_layers", 10**9),
        ("bag", "pair_buckets", 10**9),
        ("writer", "dim", 3_000_000),
        ("writer", "num_layers", 10**9),
    ],
)
def test_huge_sizes(files, tmp_path, little_memory, kind, name, value):
    path = changed(files / f"{kind}.task", tmp_path / "made.task", setting(name, value))
    load = TextGenerator.load if kind == "writer" else TextClassifier.load
    refused(load, path, "belong together.*the settings require at least .*, but the file has")


@pytest.mark.parametrize(
    ("kind", "read"), [("bert", read_backbone), ("writer", read_language_model)]
)
def test_huge_sizes_of_a_start(files, tmp_path, kind, read):
    for name, value in (("dim", 3_000_000), ("num_layers", 3000)):
        path = changed(files / f"{kind}.task", tmp_path / "made.task", setting(name, value))
        refused(read, path, "belong together.*the settings require at least")


def test_layers_are_counted_before_they_are_made():
    for name in ("num_layers", "num_decoder_layers"):
        check_num_layers({"model": {name: 6, "model": "t5"}, "data": {}}, 6)
        with pytest.raises(ValueError, match="require at least 7 tensors, but the file has 6"):
            check_num_layers({"model": {name: 7, "model": "t5"}, "data": {}}, 6)


@pytest.mark.parametrize("kind", KINDS)
def test_loading_draws_no_random_numbers(files, kind, monkeypatch):
    def draw(*arguments, **more):
        raise AssertionError("random numbers were drawn")

    for name in ("truncated_normal", "normal", "uniform"):
        monkeypatch.setattr(keras.src.backend.random, name, draw)
    with pytest.raises(AssertionError, match="random numbers were drawn"):
        TextClassifier(BytePairTokenizer.train(["good bad"], 259), ["no", "yes"], model={})
    classifier = TextClassifier.load(files / f"{kind}.task")
    assert all(np.isfinite(weights).all() for weights in classifier.model.get_weights())


def without(*keys):
    def change(header):
        for key in keys[:-1]:
            header = header[key]
        del header[keys[-1]]

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda header: "[" * 100_000, "cut off or damaged.*recursion"),
        (lambda header: '{"format_version": 4, "a": ' + "[" * 100_000, "recursion"),
        (lambda header: json.dumps([header]), "a list instead of a JSON object"),
        (lambda header: "null", "a NoneType instead of a JSON object"),
        (without("config"), r"lacks \['config'\]"),
        (lambda header: header.update(config=[1]), "its config is a list"),
        (lambda header: header.update(format_version="4"), "Expected a header"),
        (without("config", "dtype"), "belong together.*KeyError: 'dtype'"),
        (without("config", "learned", "class_names"), "belong together.*KeyError: 'class_names'"),
        (without("config", "model"), "belong together.*KeyError: 'model'"),
        (setting("temperature", float("nan")), "NaN is not a number in JSON"),
        (setting("temperature", -1), "`temperature` must be a finite number above 0"),
        (setting("temperature", 0), "`temperature` must be a finite number above 0"),
        (lambda h: json.dumps(h).replace('"temperature": 1.0', '"temperature": 1e999'), "finite"),
        (setting("temperature", "1"), "`temperature` must be a finite number above 0"),
        (setting("dim", "8"), "`dim` must be of type int"),
        (setting("num_heads", 3), "belong together"),
        (
            setting("tokenizer", {"tokenizer": "words", "config": {"a": 3}}),
            "belong together",
        ),
        (lambda header: header.update(quantization={"head": 5}), "belong together"),
        (lambda header: header.update(quantization={"none": {}}), "lacks quantized sublayers"),
    ],
)
def test_settings_that_lie(files, tmp_path, change, message):
    path = changed(files / "transformer.task", tmp_path / "made.task", change)
    refused(TextClassifier.load, path, message)


def nan(tensors):
    name = next(iter(tensors))
    tensors[name] = tensors[name].copy()
    tensors[name].flat[0] = np.nan


def test_weights_that_are_not_finite(files, tmp_path):
    path = changed(files / "bert.task", tmp_path / "made.task", tensors=nan)
    for read in (TextClassifier.load, read_backbone):
        refused(read, path, "has 1 of .* numbers that are not finite")
    classifier = TextClassifier.load(files / "bert.task")
    weights = classifier.model.get_weights()
    weights[0][0] = np.inf
    classifier.model.set_weights(weights)
    with pytest.raises(ValueError, match=r"b\.task is not written, because the training diverged"):
        classifier.save(tmp_path / "b.task")
    assert not (tmp_path / "b.task").exists()


@pytest.fixture
def little_memory():
    """Fails a test that takes much memory of Python."""
    tracemalloc.start()
    yield
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < LIMIT


def test_members_that_inflate(files, tmp_path, little_memory):
    """150 MB in some kilobytes, said and not said."""
    path = inflating(files / "bag.task", tmp_path / "weights.task", "model.safetensors")
    assert path.stat().st_size < 500_000
    refused(TextClassifier.load, path, "model.safetensors would take 150,000,000 bytes")
    raw = path.read_bytes()
    size = (150_000_000).to_bytes(4, "little")
    assert raw.count(size) == 2
    path.write_bytes(raw.replace(size, (1000).to_bytes(4, "little")))
    refused(TextClassifier.load, path, "cut off or damaged")
    path = inflating(files / "bag.task", tmp_path / "settings.task", "task.json")
    refused(TextClassifier.load, path, "task.json would take 150,000,000 bytes")


def test_a_wrong_dtype_is_not_the_fault_of_the_file(files):
    with pytest.raises(ValueError) as caught:
        TextClassifier.load(files / "bag.task", dtype="float99")
    assert "belong together" not in str(caught.value)


@pytest.fixture(scope="module")
def bag():
    tokenizer = BytePairTokenizer.train(["good bad"], 259)
    return TextClassifier(tokenizer, ["no", "yes"], model="bag", data={"max_length": 8})


@pytest.mark.parametrize("name", ["model.keras", "model.weights.h5"])
def test_a_file_of_keras_is_refused_with_the_right_name(bag, tmp_path, name):
    with pytest.raises(ValueError, match=r"Expected a file such as model.*\.task.*task.model.save"):
        bag.save(tmp_path / name)
    assert not [*tmp_path.iterdir()]


def test_the_summary_is_that_of_the_model(bag, capsys):
    assert bag.summary(line_length=60) is None
    printed = capsys.readouterr().out
    assert "embedding" in printed and f"{bag.model.count_params():,}" in printed
