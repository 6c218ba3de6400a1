"""Every task reads tables; development examples by Keras' names; what callbacks see of them."""

import inspect
import json
import re
import signal
from typing import get_origin

import keras
import numpy as np
import pytest
from text_classification_toys import EXAMPLES

from keras_attn.explain.word_maps import VisualAnswer
from keras_attn.fields.answer_index import FoundAnswer
from keras_attn.fields.answer_spans import Answer, AnswerSpan
from keras_attn.fields.guesses import Guess
from keras_attn.fields.tagged_words import TaggedWords
from keras_attn.records.encodings import files_in
from keras_attn.records.rows import rows_of
from keras_attn.tasks import (
    AnswerSelector,
    Captioner,
    EntailmentClassifier,
    Pretrainer,
    QuestionAnswerer,
    SimilarityScorer,
    Summarizer,
    Tagger,
    Talker,
    TextClassifier,
    TextGenerator,
    TextRegressor,
    Translator,
    VisualQuestionAnswerer,
    WordEmbedder,
)

TEXTS, MORE = ["One dog.", "No cats."], ["A dog?", "A cat?"]
# The task, the columns of a table, what the call names, the first input, the first example.
TABLES = [
    (TextClassifier, {"a": TEXTS, "b": MORE, "y": [1, 2]}, {"text": "a", "label": "y"},
     "One dog.", ("One dog.", "1", "", None)),
    (TextClassifier, {"a": TEXTS, "b": MORE, "y": [1, 2]},
     {"text": "a", "text_pair": "b", "label": "y"}, ("One dog.", "A dog?"),
     ("One dog.", "1", "", "A dog?")),
    (TextRegressor, {"a": TEXTS, "b": MORE, "y": [1, 2.5]}, {"text": "a", "number": "y"},
     "One dog.", ("One dog.", 1.0, None)),
    (TextRegressor, {"a": TEXTS, "b": MORE, "y": ["1e3", " 2.5"]},
     {"text": "a", "text_pair": "b", "number": "y"}, ("One dog.", "A dog?"),
     ("One dog.", 1000.0, "A dog?")),
    (EntailmentClassifier, {"a": TEXTS, "hypothesis": MORE, "y": [1, 2]},
     {"premise": "a", "label": "y"}, ("One dog.", "A dog?"), ("One dog.", "A dog?", "1")),
    (SimilarityScorer, {"a": TEXTS, "b": MORE, "y": [1, 2.5]},
     {"first": "a", "second": "b", "score": "y"}, ("One dog.", "A dog?"),
     ("One dog.", "A dog?", 1.0)),
    (AnswerSelector, {"a": TEXTS, "q": MORE}, {"question": "q", "answer": "a"}, "A dog?",
     ("A dog?", ("One dog.",), ())),
    (Summarizer, {"a": TEXTS, "b": MORE}, {"text": "a", "summary": "b"}, "One dog.",
     ("One dog.", "A dog?", ())),
    (Translator, {"en": TEXTS, "de": MORE}, {"source": "de", "target": "en"}, "A dog?",
     ("A dog?", "One dog.", ())),
    (Tagger, {"words": [["One", "dog"], ["cats"]], "labels": [["O", "N"], ["N"]]}, {},
     ["One", "dog"], (("One", "dog"), ("O", "N"))),
    (QuestionAnswerer, {"question": MORE, "text": TEXTS, "answers": [["dog"], []]}, {},
     ("A dog?", "One dog."), ("A dog?", "One dog.", (("dog", 4),), "One dog.", "line 1")),
    (Talker, {"turns": [TEXTS, MORE]}, {}, TEXTS, (("One dog.",), "No cats.")),
    (TextGenerator, {"q": MORE, "a": TEXTS}, {"key": "a", "prompt_key": "q"}, "A dog?",
     ("A dog?", "One dog.")),
    (Pretrainer, {"a": ["One dog. It barks.", "No."]}, {"key": "a"}, "One dog. It barks.",
     ("One dog.", "It barks.")),
    (WordEmbedder, {"a": TEXTS, "word": ["dog", "cats"]}, {"key": "a"}, "dog", ("One dog.",)),
]  # fmt: skip


def parts_of(example):
    """The parts of an example; a text is one."""
    return (example,) if isinstance(example, str) else tuple(example)


@pytest.mark.parametrize(
    ("task", "columns", "named", "first", "example"),
    TABLES,
    ids=[f"{i}-{case[0].name}" for i, case in enumerate(TABLES)],
)
def test_tables_of_every_task(task, columns, named, first, example):
    read = task.read_given(columns, task.Data(), named)
    assert len(read) == 2
    assert parts_of(read[0]) == example
    inputs = {name: column for name, column in named.items() if name in task.input_columns}
    asked = task.read_inputs(rows_of(columns), task.columns_of(task.Data(), inputs))
    assert len(asked) == 2
    assert asked[0] == first


@pytest.mark.quick("8-translation", "9-tagging")
@pytest.mark.parametrize(
    ("task", "columns", "named", "first", "example"),
    TABLES,
    ids=[f"{i}-{case[0].name}" for i, case in enumerate(TABLES)],
)
def test_files_of_every_task_in_another_encoding(task, columns, named, first, example, tmp_path):
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    lines = "".join(json.dumps(row) + "\n" for row in rows).replace("dog", "d\u00f6g")
    (tmp_path / "a.jsonl").write_bytes(lines.encode("cp1252"))
    data = task.with_columns(task.Data(), named)
    with files_in("cp1252"):
        read = task.read_file(str(tmp_path / "a.jsonl"), data)
    assert json.dumps(parts_of(read[0])) == json.dumps(example).replace("dog", r"d\u00f6g")
    with pytest.raises(ValueError, match=r"UTF-8|utf-8"):
        task.read_file(str(tmp_path / "a.jsonl"), data)


@pytest.mark.parametrize(
    ("task", "columns", "named", "first", "example"),
    TABLES,
    ids=[f"{i}-{case[0].name}" for i, case in enumerate(TABLES)],
)
def test_parquet_files_of_every_task(task, columns, named, first, example, tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    parquet.write_table(arrow.table(columns), path)
    read = task.read_file(str(path), task.with_columns(task.Data(), named))
    assert parts_of(read[0]) == example


RESULTS = [
    (QuestionAnswerer, Answer("Oslo", 3, 7, 0.75, [AnswerSpan("Oslo", 3, 7, 0.75)], 0.125),
     {"answer": "Oslo", "start": 3, "end": 7, "probability": 0.75, "no_answer": 0.125,
      "candidates": [{"text": "Oslo", "start": 3, "end": 7, "probability": 0.75}]}),
    (AnswerSelector, [FoundAnswer("a", 0.5, 3), FoundAnswer("b", 0.25, 1)],
     {"answer": "a", "score": 0.5, "answers": [
         {"answer": "a", "score": 0.5, "number": 3}, {"answer": "b", "score": 0.25, "number": 1}]}),
    (VisualQuestionAnswerer, VisualAnswer("Who?", "a", 0.5, {"a": 0.5}),
     {"answer": "a", "probability": 0.5, "answers": {"a": 0.5}}),
    (VisualQuestionAnswerer, None, {"answer": None, "probability": None, "answers": None}),
    (Tagger, TaggedWords("a", ["a"], ["O"], [0.5], []),
     {"words": ["a"], "labels": ["O"], "probabilities": [0.5], "entities": []}),
    (Translator, "Ja.", {"translation": "Ja."}),
    (TextGenerator, "to be", {"generated_text": "to be"}),
    (WordEmbedder, {"words": ["a"], "similarities": [0.5]},
     {"words": ["a"], "similarities": [0.5]}),
    (Pretrainer, Guess("a [MASK]", [[("b", 0.5)]], "a b"),
     {"filled": "a b", "masks": [[{"word": "b", "probability": 0.5}]]}),
    (Captioner, None, {"caption": None}),
    (SimilarityScorer, 0.5, {"score": 0.5}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("task", "result", "cells"), RESULTS, ids=[f"{i}-{x[0].name}" for i, x in enumerate(RESULTS)]
)
def test_cells_of_predictions(task, result, cells):
    found = task.cells(object.__new__(task), result)
    assert found == cells
    assert list(found) == list(task.predicts)
    for name, kind in task.predicts.items():
        plain = get_origin(kind) or kind
        assert found[name] is None or isinstance(found[name], plain)


def test_the_words_of_a_table_are_not_repeated():
    tagger = object.__new__(Tagger)
    assert list(tagger.predicted_columns("One dog.")) == [
        "words",
        "labels",
        "probabilities",
        "entities",
    ]
    assert list(tagger.predicted_columns(["One", "dog"])) == ["labels", "probabilities", "entities"]


def test_tables_of_pictures(tmp_path):
    """The paths of a table may be those of Windows."""
    (tmp_path / "a").mkdir()
    keras.utils.save_img(tmp_path / "a" / "1.png", np.zeros((4, 4, 3)))
    table = {"file": ["a\\1.png"], "q": ["A dog?"], "y": ["No"]}
    data = {"image_dir": str(tmp_path)}
    captioned = Captioner.read_given(
        table, Captioner.Data(**data), {"image": "file", "caption": "y"}
    )
    assert captioned[0][:2] == (str(tmp_path / "a" / "1.png"), ("no",))
    columns = {"image": "file", "question": "q", "answer": "y"}
    asked = VisualQuestionAnswerer.read_given(table, VisualQuestionAnswerer.Data(**data), columns)
    assert asked[0][:3] == (str(tmp_path / "a" / "1.png"), "A dog?", "No")


def test_columns_are_in_the_signatures():
    """So that they complete in an editor, as the settings do."""
    for call, columns in (
        (TextClassifier.evaluate, {"text", "text_pair", "label", "delimiter"}),
        (TextClassifier.predict, {"text", "text_pair"}),
        (Translator.predict, {"source"}),
        (QuestionAnswerer.explain, {"question", "text"}),
    ):
        parameters = inspect.signature(call).parameters
        assert columns <= parameters.keys()
        for name in columns:
            assert (parameters[name].default, parameters[name].annotation) == (None, "str | None")
            said = re.search(rf"    {name}: (.*)", call.__doc__ or "")
            assert said and re.search("from a table|language, JSON key", said[1])
    explain = inspect.signature(TextClassifier.explain).parameters
    assert explain["label"].annotation != "str | None"  # the class to explain, and no column


def test_what_is_no_table():
    with pytest.raises(TypeError, match=r"`text` is only used if .*text='a' with a list. Leave it"):
        TextClassifier.read_given(EXAMPLES, TextClassifier.Data(), {"text": "a"})
    with pytest.raises(TypeError, match=r"`key` is only used if .*key='a' with a str"):
        TextGenerator.read_given("To be.", TextGenerator.Data(), {"key": "a"})


FRAME = {
    "review": [f"{text} {'abcdefgh'[i % 8] * 3} {i}" for i, (text, _) in enumerate(EXAMPLES)],
    "stars": [5 if label == "good" else 1 for _, label in EXAMPLES],
}
NAMED = {"text": "review", "label": "stars"}
DATA = {"vocabulary_size": 200, "near_duplicates": "anywhere"}
MODEL = {"pair_buckets": 0, "dim": 4}


class Watch(keras.callbacks.Callback):
    """Keeps the losses that callbacks see."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def on_epoch_end(self, epoch, logs=None):
        self.seen.append(logs["val_loss"])


@pytest.fixture(scope="module")
def classifier():
    keras.utils.set_random_seed(1)
    return TextClassifier.create(FRAME, **NAMED, data=DATA, model=MODEL)


@pytest.mark.parametrize("verb", ["predict", "explain"])
def test_unknown_settings_are_refused_before_a_table_is_read(classifier, verb):
    with pytest.raises(TypeError, match="Unknown setting `on_error`"):
        getattr(classifier, verb)({"review": ["a", None]}, on_error="skip")
    with pytest.raises(ValueError, match=r"'review' has no value\)\. Correct them\.$"):
        getattr(classifier, verb)({"review": ["a", None]})


@pytest.mark.slow
def test_a_table_from_beginning_to_end(classifier):
    """The names of the columns stay with the task; labels that are integers are names."""
    watch, settings = Watch(), {"epochs": 2, "batch_size": 12, "verbose": 0}
    lines = []
    run = classifier.fit(
        FRAME, validation_data=FRAME, callbacks=[watch], log=lines.append, **settings
    )
    assert lines[0].startswith(f"the dict: {len(EXAMPLES)} texts of {len(EXAMPLES)} rows. Labels: ")
    assert watch.seen == run.history["val_loss"]
    np.testing.assert_allclose(watch.seen, run.history["val_log_loss"], rtol=1e-5)
    assert classifier.class_names == ("1", "5")
    texts = FRAME["review"][:3]
    assert classifier.predict({"review": texts}) == classifier.predict(texts)
    other = {"x": texts, "label": ["a", "b", "c"]}
    assert classifier.predict(other, text="x") == classifier.predict(texts)
    of_five = {"label": "5", "method": "gradient"}  # here `label` is the class to explain
    explained = classifier.explain(other, text="x", **of_five)
    for one, same in zip(explained, classifier.explain(texts, **of_five), strict=True):
        np.testing.assert_array_equal(one.weights, same.weights)
    report = classifier.evaluate(FRAME, num_bootstrap=0)
    pairs = [(text, int(stars)) for text, stars in zip(*FRAME.values(), strict=True)]
    assert report.to_dict() == classifier.evaluate(pairs, num_bootstrap=0).to_dict()
    with pytest.raises(ValueError, match=r"classes \['1', '5'\]. Received: '5 stars' \(1 texts\)"):
        classifier.evaluate({"review": ["a"], "stars": ["5 stars"]})


@pytest.mark.slow
def test_development_examples_by_the_names_of_keras(classifier):
    settings = {"epochs": 1, "verbose": 0}
    by_split = classifier.fit(FRAME, validation_split=0.25, **settings)
    assert {"val_loss", "val_accuracy"} <= set(by_split.history)
    assert "val_loss" not in classifier.fit(FRAME, FRAME, **settings).history
    for twice in ({"dev": FRAME}, {"validation_data": FRAME}):
        with pytest.raises(ValueError, match="Expected only one of `dev`"):
            classifier.fit(FRAME, validation_split=0.25, **twice, **settings)
    with pytest.raises(ValueError, match="`dev_share` must be below 1"):
        classifier.fit(FRAME, validation_split=1.5, **settings)


@pytest.mark.slow
def test_early_stopping_and_a_run_that_resumes(classifier, tmp_path):
    """A callback ends a run, which the same call does not resume; an interrupted one goes on."""

    def run(folder, *callbacks):
        keras.utils.set_random_seed(1)
        task = TextClassifier.create(FRAME, **NAMED, data=DATA, model=MODEL)
        more = {"epochs": 6, "learning_rate": 3.0, "batch_size": 12, "verbose": 0}
        more |= {"clip_norm": 0.0, "warmup_steps": 0}
        place = tmp_path / folder
        return task.fit(FRAME, validation_data=FRAME, run_dir=place, callbacks=callbacks, **more)

    stopping = [keras.callbacks.EarlyStopping(monitor="val_loss", patience=0)]
    stopped = run("stopped", *stopping)
    assert stopped.complete
    losses = stopped.history["val_loss"]
    assert 2 <= len(losses) < 6
    assert losses[-1] >= losses[-2]
    again = run("stopped", keras.callbacks.EarlyStopping(monitor="val_loss", patience=0))
    assert again.history["val_loss"] == losses

    class Interrupt(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if self.model.optimizer.iterations == 3:
                signal.raise_signal(signal.SIGINT)

    assert not run("interrupted", Interrupt(), *stopping).complete
    resumed = run("interrupted", *stopping)
    assert resumed.complete
    np.testing.assert_allclose(resumed.history["val_loss"], losses, rtol=1e-5)
