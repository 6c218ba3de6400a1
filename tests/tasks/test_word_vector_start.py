"""Text classifiers whose embedding starts from word vectors."""

import numpy as np
import pytest
from text_classification_toys import EXAMPLES, TEXTS

from keras_attn.interop import WordVectors, write_word_vectors
from keras_attn.tasks import TextClassificationData, TextClassifier
from keras_attn.text import WordTokenizer

VECTORS = WordVectors(["the", "good", "great", "film"], np.arange(1.0, 25.0).reshape(4, 6))
MODELS = {
    "bag": {"pair_buckets": 0},
    "rnn": {"units": 4},
    "transformer": {"num_heads": 2, "intermediate_dim": 4, "dim": 6},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("vectors") / "v.bin"
    write_word_vectors(path, VECTORS)
    return {"tokenizer": "words", "word_vectors": str(path), "max_length": 12}


@pytest.mark.parametrize(
    "model", [pytest.param(m, marks=[pytest.mark.slow] * (m == "rnn")) for m in MODELS]
)
def test_what_the_models_read(model, data, tmp_path, eager):
    """The output of the embedding is the vector, whatever its scale; frozen, it stays so."""
    settings = {**data, "freeze_word_vectors": True}
    made = TextClassifier.create(EXAMPLES, settings, {"model": model, **MODELS[model]})
    assert made.config.dim == 6
    made.fit(EXAMPLES[:8], epochs=1, learning_rate=0.1, verbose=0)
    made.save(tmp_path / "a.task")
    for classifier in (made, TextClassifier.load(tmp_path / "a.task")):
        ids = np.array([classifier.tokenizer.encode("the great")])
        (embedded,) = classifier.kinds[model].embed(
            {layer.name: layer for layer in classifier.model.layers}, ids
        )
        expected = [VECTORS["the"], VECTORS["great"]]
        np.testing.assert_allclose(embedded[0], expected, rtol=1e-5)
    assert made.vectors.found == 3  # no text has "good"
    assert "3 of 16 words" in made.describe(made.dataset(EXAMPLES))[0]


def test_the_exported_classifier_of_words(data, unsaved):
    classifier = TextClassifier.create(EXAMPLES, data, {"pair_buckets": 0})
    classifier.export("anywhere")
    assert len(unsaved) == 1
    (explained,) = classifier.explain(["The film wasn't great"])
    assert list(explained.tokens) == ["the", "film", "was", "<unknown>", "great"]


def test_a_run_takes_the_width_of_the_vectors(data, tmp_path, eager):
    """In its settings file too, with which the same call goes on."""
    for _ in range(2):
        run = TextClassifier.train(
            EXAMPLES[:12], EXAMPLES[:4], tmp_path, data, {"pair_buckets": 0}, {"epochs": 1},
            verbose=0,
        )  # fmt: skip
        assert run.complete
    assert "dim = 6" in (tmp_path / "settings.toml").read_text()


def test_words_without_vectors_are_unknown_if_they_come_once():
    examples = [*EXAMPLES, ("a weird film", "bad")]
    tokenizer = TextClassifier.create(examples, {"tokenizer": "words"}, {"dim": 4}).tokenizer
    assert isinstance(tokenizer, WordTokenizer)
    assert "film" in tokenizer.vocabulary
    assert "weird" not in tokenizer.vocabulary
    assert "weird" not in " ".join(TEXTS)


@pytest.mark.parametrize(
    ("more", "model", "message"),
    [
        ({}, {"dim": 7}, "`dim` is the width of the word vectors, 6 in"),
        ({}, {"model": "bert"}, "models with an embedding of words"),
        ({}, {"model": "transformer"}, r"6 wide: `dim` must be divisible .* Give dim=6 with"),
        ({"tokenizer": "word_piece"}, {}, r"need whole words: tokenizer='words'"),
        ({"backbone": "run/best.task"}, {}, "two starts of one embedding"),
        ({"word_vectors": "", "freeze_word_vectors": True}, {}, "belongs to `word_vectors`"),
    ],
)
def test_wrong_settings(data, more, model, message):
    with pytest.raises(ValueError, match=message):
        TextClassifier.create(EXAMPLES, {**data, **more}, model)


def test_a_missing_file(data):
    assert TextClassificationData(**data).vector_words == 0
    with pytest.raises(FileNotFoundError, match="There is nothing"):
        TextClassifier.create(EXAMPLES, {**data, "word_vectors": "nowhere.bin"}, {})
