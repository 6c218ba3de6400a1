"""Inputs that are no regular files are refused everywhere, and nothing waits for them."""

import os
import shutil
import signal

import numpy as np
import pytest

from keras_attn.adapt import load_lora
from keras_attn.batches.sentence_ids import load_prepared
from keras_attn.images import FeatureCache, check_images, load_image
from keras_attn.images.image_reading import load_json
from keras_attn.input_files import input_file, kind_of
from keras_attn.interop import read_pretrained, read_word_vectors
from keras_attn.models import BagClassifierConfig
from keras_attn.records import Documents, read_labelled, read_pairs, read_text
from keras_attn.settings import read_settings
from keras_attn.tasks import TextClassifier, WordEmbedder
from keras_attn.tasks.translation import PreparedTranslation
from keras_attn.text import BytePairTokenizer, WordPieceTokenizer
from keras_attn.training import read_training_notes

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows has no such files")

READERS = {
    "checkpoint": (read_training_notes, "a.npz"),
    "task": (TextClassifier.load, "a.task"),
    "task or vectors": (WordEmbedder.load, "a.task"),
    "adapter": (lambda path: load_lora(BagClassifierConfig(9, 2, dim=4).build(), path), "a.npz"),
    "picture": (load_image, "a.png"),
    "json": (load_json, "a.json"),
    "settings": (lambda path: read_settings(path, {}), "a.toml"),
    "text": (read_text, "a.txt"),
    "labelled": (read_labelled, "a.csv"),
    "pairs": (read_pairs, "a.tsv"),
    "zipped pairs": (read_pairs, "a.zip"),
    "documents": (lambda path: list(Documents(str(path))), "a.txt"),
    "vectors, npy": (read_word_vectors, "a.npy"),
    "vectors, npz": (read_word_vectors, "a.npz"),
    "vectors, text": (read_word_vectors, "a.vec"),
    "vectors, binary": (read_word_vectors, "a.bin"),
    "vocabulary": (WordPieceTokenizer.from_vocabulary_file, "vocab.txt"),
    "tokenizer": (lambda path: BytePairTokenizer.load_assets(path.parent), "byte_pair.json"),
    "Hugging Face": (lambda path: read_pretrained(path.parent), "config.json"),
    "prepared pairs": (lambda path: PreparedTranslation.load(path.parent), "prepared.json"),
    "prepared ids": (lambda path: load_prepared(path.parent), "prepared.json"),
    "features": (lambda path: FeatureCache(path.parent, {"a": 1}), "cache.json"),
}


@pytest.fixture
def no_waiting():
    """Ends a test that waits for a pipe."""

    def stop(number, frame):
        raise AssertionError("it waits for the other end of the pipe")

    former = signal.signal(signal.SIGALRM, stop)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, former)


@pytest.mark.parametrize("case", READERS)
def test_pipes_are_refused(tmp_path, no_waiting, case):
    read, name = READERS[case]
    os.mkfifo(tmp_path / name)
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        read(tmp_path / name)
    named = str(tmp_path if case == "Hugging Face" else tmp_path / name)
    assert named in str(caught.value)
    if case not in ("documents", "Hugging Face"):  # which look for regular files only
        assert "a named pipe" in str(caught.value)


def test_devices_and_folders(tmp_path, no_waiting):
    assert [kind_of(path) for path in ("/dev/null", tmp_path, tmp_path / "x")] == [
        "a device",
        "a folder",
        "nothing",
    ]
    with pytest.raises(ValueError, match=r"a text file at /dev/null\. There is a device"):
        read_text("/dev/null")
    with pytest.raises(FileNotFoundError, match="There is a folder"):
        input_file(tmp_path)
    checked = check_images(["/dev/null"], on_error="skip")
    assert "There is a device" in checked.problems[0].what
    (tmp_path / "real").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert input_file(tmp_path / "link") == tmp_path / "link"


def test_a_pipe_among_the_words_of_vectors(tmp_path, no_waiting):
    np.save(tmp_path / "a.npy", np.ones((2, 3), "float32"))
    os.mkfifo(tmp_path / "words.txt")
    with pytest.raises(ValueError, match=r"words\.txt\. There is a named pipe"):
        read_word_vectors(tmp_path / "a.npy", words=tmp_path / "words.txt")


def test_a_pipe_among_the_files_of_features(tmp_path, no_waiting):
    from PIL import Image

    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    cache = FeatureCache(tmp_path / "c", {"a": 1})
    cache.fill([tmp_path / "a.png"], lambda images: images.mean(2), 4, verbose=0)
    os.remove(tmp_path / "c/features-00000.npy")
    os.mkfifo(tmp_path / "c/features-00000.npy")
    with pytest.raises(ValueError, match=r"00000\.npy\. There is a named pipe"):
        FeatureCache(tmp_path / "c", {"a": 1})[tmp_path / "a.png"]
    shutil.rmtree(tmp_path / "c")
