"""Damaged files of ours give an error that names them, or the right data; nothing else."""

import json
import random

import keras
import numpy as np
import pytest

from keras_attn.adapt import enable_lora, load_lora, merge_lora, save_lora
from keras_attn.archives import map_array
from keras_attn.batches.sentence_ids import load_prepared
from keras_attn.images import FeatureCache
from keras_attn.images.image_reading import load_json
from keras_attn.interop import read_word_vectors
from keras_attn.interop.json_files import read_object
from keras_attn.interop.tensor_files import stored_tensors
from keras_attn.layers.quantization import sublayers
from keras_attn.models import TransformerClassifierConfig
from keras_attn.models.tensors import to_bytes
from keras_attn.settings import read_settings
from keras_attn.tasks import TextClassificationData, TextClassifier
from keras_attn.tasks.base.task_file import read_task
from keras_attn.tasks.pretraining import PretrainingData, prepare
from keras_attn.tasks.translation import PreparedTranslation, TranslationData
from keras_attn.text import BytePairTokenizer, WordPieceTokenizer
from keras_attn.training import load_training_state, save_training_state

SEED = 20261126
TOKENIZER = BytePairTokenizer.train(["good bad"], 259)


def plain(value):
    """A value with arrays as lists, to be compared."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return [value.dtype.name, value.tolist()] if isinstance(value, np.ndarray) else value


def small_model():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(keras.optimizers.Adam(), "mse")
    return model


class Checkpoint:
    """Each class makes a file or a folder, and reads it."""

    def make(self, folder):
        self.model = small_model()
        save_training_state(folder / "a.npz", self.model, {"step": 7})

    def read(self, folder):
        notes = load_training_state(folder / "a.npz", self.model)
        return notes, [np.array(v) for v in self.model.variables]


class TaskFile:
    exact = False  # what a damaged file's settings make is not built here

    def make(self, folder):
        config = {"model": "transformer", "dim": 8, "num_layers": 1, "num_heads": 2}
        TextClassifier(TOKENIZER, ["no", "yes"], model=config, data={"max_length": 8}).save(
            folder / "a.task"
        )

    def read(self, folder):
        return list(read_task(folder / "a.task", "TextClassifier"))[1:]


class Lora:
    def make(self, folder):
        keras.utils.set_random_seed(0)
        sizes = {"dim": 8, "num_layers": 1, "num_heads": 2, "intermediate_dim": 8}
        self.model = TransformerClassifierConfig(20, num_classes=2, **sizes).build()
        enable_lora(self.model, rank=2)
        save_lora(self.model, folder / "a.npz")

    def read(self, folder):
        if self.adapted():
            merge_lora(self.model)
        load_lora(self.model, folder / "a.npz")
        return [[np.array(x.lora_kernel_a), np.array(x.lora_kernel_b)] for x in self.adapted()]

    def adapted(self):
        layers = dict(sublayers(self.model)).values()
        return [layer for layer in layers if getattr(layer, "lora_enabled", False)]


class Translation:
    def make(self, folder):
        names = "Ann Ben Cem Dan Eve Fay Gil Hal".split()
        lines = [f"the house of {name}\tdas Haus von {name}" for name in names]
        (folder.parent / "pairs.tsv").write_text("\n".join(lines))
        sizes = {"dev_size": 2, "test_size": 2, "vocabulary_size": 280}
        settings = TranslationData(train=str(folder.parent / "pairs.tsv"), **sizes)
        PreparedTranslation.prepare(settings, folder)

    def read(self, folder):
        data = PreparedTranslation.load(folder)
        tokenizers = data.source_tokenizer.get_config(), data.target_tokenizer.get_config()
        texts = [list(map(tuple, side)) for side in (data.dev, data.test)]
        rows = [[row.tolist() for row in side] for side in (data.sources, data.targets)]
        return tokenizers, texts, rows, data.fingerprint, data.counts, data.settings


class Shards:
    def make(self, folder):
        for name in "ab":
            text = "".join(f"One {name}{i} dog.\nTwo cats.\n\n" for i in range(5))
            (folder.parent / f"{name}.txt").write_text(text)
        texts = {"text": str(folder.parent / "a.txt"), "dev": str(folder.parent / "b.txt")}
        prepare(PretrainingData(**texts), folder, log=lambda text: None)

    def read(self, folder):
        return [
            (side.tokenizer.get_config(), side.fingerprint, [plain(list(s)) for s in side.shards])
            for side in load_prepared(folder)
        ]


class Features:
    def make(self, folder):
        from PIL import Image

        for n in range(4):
            Image.new("RGB", (4, 4), (n, 0, 0)).save(folder.parent / f"{n}.png")
        self.paths = [str(folder.parent / f"{n}.png") for n in range(4)]
        cache = FeatureCache(folder, {"encoder": "mean"}, shard_bytes=16)
        cache.fill(self.paths, lambda images: images.mean(2), 4, 2, verbose=0)
        (folder / ".lock").unlink()

    def read(self, folder):
        cache = FeatureCache(folder, {"encoder": "mean"})
        return cache.shape, len(cache), [cache.read([p]) for p in self.paths]


class NumbersNpy:
    exact = False  # numbers without a checksum

    def make(self, folder):
        np.save(folder / "a.npy", np.arange(12, dtype="float32").reshape(4, 3))

    def read(self, folder):
        return np.array(map_array(folder / "a.npy", "an array"))


class Npz:
    def make(self, folder):
        vectors = np.arange(12, dtype="float32").reshape(4, 3)
        np.savez(folder / "a.npz", words=np.array(["a", "b", "c", "d"]), vectors=vectors)

    def read(self, folder):
        found = read_word_vectors(folder / "a.npz")
        return list(found.words), np.array(found.vectors)


class Json:
    exact = False

    def make(self, folder):
        (folder / "a.json").write_text(json.dumps({"images": [{"id": i} for i in range(9)]}))

    def read(self, folder):
        return read_object(folder / "a.json"), load_json(folder / "a.json")


class Toml:
    exact = False

    def make(self, folder):
        (folder / "a.toml").write_text('[data]\ntrain = "a.csv"\nmax_length = 7\n')

    def read(self, folder):
        return read_settings(folder / "a.toml", {"data": TextClassificationData})


class Safetensors:
    exact = False

    def make(self, folder):
        arrays = {"a": np.ones((2, 3), "float32"), "b/c": np.zeros(4, "float16")}
        (folder / "model.safetensors").write_bytes(to_bytes(arrays))

    def read(self, folder):
        return {name: tensor.read() for name, tensor in stored_tensors(folder).items()}


class TokenizerFile:
    exact = False

    def make(self, folder):
        WordPieceTokenizer.train(["a b c d e"], 15).save_assets(folder)

    def read(self, folder):
        return WordPieceTokenizer.load_assets(folder).get_config()


KINDS = [
    Checkpoint, TaskFile, Lora, Translation, Shards, Features, NumbersNpy, Npz, Json, Toml,
    Safetensors, TokenizerFile,
]  # fmt: skip


def damaged(raw, draw):
    """Bytes with a plain damage: some bits, a cut, a block of zeros or of another place."""
    raw = bytearray(raw)
    size, kind = len(raw), draw.randrange(6)
    place = draw.randrange(size) if draw.random() < 0.6 else draw.choice(_edges(size, draw))
    if kind < 2:
        for _ in range(draw.choice((1, 1, 1, 3))):
            raw[place] ^= 1 << draw.randrange(8)
            place = draw.randrange(size)
    elif kind == 2:
        del raw[place:]
    elif kind == 3:
        end = min(size, place + draw.choice((1, 4, 64, 4096)))
        raw[place:end] = bytes(end - place)
    elif kind == 4:
        del raw[place : place + draw.choice((1, 8, 512))]
    else:
        raw[place:place] = raw[: draw.choice((1, 8, 512))]
    return bytes(raw)


def _edges(size, draw):
    return [min(draw.randrange(40), size - 1), size - 1 - min(draw.randrange(80), size - 1)]


def check(kind, root, cases, seed):
    """Damages the files of a kind, one at a time."""
    maker, folder = kind(), root / "whole"
    folder.mkdir()
    maker.make(folder)
    expected = plain(maker.read(folder))
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    draw = random.Random(f"{seed} {kind.__name__}")
    refused = 0
    for case in range(cases):
        path = files[case % len(files)]
        raw = path.read_bytes()
        bad = damaged(raw, draw)
        if bad == raw:
            continue
        path.write_bytes(bad)
        try:
            found = plain(maker.read(folder))
        except (ValueError, FileNotFoundError, TypeError) as error:
            refused += 1
            known = type(error) in (ValueError, FileNotFoundError) and str(folder) in str(error)
            assert known, (case, path.name, type(error), str(error))
            assert "pickle" not in str(error), (case, str(error))
        else:
            if getattr(kind, "exact", True):
                assert found == expected, (case, path.name)
        path.write_bytes(raw)
    assert refused > cases / 4
    assert plain(maker.read(folder)) == expected  # no error has changed what reads


@pytest.mark.quick(slow=["Lora"])
@pytest.mark.parametrize("kind", KINDS)
def test_damages(tmp_path, kind):
    check(kind, tmp_path, 40, SEED)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(10))
def test_many_damages(tmp_path, kind, seed):
    check(kind, tmp_path, 400, SEED + seed)
