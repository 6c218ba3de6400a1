"""Text classifiers, and tasks on a BiLSTM, whose embedding starts from word vectors."""

import numpy as np
import pytest
from answering_toys import questions
from selection_toys import EXAMPLES as SELECTION
from similarity_toys import PAIRS
from tagging_toys import sentences
from text_classification_toys import EXAMPLES, TEXTS

from keras_attn.interop import WordVectors, write_word_vectors
from keras_attn.tasks import (
    AnswerSelector,
    QuestionAnswerer,
    SimilarityScorer,
    Tagger,
    TextClassificationData,
    TextClassifier,
)
from keras_attn.tasks.base.word_vectors import embedding_of_words
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


@pytest.mark.quick("bag")
@pytest.mark.parametrize(
    "model", [pytest.param(m, marks=[pytest.mark.slow] * (m == "rnn")) for m in MODELS]
)
def test_what_the_models_read(model, data, tmp_path, eager):
    """The output of the embedding is the vector, whatever its scale; frozen, it stays so."""
    settings = {**data, "freeze_word_vectors": True}
    made = TextClassifier.create(EXAMPLES, data=settings, model={"model": model, **MODELS[model]})
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
    assert made.word_vectors.found == 3  # no text has "good"
    assert "3 of 16 words" in made.describe(made.dataset(EXAMPLES))[0]


@pytest.mark.slow
def test_the_exported_classifier_of_words(data, unsaved):
    classifier = TextClassifier.create(EXAMPLES, data=data, model={"pair_buckets": 0})
    classifier.export("anywhere")
    assert len(unsaved) == 1
    (explained,) = classifier.explain(["The film wasn't great"])
    assert list(explained.tokens) == ["the", "film", "was", "<unknown>", "great"]


@pytest.mark.slow
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
    tokenizer = TextClassifier.create(
        examples, data={"tokenizer": "words"}, model={"dim": 4}
    ).tokenizer
    assert isinstance(tokenizer, WordTokenizer)
    assert "film" in tokenizer.vocabulary
    assert "weird" not in tokenizer.vocabulary
    assert "weird" not in " ".join(TEXTS)


@pytest.mark.parametrize(
    ("more", "model", "message"),
    [
        ({}, {"dim": 7}, "`dim` is the width of the word vectors, 6 in"),
        ({}, {"model": "bert"}, "a model with a word embedding"),
        ({}, {"model": "transformer"}, r"6 wide: `dim` must be divisible .* Use dim=6, and"),
        ({"tokenizer": "word_piece"}, {}, r"require whole words: tokenizer='words'"),
        ({"backbone": "run/best.task"}, {}, "both initialize the embedding"),
        ({"word_vectors": "", "freeze_word_vectors": True}, {}, "requires `word_vectors`"),
    ],
)
def test_wrong_settings(data, more, model, message):
    with pytest.raises(ValueError, match=message):
        TextClassifier.create(EXAMPLES, data={**data, **more}, model=model)


def test_a_missing_file(data):
    assert TextClassificationData(**data).vector_words == 0
    with pytest.raises(FileNotFoundError, match="There is nothing"):
        TextClassifier.create(EXAMPLES, data={**data, "word_vectors": "nowhere.bin"}, model={})


ENCODER_TASKS = {
    "tagging": (Tagger, sentences(8), {"max_length": 24}),
    "answers": (QuestionAnswerer, questions(2), {"max_length": 48, "max_question_length": 16}),
    "bi": (SimilarityScorer, [(x, i) for i, x in enumerate(PAIRS)], {"kind": "bi"}),
    "cross": (SimilarityScorer, [(x, i) for i, x in enumerate(PAIRS)], {"kind": "cross"}),
    "selection": (AnswerSelector, SELECTION, {"max_length": 16}),
}


def table_of(task):
    return np.array(embedding_of_words(task.model).embedding.embeddings)


@pytest.fixture(scope="module")
def of_bilstm(tmp_path_factory):
    """Settings of the data, with vectors of a word of each toy and of one that none has."""
    path = tmp_path_factory.mktemp("vectors") / "v.bin"
    words = ["lives", "the", "ada", "meets", "in", "zebra"]
    write_word_vectors(path, WordVectors(words, np.arange(36.0).reshape(6, 6)))
    return {"word_vectors": str(path), "freeze_word_vectors": True, "vector_words": 6}


@pytest.mark.slow
@pytest.mark.parametrize("name", ENCODER_TASKS)
def test_tasks_on_a_bilstm(name, of_bilstm, tmp_path, eager):
    """Their tokens are whole words; what is frozen stays so in the file."""
    kind, examples, data = ENCODER_TASKS[name]
    task = kind.create(examples, data={**of_bilstm, **data}, model={"model": "bilstm"})
    assert isinstance(task.tokenizer, WordTokenizer) and task.config.dim == 6
    before = table_of(task)
    zebra, known = (task.tokenizer.encode(word)[0] for word in ("Zebra", "the"))
    np.testing.assert_allclose(before[[zebra, known]], [np.arange(30, 36), np.arange(6, 12)])
    lines = task.describe(task.dataset(examples))
    assert "words" in lines[0] and "start from theirs, and are frozen" in lines[0]
    if name == "tagging":
        task.fit(examples, epochs=1, learning_rate=0.1, verbose=0)
        np.testing.assert_array_equal(table_of(task), before)
    task.save(tmp_path / "a.task")
    again = kind.load(tmp_path / "a.task")
    np.testing.assert_array_equal(table_of(again), before)
    assert len(again.model.trainable_weights) == len(task.model.trainable_weights)
    assert not embedding_of_words(again.model).trainable


def test_wrong_settings_of_tasks_on_an_encoder(of_bilstm):
    kind, examples, data = ENCODER_TASKS["selection"]
    for more, model, message in (
        ({}, {}, "a word embedding: model='bilstm'. Received: model='bert'"),
        ({}, {"model": "bilstm", "dim": 8}, "`dim` is the width of the word vectors, 6 in"),
        ({"backbone": "run/best.task"}, {}, "both initialize the embedding"),
        ({"word_vectors": ""}, {}, "`freeze_word_vectors` requires `word_vectors`"),
    ):
        with pytest.raises(ValueError, match=message):
            kind.create(examples, data={**of_bilstm, **data, **more}, model=model)


@pytest.mark.slow
def test_words_with_capitals_and_trained_vectors(of_bilstm):
    kind, examples, data = ENCODER_TASKS["tagging"]
    data = {**data, **of_bilstm, "freeze_word_vectors": False, "lowercase": False}
    task = kind.create(examples, data=data, model={"model": "bilstm"})
    assert embedding_of_words(task.model).trainable
    assert task.tokenizer.encode("Zebra") == [task.tokenizer.unknown_id]
    assert len(task.tokenizer.encode("zebra")) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tagging", "answers", "bi"])
def test_exported_tasks_of_words(name, of_bilstm, unsaved):
    kind, examples, data = ENCODER_TASKS[name]
    kind.create(examples, data={**of_bilstm, **data}, model={"model": "bilstm"}).export("anywhere")
    assert len(unsaved) == 1
