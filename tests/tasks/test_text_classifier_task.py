"""The text classifier: learning, figures, explanations, files, the SavedModel, backends."""

import dataclasses
import itertools
import json
import math
import warnings
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
import text_classification_toys
from processes import answer
from sklearn.metrics import accuracy_score, f1_score, log_loss, roc_auc_score
from text_classification_toys import (
    CASES,
    CLASSES,
    EXAMPLES,
    HOSTILE,
    LONG,
    METHODS,
    SMALL,
    TEXTS,
    TOKENIZERS,
    WORDS,
    everything,
    make,
)
from tracing import eagerly

from keras_attn import attention_maps
from keras_attn.explain.methods import path_of
from keras_attn.models import (
    TEXT_CLASSIFIERS,
    BagClassifierConfig,
    TransformerClassifierConfig,
    embedding_and_rest,
)
from keras_attn.records import LabelledText
from keras_attn.tasks import TextClassifier, Translator
from keras_attn.tasks.families.attention_views import classification_view
from keras_attn.tasks.families.class_weights import warn_of_imbalance
from keras_attn.text import CharacterTokenizer
from keras_attn.text.truncation import truncate

EACH = pytest.mark.parametrize("case", CASES)


def quick(*cases):
    """All cases; the others than these are slow."""
    return [pytest.param(c, marks=() if c in cases else pytest.mark.slow) for c in CASES]


# Lengths that fall in several buckets, in no order.
MIXED = [" ".join([*TEXTS, *TEXTS][i : i + i * 7 % 11]) for i in range(30)]
TINY = {"num_heads": 2, "num_layers": 1, "intermediate_dim": 12}
PAIR = [LabelledText("the film was great", "good"), LabelledText("the walk was dull", "bad")]


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    """Untrained classifiers and the folder of their files."""
    folder = tmp_path_factory.mktemp("tasks")
    made = {case: make(case) for case in CASES}
    for case, classifier in made.items():
        classifier.temperature = 1.7
        classifier.save(folder / f"{case}.task")
    return made, folder


@pytest.fixture(scope="module")
def expected(tasks):
    with eagerly():
        return {case: everything(made, METHODS[case]) for case, made in tasks[0].items()}


def small(kind="bag", tokenizer="word_piece", max_length=12, **more):
    """An untrained one of two classes."""
    keras.utils.set_random_seed(0)
    config = {"model": kind, **SMALL, **({"pair_buckets": 0} if kind == "bag" else {})}
    config |= more.pop("config", {})
    return TextClassifier(
        TOKENIZERS[tokenizer],
        ["bad", "good"],
        model=config,
        data={"max_length": max_length, "truncation": more.pop("truncation", None)},
        **more,
    )


@pytest.fixture(scope="module")
def fitted():
    classifier = small(config={"pair_buckets": 50})
    classifier.fit(EXAMPLES, epochs=8, batch_size=8, learning_rate=0.05, verbose=0)
    return classifier


def odds(logits, chosen, several):
    """Log-odds of a class."""
    if several:
        return logits[chosen]
    return logits[chosen] - np.log(np.exp(np.delete(logits, chosen)).sum())


def read_ids(classifier, text):
    """The ids that the model reads, by slices of our own."""
    ids = classifier.tokenizer.encode([text])[0]
    first = classifier.field.start
    room = classifier.max_length - len(first)
    if len(ids) > room:
        head = {"head": room, "tail": 0, "head_tail": room // 4}[classifier.truncation]
        ids = [*ids[:head], *ids[len(ids) - room + head :]]
    return [*first, *ids]


# Training


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "config", "epochs"),
    [
        ("bag", {"hidden_dim": 8}, 12),
        pytest.param("rnn", {"units": 12}, 12, marks=pytest.mark.slow),
        pytest.param("transformer", TINY, 16, marks=pytest.mark.slow),
    ],
)
def test_it_learns(kind, config, epochs):
    classifier = small(kind, config=config)
    history = classifier.fit(
        EXAMPLES,
        EXAMPLES[:8] if kind == "bag" else None,
        epochs=epochs,
        batch_size=12,
        learning_rate=0.05,
        verbose=0,
    )
    scored = {"val_accuracy", "val_macro_f1", "val_log_loss"} if kind == "bag" else set()
    assert set(history.history) == {"loss", "accuracy"} | scored
    assert classifier.evaluate(EXAMPLES, num_bootstrap=0).accuracy.value == 1.0
    assert classifier.predict("a superb and lovely play").label == "good"
    assert [p.label for p in classifier.predict(["boring", "fine"])] == ["bad", "good"]


@pytest.mark.slow
def test_several_labels_are_learnt():
    nouns = {"film": "art", "book": "art", "song": "art", "dish": "food", "walk": "rest"}
    examples = [
        (f"{a} and {b}" if a != b else a, tuple(sorted({nouns[a], nouns[b]})))
        for a in nouns
        for b in nouns
    ] + [("nothing", ()), ("nothing at all", ())]
    tokenizer = TOKENIZERS["word_piece"]
    classifier = TextClassifier(
        tokenizer, ["art", "food", "rest"], multi_label=True, model={"dim": 12, "pair_buckets": 0}
    )
    classifier.fit(examples, epochs=25, batch_size=9, learning_rate=0.05, verbose=0)
    report = classifier.evaluate(examples, num_bootstrap=0)
    assert report.multi_label
    assert report.accuracy.value == 1.0
    found = classifier.predict(["film and walk", "nothing"])
    assert [prediction.label for prediction in found] == [("art", "rest"), ()]
    assert found[1].probabilities["food"] < 0.5


@pytest.mark.slow
def test_fit_changes_what_was_compiled_and_keeps_a_compiled_model():
    classifier = small()
    before = classifier.predict_probabilities(TEXTS)
    explained = classifier.explain(TEXTS[0], method="gradient").weights
    with eagerly():
        classifier.fit(EXAMPLES, epochs=1, batch_size=24, verbose=0)
    assert np.abs(classifier.predict_probabilities(TEXTS) - before).max() > 1e-3
    assert np.abs(classifier.explain(TEXTS[0], method="gradient").weights - explained).max() > 1e-5
    first = classifier.model.optimizer
    with eagerly():
        classifier.fit(EXAMPLES, epochs=1, batch_size=24, verbose=0)
    assert classifier.model.optimizer is not first  # a new schedule
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    classifier.model.compile("sgd", loss, jit_compile=False)
    mine = classifier.model.optimizer
    with eagerly():
        classifier.fit(iter(EXAMPLES), epochs=1, batch_size=24, verbose=0)
    assert classifier.model.optimizer is mine
    classifier.compile(total_steps=9, ema_momentum=0.9, weight_decay=0.1)
    assert isinstance(mine := classifier.model.optimizer, keras.optimizers.AdamW)
    assert (mine.use_ema, mine.global_clipnorm) == (True, 1.0)


@pytest.mark.slow
def test_the_loss_of_validation_is_the_log_loss():
    examples = [(text, CLASSES[i % 3]) for i, text in enumerate(MIXED[:21])]
    classifier = make("rnn")
    classifier.compile(total_steps=1)
    batches = classifier.dataset(examples, batch_size=4, shuffle=False)
    assert len(batches) > 3
    results = classifier.model.evaluate(batches, verbose=0, return_dict=True)
    report = classifier.evaluate(examples, num_bootstrap=0)
    assert results["accuracy"] == pytest.approx(report.accuracy.value, abs=1e-6)
    nats = -np.log([classifier.predict(text).probabilities[name] for text, name in examples])
    assert report.log_loss.value == pytest.approx(nats.mean(), rel=1e-5)
    # Rows that only fill a batch count nothing: on every batch, the sum over its own texts.
    ids, labels, weights = batches[0]
    logits = keras.ops.convert_to_numpy(classifier.model(ids)).astype("float64")
    of_rows = np.log(np.exp(logits).sum(1)) - logits[np.arange(len(ids)), labels]
    loss = classifier.model.test_on_batch(ids, labels, weights)[0]
    assert loss == pytest.approx((of_rows * weights).sum() / len(ids), rel=1e-5)


def test_class_weights():
    examples = [("fine", "good")] * 6 + [("dull", "bad")] * 2
    classifier = small()

    def weights(class_weight):
        batches = classifier.dataset(examples, class_weight, batch_size=8, shuffle=False)
        (_, labels, found), *more = batches
        assert not more
        return [set(found[labels == number].tolist()) for number in (0, 1)]

    assert weights(None) == [{1.0}, {1.0}]
    assert weights("balanced") == [{2.0}, {np.float32(2 / 3)}]
    assert weights({"good": 0.5, "bad": 3}) == [{3.0}, {0.5}]
    assert weights({"bad": 3}) == [{3.0}, {1.0}]


@pytest.mark.slow
def test_imbalance_is_named():
    classifier = small()
    examples = [("fine", "good")] * 11 + [("dull", "bad")]
    with pytest.warns(UserWarning, match=r"uneven \(bad: 1, good: 11\).*balanced") as found:
        classifier.fit(examples, epochs=1, verbose=0)
    assert found[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classifier.fit(examples, epochs=1, class_weight="balanced", verbose=0)
        warn_of_imbalance([label for _, label in examples[1:]], classifier.class_names)
    several = [("fine", ("good",))] * 11 + [("dull", ("bad",))]
    with pytest.warns(UserWarning, match=r"look at macro F1, and consider class_weight"):
        warn_of_imbalance([label for _, label in several], classifier.class_names)


@pytest.mark.slow
def test_token_weights_begin_with_what_the_texts_say():
    classifier = small(config={"pair_buckets": 40})
    layers = {layer.name: layer for layer in classifier.model.layers}
    ids = classifier.tokenizer.encode(TEXTS)
    superb = ids[TEXTS.index("the film was superb")][-1]
    classifier.initialize_token_weights(EXAMPLES)
    weights = np.asarray(layers["weighting"].get_token_weights())
    # In 6 of 24 texts of one class, in none of the other; both have as many tokens in all.
    assert weights[superb] == pytest.approx(math.log(7), rel=1e-3)
    assert weights[ids[0][0]] == pytest.approx(0.01, rel=1e-3)
    pairs = np.asarray(layers["pairs"](np.array([ids[0]])))[0, :-1]
    classifier.initialize_token_weights(EXAMPLES, "idf")
    weights = np.asarray(layers["weighting"].get_token_weights())
    assert weights[superb] == pytest.approx(math.log(49 / 7) + 1, rel=1e-4)
    rows = np.asarray(layers["pairs"](np.array(ids)))[:, :-1]
    count = sum(pairs[0] in row for row in rows)
    assert 8 <= count < 48  # "the film", and what has the same hash
    of_pairs = np.asarray(layers["pair_weighting"].get_token_weights())
    assert of_pairs[pairs[0]] == pytest.approx(math.log(49 / (1 + count)) + 1, rel=1e-4)
    # What is cut off is not counted.
    short = small(max_length=2, truncation="head")
    short.initialize_token_weights(EXAMPLES, "idf")
    weights = np.asarray(short.model.get_layer("weighting").get_token_weights())
    assert weights[superb] == pytest.approx(math.log(49) + 1, rel=1e-4)


# Use


@pytest.mark.quick("bag-7")
@pytest.mark.parametrize(
    ("case", "batch_size"),
    [
        ("bag", 7),
        pytest.param("rnn", 7, marks=pytest.mark.slow),
        pytest.param("first", 7, marks=pytest.mark.slow),
        ("several", 7),
        pytest.param("bag", 64, marks=pytest.mark.slow),
        pytest.param("several", 1, marks=pytest.mark.slow),
    ],
)
def test_predictions_by_hand(case, batch_size, eager):
    """Each text alone through the plain model; also order, truncation and padding."""
    classifier = make(case, max_length=36)
    classifier.temperature = 1.7
    texts = [*HOSTILE, *MIXED[:6]] if batch_size != 1 else [*HOSTILE[3:5], *MIXED[:4]]
    assert max(len(row) for row in classifier.tokenizer.encode(texts)) > 36
    logits = classifier.predict_logits(texts, batch_size)
    assert (logits.shape, logits.dtype) == ((len(texts), 3), np.float32)
    for text, row in zip(texts, logits, strict=True):
        alone = np.array([read_ids(classifier, text) or [0]], "int32")
        plain = keras.ops.convert_to_numpy(classifier.model(alone))[0]
        np.testing.assert_allclose(row, plain, atol=2e-6)
    powers = np.exp(logits.astype("float64") / 1.7)
    several = CASES[case][2].get("multi_label", False)
    by_hand = powers / (1 + powers) if several else powers / powers.sum(1, keepdims=True)
    found = classifier.predict_probabilities(iter(texts), batch_size)
    np.testing.assert_allclose(found, by_hand, atol=1e-6)
    for row, prediction in zip(
        found, classifier.predict(texts, batch_size=batch_size), strict=True
    ):
        names = tuple(name for name, p in zip(CLASSES, row, strict=True) if p >= 0.5)
        assert prediction.label == (names if several else CLASSES[row.argmax()])
        assert list(prediction.probabilities.items()) == list(
            zip(CLASSES, map(float, row), strict=True)
        )


@EACH
def test_nothing_to_do(tasks, case):
    classifier = tasks[0][case]
    assert classifier.predict([]) == []
    assert classifier.explain([]) == []
    assert classifier.predict_probabilities([]).shape == (0, 3)
    assert classifier.logits_of_ids([]).shape == (0, 3)
    logits, weights = classifier.explain_ids([])
    assert (logits.shape, weights) == ((0, 3), [])


@pytest.mark.slow
@pytest.mark.parametrize("case", quick("bag", "several"))
def test_hostile_texts(tasks, case, eager):
    classifier = tasks[0][case]
    for method in METHODS[case]:
        for text, found in zip(HOSTILE, classifier.explain(HOSTILE, method=method), strict=True):
            assert found.text == text
            assert np.isfinite(found.weights).all()
            assert len(found.tokens) <= 12
            assert found.html()
            alone = classifier.explain(text, method=method)
            np.testing.assert_allclose(alone.weights, found.weights, atol=1e-6)
            assert alone.tokens == found.tokens
    # A lone surrogate in Python is what its bytes are.
    broken = classifier.predict_probabilities(["a\ud800b", "a\ufffd\ufffd\ufffdb"])
    np.testing.assert_allclose(broken[0], broken[1], atol=1e-6)
    assert classifier.explain("a\ud800b").offsets[-1][1] == 3


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_texts_that_look_alike_are_classified_alike(tokenizer, eager):
    """White space and combined marks; the graph is tried with them in every export."""
    classifier = small(tokenizer=tokenizer)
    plain = "The caf\u00e9 was great"
    alike = [plain, "  The  caf\u00e9\u00a0was\tgreat \n", "The cafe\u0301 was great"]
    found = classifier.explain(alike)
    for text, each in zip(alike, found, strict=True):
        assert each.tokens == found[0].tokens
        assert each.probabilities == found[0].probabilities
        assert each.text == text
        start, end = each.offsets[-1]  # of a part of the last word, with nothing behind it
        assert start < end
        assert text[:end].endswith("great")


@pytest.mark.slow
@pytest.mark.parametrize("case", ["bag", "rnn"])
def test_a_megabyte(tasks, case):
    classifier = tasks[0][case]
    text = "the film was great, and " * 45_000
    found = classifier.explain(["short", text])[1]
    assert len(found.tokens) == 12
    assert found.offsets[-1][1] >= len(text) - 1
    end = text[-200:]
    if case == "bag":  # of which the tail alone is read
        np.testing.assert_allclose(
            classifier.predict_logits(text), classifier.predict_logits(end), atol=1e-5
        )


@pytest.mark.slow
def test_evaluation_is_that_of_scikit_learn(fitted):
    rng = np.random.default_rng(0)
    examples = [(text, ["bad", "good"][rng.integers(2)]) for text in TEXTS]
    report = fitted.evaluate(examples, batch_size=5, num_bootstrap=20)
    labels = np.array([label == "good" for _, label in examples]).astype(int)
    found = fitted.predict_probabilities(TEXTS).astype("float64")
    found /= found.sum(1, keepdims=True)
    assert report.accuracy.value == accuracy_score(labels, found.argmax(1))
    assert report.macro_f1.value == pytest.approx(
        f1_score(labels, found.argmax(1), average="macro")
    )
    assert report.auc.value == pytest.approx(roc_auc_score(labels, found[:, 1]))
    assert report.log_loss.value == pytest.approx(log_loss(labels, found), rel=1e-5)
    assert report.accuracy.low <= report.accuracy.value <= report.accuracy.high
    assert report.class_names == ("bad", "good")
    assert "true / predicted" in str(report)
    with pytest.raises(ValueError, match=r"\['bad', 'good'\]. Received: 'so-so' \(1 texts\)"):
        fitted.evaluate([("fine", "good"), ("mixed", "so-so")])


def test_evaluation_of_several_labels(tasks):
    classifier = tasks[0]["several"]
    labels = [("bad",), (), ("bad", "good"), CLASSES, ("good",), ("na\u00efve",)]
    report = classifier.evaluate(list(zip(TEXTS[:6], labels, strict=True)), num_bootstrap=0)
    true = np.array([[name in label for name in CLASSES] for label in labels])
    found = classifier.predict_probabilities(TEXTS[:6]).astype("float64")
    named = [[name in p.label for name in CLASSES] for p in classifier.predict(TEXTS[:6])]
    assert report.accuracy.value == accuracy_score(true, named)
    nats = -np.log(np.where(true, found, 1 - found)).mean()
    assert report.log_loss.value == pytest.approx(nats, rel=1e-5)


@pytest.mark.slow
def test_few_examples_do_not_make_it_certain():
    """All right: the likelihood wants a temperature of 0."""
    classifier = make("bag")
    examples = [(text, classifier.predict(text).label) for text in MIXED]
    assert classifier.calibrate(examples) == 0.2


@pytest.mark.slow
@pytest.mark.parametrize("case", ["bag", pytest.param("several", marks=pytest.mark.slow)])
def test_calibration(case, tmp_path):
    """Logits that are five times too large are found out, and no label changes."""
    classifier = make(case)
    truth = classifier.predict_probabilities(MIXED)
    rng = np.random.default_rng(0)
    texts, labels = MIXED * 20, []
    for row in np.tile(truth, (20, 1)):
        if case == "several":
            labels.append(tuple(np.array(CLASSES)[rng.random(3) < row].tolist()))
        else:
            labels.append(CLASSES[rng.choice(3, p=row / row.sum())])
    head = classifier.model.get_layer("head")
    for weight in head.weights:
        weight.assign(weight * 5)
    examples = list(zip(texts, labels, strict=True))
    before = classifier.evaluate(examples, num_bootstrap=0)
    named = [prediction.label for prediction in classifier.predict(texts)]
    temperature = classifier.calibrate(examples, batch_size=32)
    assert temperature == classifier.temperature == pytest.approx(5, rel=0.2)
    after = classifier.evaluate(examples, num_bootstrap=0)
    assert after.log_loss.value < before.log_loss.value - 0.05
    assert after.accuracy == before.accuracy
    assert [prediction.label for prediction in classifier.predict(texts)] == named
    again = classifier.calibrate(examples, batch_size=32)
    assert again == temperature  # not on top of the other
    classifier.save(tmp_path / "c.task")
    loaded = TextClassifier.load(tmp_path / "c.task")
    assert loaded.temperature == temperature
    np.testing.assert_allclose(
        loaded.predict_probabilities(texts[:5]), classifier.predict_probabilities(texts[:5])
    )


# Explanations


@pytest.mark.slow
@pytest.mark.parametrize("case", [pytest.param("rnn", marks=pytest.mark.slow), "several"])
def test_attention_is_that_of_the_pooling(case):
    classifier = make(case, max_length=40)
    texts = MIXED[:6]  # of all lengths
    for text, found in zip(texts, classifier.explain(texts, batch_size=4), strict=True):
        ids = read_ids(classifier, text)
        assert found.method == "attention"
        if not ids:
            assert (found.tokens, found.weights.shape) == ((), (0,))
            continue
        (maps,) = attention_maps(classifier.model, np.array([ids])).select("pooling")
        np.testing.assert_allclose(found.weights, maps[0], atol=2e-6)
        assert found.weights.sum() == pytest.approx(1, abs=1e-5)
        assert found.weights.min() >= 0
        assert found.probabilities == pytest.approx(
            classifier.predict(text).probabilities, abs=1e-6
        )


@pytest.mark.quick("0")
@pytest.mark.parametrize("pairs", [0, 60])
def test_attention_of_a_bag_by_hand(pairs):
    keras.utils.set_random_seed(1)
    classifier = TextClassifier(
        TOKENIZERS["word_piece"],
        CLASSES,
        model={"dim": 4, "pair_buckets": pairs},
        data={"max_length": 40},
    )
    layers = {layer.name: layer for layer in classifier.model.layers}
    rng = np.random.default_rng(0)
    weights = {}
    for name in ("weighting", "pair_weighting")[: 1 + bool(pairs)]:
        weights[name] = rng.uniform(0.1, 3, layers[name].vocabulary_size)
        layers[name].set_token_weights(weights[name])
    for text, found in zip(MIXED, classifier.explain(MIXED), strict=True):
        ids = read_ids(classifier, text)
        share = weights["weighting"][ids]
        share = share / share.sum() if ids else share
        if pairs and len(ids) > 1:
            of_pairs = np.asarray(layers["pairs"](np.array([ids])))[0, :-1]
            each = weights["pair_weighting"][of_pairs]
            each = each / each.sum() / 2
            halves = np.append(each, 0) + np.append(0, each)
            share = (share + halves) / 2
        np.testing.assert_allclose(found.weights, share, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", ["first", *(pytest.param(c, marks=pytest.mark.slow) for c in ("bag", "rnn", "several"))]
)
def test_gradients_are_slopes(case, eager):
    """What each embedding adds, by finite differences of the same model in float64."""
    classifier = make(case, max_length=16)
    exact = make(case, max_length=16, dtype="float64")
    several = classifier.multi_label
    embed, rest = embedding_and_rest(exact.model)
    texts = [HOSTILE[0], LONG, "dull"]
    for label in (None, "bad"):
        for text, found in zip(
            texts, classifier.explain(texts, method="gradient", label=label), strict=True
        ):
            ids = np.array([read_ids(classifier, text)], "int32")
            parts = [keras.ops.convert_to_numpy(e).astype("float64") for e in embed(ids)]
            logits = keras.ops.convert_to_numpy(exact.model(ids))[0]
            chosen = CLASSES.index(label) if label else int(logits.argmax())
            assert found.label == CLASSES[chosen]
            first = len(classifier.field.start)
            slopes = np.zeros(ids.shape[1])
            for number in range(len(parts)):
                # All positions at once: row s has that of position s made longer.
                rows, at = ids.shape[1], np.arange(ids.shape[1])
                ends = []
                for sign in (1, -1):
                    moved = [np.repeat(p, rows, axis=0) for p in parts]
                    moved[number][at, at] *= 1 + sign * 1e-5
                    out = rest([*moved, np.repeat(ids, rows, axis=0)], training=False)
                    ends.append([odds(row, chosen, several) for row in np.asarray(out)])
                slope = (np.array(ends[0]) - np.array(ends[1])) / 2e-5
                if number:  # of pairs, split evenly
                    slope = 0.5 * (slope + np.append(0, slope[:-1]))
                slopes += slope
            assert np.abs(slopes).max() > 1e-3
            np.testing.assert_allclose(found.weights, slopes[first:], atol=2e-6, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("several", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_gradients_of_a_linear_bag_sum_to_the_odds(several):
    classifier = small("bag", "byte_pair", 24, config={"pair_buckets": 50}, multi_label=several)
    rng = np.random.default_rng(0)
    for weight in classifier.model.trainable_weights:
        weight.assign(rng.normal(scale=0.5, size=weight.shape))
    bias = np.asarray(classifier.model.get_layer("head").bias)
    logits = classifier.predict_logits(MIXED)
    for label in (0, 1):
        named = ["bad", "good"][label]
        for row, found in zip(
            logits, classifier.explain(MIXED, method="gradient", label=named), strict=True
        ):
            sides = row - bias
            expected = sides[label] - (0 if several else sides[1 - label])
            assert found.weights.sum() == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow
def test_heads_of_a_transformer_without_weights(tasks):
    """What they look at in each text as the classifier reads it, one without words too."""
    classifier = tasks[0]["first"]
    study = classifier.explain(HOSTILE, method="attention")
    for text, view in zip(HOSTILE, study.views, strict=True):
        expected = classification_view(classifier, text)
        assert (view.parts[0].keys, view.title) == (expected.parts[0].keys, expected.title)
        found, alone = (v.parts[0].weights[0] for v in (view, expected))
        np.testing.assert_allclose(found, alone, atol=1e-5)
    assert study.roles.texts == 6
    assert "<title>Why?</title>" in classifier.page(study, "Why?")
    # No token at all: a row of padding.
    classifier = small("transformer", config={**TINY, "pooling": "average"})
    study = classifier.explain("", method="attention")
    assert (study.views[0].parts[0].keys, study.roles) == (("[PAD]",), None)
    assert "no word" in classifier.page(study, "Why?")
    assert classifier.explain(["", "so"], method="attention").roles.texts == 1


@pytest.mark.slow
def test_what_decides_is_found(fitted):
    """The words of praise and blame, which alone tell the classes apart."""
    for text, label in EXAMPLES[::5]:
        for method in ("attention", "gradient", "integrated_gradients"):
            found = fitted.explain(text, method=method)
            assert found.label == label
            if method != "attention":
                assert found.strongest(1)[0][1] > 0
                assert found.strongest(1)[0][0] in WORDS[label]
    against = fitted.explain("the film was great", method="gradient", label="bad")
    assert against.label == "bad"
    assert min(against.strongest(), key=lambda piece: piece[1])[0] == "great"
    assert fitted.explain("the film was great").method == "attention"
    assert small(config={"token_weights": "none"}).explain("dull").method == "integrated gradients"


@pytest.mark.slow
@pytest.mark.parametrize("case", ["first", "several"])
def test_weights_are_parts_of_log_odds_with_the_temperature(case, eager):
    """For one label of three, and for several labels."""
    classifier, texts = make(case), ["the film was great", "dull"]
    classifier.temperature = 0.25
    embed, rest = embedding_and_rest(classifier.model)
    path = path_of("integrated_gradients", classifier.tokenizer, classifier.field)
    found = classifier.explain(texts, method="integrated_gradients")
    rows = classifier.field.rows(classifier.tokenizer.encode(texts))
    for (row, _), explained in zip(rows, found, strict=True):
        ids, number = keras.ops.array([row]), CLASSES.index(explained.label)
        odds = []
        for logits in (classifier.model(ids), rest([*embed(path.blank(ids)), ids])):
            z = np.array(logits)[0].astype("float64") / 0.25
            others = 0.0 if case == "several" else np.log(np.exp(np.delete(z, number)).sum())
            odds.append(z[number] - others)
        error = abs(explained.weights.sum() - (odds[0] - odds[1]))
        assert error <= 0.021 * np.abs(explained.weights).sum()
        assert abs(odds[0] - odds[1]) > 0.1


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "layers", "epochs"), [("bert", 1, 16), ("transformer", 2, 10)])
def test_the_decisive_word_has_the_right_sign(kind, layers, epochs):
    """Of models with layer norms, where the sign of gradient times input depends on the seed."""
    rng, data = np.random.default_rng(0), []
    for number in range(240):
        words = list(rng.choice("film plot the a was it seen here".split(), size=5))
        words.insert(rng.integers(6), ("bad", "good")[number % 2])
        data.append((" ".join(words), ("bad", "good")[number % 2]))
    sizes = {"model": kind, "dim": 16, "num_layers": layers, "num_heads": 2}
    settings = {"tokenizer": "word_piece", "vocabulary_size": 100, "max_length": 32}
    keras.utils.set_random_seed(0)
    classifier = TextClassifier.create(data[60:], model=sizes, data=settings)
    classifier.fit(data[60:], epochs=epochs, learning_rate=0.01, verbose=0)
    shown = [(text, label) for text, label in data[:60] if classifier.predict(text).label == label]
    assert len(shown) > 57
    found = classifier.explain([x for x, _ in shown], method="integrated_gradients")
    weights = [e.weights[e.tokens.index(label)] for e, (_, label) in zip(found, shown, strict=True)]
    assert np.mean(np.array(weights) > 0) > 0.97


QUICK = [
    ("byte_pair", "attention", "head_tail"),
    ("word_piece", "first", "head"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tokenizer", "pooling", "truncation"),
    [
        pytest.param(*each, marks=[] if each in QUICK else pytest.mark.slow)
        for each in itertools.product(
            TOKENIZERS, ["attention", "first"], ["head", "tail", "head_tail"]
        )
    ],
)
def test_offsets_are_of_the_words_that_are_read(tokenizer, pooling, truncation, eager):
    config = {"num_heads": 2, "num_layers": 1, "intermediate_dim": 8, "pooling": pooling}
    classifier = small("transformer", tokenizer, 9, config=config, truncation=truncation)
    room = 9 - (pooling == "first")
    text = "The GREAT film; the dull book: the lovely song. A \U0001f600 walk"
    every, offsets = classifier.tokenizer.encode_with_offsets(text)
    assert len(every) > 12
    found = classifier.explain(text, method="gradient")
    assert len(found.tokens) == len(found.weights) == room
    kept = truncate(list(range(len(every))), room, truncation)
    assert list(found.offsets) == [offsets[k] for k in kept]
    for token, (start, end) in zip(found.tokens, found.offsets, strict=True):
        plain = token.removeprefix("##").replace("\u2581", " ")
        if token != "[UNK]" and "<0x" not in token:
            assert (text if tokenizer == "byte_pair" else text.lower())[start:end] == plain
    if truncation != "tail":
        assert found.offsets[0][0] == 0
    if truncation != "head":
        assert found.offsets[-1][1] == len(text)
    # And each weight is that of its token: of the ids that the model reads, one by one.
    ids = read_ids(classifier, text)
    assert ids[9 - room :] == [every[k] for k in kept]
    _, (weights,) = classifier.explain_ids([every], "gradient")
    np.testing.assert_array_equal(weights, found.weights.astype("float32"))


# Settings and errors


@pytest.mark.slow
def test_sizes_come_from_the_arguments(eager):
    tokenizer = TOKENIZERS["word_piece"]
    classifier = TextClassifier(tokenizer, ["a", "b"], model=BagClassifierConfig(5, 7))
    assert classifier.config == BagClassifierConfig(tokenizer.vocabulary_size, 2)
    tiny = {"model": "transformer", "dim": 8, "num_heads": 2, "intermediate_dim": 8}
    assert isinstance(
        TextClassifier(tokenizer, ["a", "b"], model=tiny).config, TransformerClassifierConfig
    )
    assert isinstance(TextClassifier(tokenizer, ["a", "b"]).config, BagClassifierConfig)
    # An object and a dict give the same, and stay as they are.
    for name, kind in TEXT_CLASSIFIERS.items():
        config = kind(tokenizer.vocabulary_size, 2, dim=16)
        if name == "bert":
            config = dataclasses.replace(config, sequence_length=256)  # `max_length`
        elif name == "roberta":
            config = dataclasses.replace(config, first_position=tokenizer.pad_id + 1)
        given = {"model": name, **config.to_dict()}
        for form in (config, given):
            assert TextClassifier(tokenizer, ["a", "b"], model=form).config == config
        assert given == {"model": name, **config.to_dict()}
    # Learned positions reach as far as texts do.
    learned = TextClassifier(
        tokenizer, ["a", "b"], model={**tiny, "positions": "learned"}, data={"max_length": 600}
    )
    assert learned.config.sequence_length == 600
    assert np.isfinite(learned.predict_logits("film " * 700)).all()
    with pytest.raises(ValueError, match="at least max_length=600"):
        TextClassifier(
            tokenizer,
            ["a", "b"],
            model={**tiny, "positions": "learned", "sequence_length": 512},
            data={"max_length": 600},
        )


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda c: c.predict(7), TypeError, "Expected a string or a list"),
        (lambda c: c.predict(["a", b"b"]), TypeError, "at position 1"),
        (lambda c: c.predict({"a": 1}), TypeError, "Received: the dict with 1 of type int"),
        (lambda c: c.predict("a", batch_size=0), ValueError, "batch_size"),
        (lambda c: c.explain(None), TypeError, "Expected a string"),
        (
            lambda c: c.explain("a", method="lime"),
            ValueError,
            "'gradient', 'integrated_gradients'. Received: 'lime'",
        ),
        (
            lambda c: c.explain("a", method="gradient", label="ugly"),
            ValueError,
            "'bad', 'good'.*'ugly'",
        ),
        (
            lambda c: c.explain("a", method=None, label="ugly"),
            ValueError,
            r"'good'\]. Received: 'ugly'",
        ),
        (
            lambda c: c.explain("a", method="attention", label="good"),
            ValueError,
            "requires method='gradient'",
        ),
        (lambda c: c.export("x", method="lime"), ValueError, "`method` must be one of"),
        (lambda c: c.fit([]), ValueError, "at least one labelled text"),
        (lambda c: c.fit(["abc"]), ValueError, r"Expected \(text, label\) pairs"),
        (lambda c: c.fit([("a", 1)]), ValueError, "among the 2 classes .* Received: '1'"),
        (lambda c: c.fit([("a", "ugly")] * 3), ValueError, r"'ugly' \(3 texts\)"),
        (lambda c: c.fit([("a", ("good",))]), ValueError, "multi_label=True"),
        (lambda c: c.fit(PAIR, [("a", "ugly")]), ValueError, "ugly"),
        (lambda c: c.dataset(PAIR, "even"), ValueError, "`class_weight` must be None"),
        (lambda c: c.dataset(PAIR, {"ugly": 1}), ValueError, "'good'.*Received: 'ugly'. Correct"),
        (lambda c: c.dataset(PAIR, {"good": 1, "bad": -1}), ValueError, "finite numbers >= 0"),
        (lambda c: c.dataset(PAIR, batch_size=0), ValueError, "batch_size"),
        (lambda c: c.calibrate([]), ValueError, "at least one"),
        (lambda c: c.evaluate([]), ValueError, "at least one"),
        (lambda c: c.initialize_token_weights(PAIR, "tf"), ValueError, "association.*'tf'"),
        (lambda c: c.logits_of_ids([[1, 0, 1]]), ValueError, "pad_id"),
        (lambda c: TextClassifier("abc", ["a", "b"]), TypeError, "byte_pair|BytePair"),
        (
            lambda c: TextClassifier(CharacterTokenizer.train(["ab"]), ["a", "b"]),
            TypeError,
            "CharacterTokenizer",
        ),
        (lambda c: TextClassifier(c.tokenizer, ["a"]), ValueError, "at least two classes"),
        (lambda c: TextClassifier(c.tokenizer, ["a", "a"]), ValueError, "different strings"),
        (lambda c: TextClassifier(c.tokenizer, ["a", ""]), ValueError, "different strings"),
        (lambda c: TextClassifier(c.tokenizer, [0, 1]), ValueError, "different strings"),
        (lambda c: TextClassifier(c.tokenizer, "ab"), TypeError, "the string 'ab'"),
        (lambda c: TextClassifier(c.tokenizer, "ab", model={"model": "cnn"}), TypeError, "string"),
        (
            lambda c: TextClassifier(c.tokenizer, ["a", "b"], model={"model": "cnn"}),
            ValueError,
            "model='bag': .*model='rnn': .*model='transformer': .*cnn",
        ),
        (lambda c: TextClassifier(c.tokenizer, ["a", "b"], model=7), ValueError, "Received: 7"),
        (
            lambda c: TextClassifier(c.tokenizer, ["a", "b"], model={"model": "rnn", "heads": 3}),
            ValueError,
            r"'heads': 3\}, with \['heads'\], which are not settings of 'rnn\'",
        ),
        (
            lambda c: TextClassifier(c.tokenizer, ["a", "b"], model={"model": "rnn", "units": 3}),
            ValueError,
            "even",
        ),
        (
            lambda c: TextClassifier(c.tokenizer, ["a", "b"], model=None, data={"max_length": 1}),
            ValueError,
            "max_length",
        ),
        (
            lambda c: TextClassifier(c.tokenizer, ["a", "b"], model=None, data={"max_length": 9.0}),
            TypeError,
            "max_length",
        ),
        (
            lambda c: TextClassifier(
                c.tokenizer, ["a", "b"], model=None, data={"max_length": 9, "truncation": "middle"}
            ),
            ValueError,
            "'head_tail'.*'middle'",
        ),
    ],
)
def test_errors(fitted, call, error, message):
    with pytest.raises(error, match=message):
        call(fitted)


def test_what_a_model_cannot_do(tasks):
    with pytest.raises(ValueError, match="pools its tokens without weights"):
        small(config={"token_weights": "none"}).explain("a", method="attention")
    with pytest.raises(ValueError, match="pools its tokens without weights"):
        tasks[0]["first"].explain_ids([[9]], "attention")
    with pytest.raises(ValueError, match="pools its tokens without weights"):
        tasks[0]["first"].export("x", method="attention")
    with pytest.raises(ValueError, match="requires method='gradient'"):
        tasks[0]["first"].explain("a", method="attention", label="bad")
    with pytest.raises(ValueError, match="at least one text"):
        tasks[0]["first"].explain([], method="attention")
    with pytest.raises(ValueError, match="is a setting of the loss"):
        tasks[0]["several"].dataset([("a", ("bad",))], "balanced")
    with pytest.raises(ValueError, match="token weights"):
        tasks[0]["rnn"].initialize_token_weights([("a", "bad"), ("b", "good")])


# Files


@pytest.mark.slow
@pytest.mark.parametrize("case", quick("several"))
def test_files(tasks, case, eager):
    classifier, path = tasks[0][case], tasks[1] / f"{case}.task"
    loaded = TextClassifier.load(path)
    for name in ("config", "class_names", "max_length", "truncation", "multi_label"):
        assert getattr(loaded, name) == getattr(classifier, name)
    assert loaded.temperature == 1.7
    assert everything(loaded, METHODS[case]) == everything(classifier, METHODS[case])
    with pytest.raises(ValueError, match="holds a TextClassifier"):
        Translator.load(path)


@pytest.mark.slow
def test_a_loaded_one_learns_on(tasks):
    loaded = TextClassifier.load(tasks[1] / "bag.task")
    examples = [*EXAMPLES, ("neither here nor there", "na\u00efve")] * 2
    before = loaded.evaluate(examples, num_bootstrap=0).log_loss.value
    with eagerly():
        loaded.fit(examples, epochs=2, class_weight="balanced", learning_rate=0.05, verbose=0)
    assert loaded.evaluate(examples, num_bootstrap=0).log_loss.value < before


@pytest.mark.slow
def test_mixed_precision(fitted, tmp_path, eager, unsaved):
    fitted.save(tmp_path / "f.task")
    half = TextClassifier.load(tmp_path / "f.task", dtype="mixed_bfloat16")
    assert half.model.get_layer("head").dtype_policy.name == "mixed_bfloat16"
    found = half.predict_probabilities(TEXTS)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, fitted.predict_probabilities(TEXTS), atol=0.05)
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-6)
    for method in METHODS["bag"]:
        mine, other = (c.explain(TEXTS[0], method=method).weights for c in (half, fitted))
        np.testing.assert_allclose(mine, other, atol=0.05 * np.abs(other).max())
    half.save(tmp_path / "h.task")
    again = TextClassifier.load(tmp_path / "h.task")
    assert again.model.get_layer("head").dtype_policy.name == "mixed_bfloat16"
    np.testing.assert_array_equal(
        again.predict_probabilities(TEXTS), half.predict_probabilities(TEXTS)
    )
    again.export(tmp_path / "m", method="gradient")
    assert len(unsaved) == 1


# The SavedModel

SERVE = """
import json, sys
assert sys.modules['keras_attn'] is sys.modules['keras'] is sys.modules['tensorflow_text'] is None
import tensorflow as tf
calls, found = json.loads(sys.argv[1]), []
for path in sys.argv[2:]:
    loaded = tf.saved_model.load(path)
    serve = loaded.signatures['serving_default']
    for texts in calls:
        outputs = serve(text=tf.constant([bytes.fromhex(t) for t in texts], tf.string))
        found.append({
            name: [value.dtype.name, list(value.shape), value.numpy().tolist()]
            for name, value in outputs.items()
        })
print(json.dumps(found, default=bytes.decode))
"""
SERVED = {"bag": "gradient", "rnn": "attention", "first": "gradient", "several": "attention"}
BROKEN = [b"\xffgreat", b"the \xed\xa0\x80 film", b"\xf0\x9f", b"caf\xc3"]
CALLS = [
    [text.encode() for text in HOSTILE],
    [b"the film was great"],
    [],
    BROKEN,
    [b"", b""],
    [text.encode() for text in MIXED],
]


@pytest.fixture(scope="module")
def served(tasks, tmp_path_factory):
    """What SavedModels give in a process without our package, and without Keras, and their folder.

    Of a case that is asked for.
    """
    folder, found = tmp_path_factory.mktemp("export"), {}
    calls = json.dumps([[text.hex() for text in call] for call in CALLS])

    def of(case):
        if case not in found:
            method = SERVED[case]
            given = None if case in ("rnn", "several", "first") else method  # the default
            tasks[0][case].export(folder / case, method=given)
            found[case] = answer("alone", SERVE, calls, folder / case)
        return folder / case, found[case]

    return of


def check_outputs(classifier, method, call, outputs):
    """Outputs are lists of dtype, shape and values."""
    texts = [text.decode("utf-8", "replace") for text in call]
    explained = classifier.explain(texts, method=method)
    width = max((len(e.tokens) for e in explained), default=0)
    names = {"probabilities", "classes", "tokens", "weights"}
    assert set(outputs) == {*names, "chosen" if classifier.multi_label else "label"}
    value = {name: content[2] for name, content in outputs.items()}
    assert {name: content[:2] for name, content in outputs.items() if name in names} == {
        "probabilities": ["float32", [len(texts), 3]],
        "classes": ["string", [len(texts), 3]],
        "tokens": ["string", [len(texts), width]],
        "weights": ["float32", [len(texts), width]],
    }
    assert value["classes"] == [list(CLASSES)] * len(texts)
    np.testing.assert_allclose(
        np.reshape(value["probabilities"], (-1, 3)),
        classifier.predict_probabilities(texts),
        atol=1e-5,
    )
    if classifier.multi_label:
        assert outputs["chosen"][0] == "bool"
        chosen = [
            tuple(name for name, x in zip(CLASSES, row, strict=True) if x)
            for row in value["chosen"]
        ]
        assert chosen == [prediction.label for prediction in classifier.predict(texts)]
    else:
        assert value["label"] == [prediction.label for prediction in classifier.predict(texts)]
    for e, tokens, weights in zip(explained, value["tokens"], value["weights"], strict=True):
        assert tokens == [*e.tokens, *[""] * (width - len(e.tokens))]
        np.testing.assert_allclose(weights[: len(e.tokens)], e.weights, atol=1e-5)
        assert not any(weights[len(e.tokens) :])


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    ["bag", *(pytest.param(c, marks=pytest.mark.slow) for c in ("rnn", "first", "several"))],
)
def test_the_saved_model_gives_what_python_gives(tasks, served, case):
    path, found = served(case)
    assert (path / "requirements.txt").read_text().startswith("tensorflow==2.21")
    for call, outputs in zip(CALLS, found, strict=True):
        check_outputs(tasks[0][case], SERVED[case], call, outputs)


@pytest.mark.parametrize(
    ("case", "method"),
    [
        pytest.param("first", "integrated_gradients", marks=pytest.mark.slow),
        ("several", "attention"),
        pytest.param("rnn", "gradient", marks=pytest.mark.slow),
    ],
)
def test_the_exported_function_gives_what_python_gives(
    tasks, case, method, unsaved, eager, tmp_path
):
    """What stands in the SavedModel, of all kinds, without one."""
    classifier = tasks[0][case]
    classifier.export(tmp_path / "m", method=method)
    serve = unsaved[0]["serving_default"]
    for call in CALLS:
        outputs = {
            name: [value.dtype.name, list(value.shape), value.numpy().tolist()]
            for name, value in serve(tf.constant(call, tf.string)).items()
        }
        plain = json.loads(json.dumps(outputs, default=bytes.decode))
        check_outputs(classifier, method, call, plain)


@pytest.mark.slow
def test_export_leaves_what_is_there(tasks, served, tmp_path, monkeypatch):
    classifier = tasks[0]["bag"]
    with pytest.raises(FileExistsError, match="overwrite"):
        classifier.export(served("bag")[0])

    def functions(classifier, tf, method):
        return {"serving_default": lambda text: {"probabilities": tf.zeros([tf.size(text), 3])}}, []

    monkeypatch.setattr(TextClassifier, "serve", functions)
    with pytest.raises(RuntimeError, match="another `serving_default: probabilities"):
        classifier.export(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


# Other backends


def on(backend, *arguments):
    result = answer(backend, Path(text_classification_toys.__file__), *arguments)
    assert result["backend"] == backend
    return result["found"]


def assert_same(found, expected, cases=CASES):
    assert found.keys() == set(cases)
    for case in cases:
        for name in ("probabilities", *METHODS[case]):
            if name == "probabilities":
                np.testing.assert_allclose(found[case][name], expected[case][name], atol=1e-5)
                continue
            for mine, other in zip(found[case][name], expected[case][name], strict=True):
                assert [*mine[:2], mine[3]] == [*other[:2], other[3]]
                np.testing.assert_allclose(mine[2], other[2], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "cases"),
    [
        ("torch", list(CASES)),
        pytest.param("jax", ["rnn"], marks=pytest.mark.slow),
        pytest.param("jax", ["bag", "first", "several"], marks=pytest.mark.slow),
    ],
)
def test_the_same_on_other_backends(tasks, expected, backend, cases):
    assert_same(on(backend, tasks[1], *cases), expected, cases)


@pytest.mark.slow
def test_export_from_another_backend(tasks, expected, tmp_path):
    """A child process does it: the same SavedModel comes of it."""
    assert_same(on("jax", tasks[1], "rnn", "--export", tmp_path / "m"), expected, ["rnn"])
    calls = json.dumps([[text.encode().hex() for text in HOSTILE]])
    (outputs,) = answer("alone", SERVE, calls, tmp_path / "m")
    np.testing.assert_allclose(
        outputs["probabilities"][2], expected["rnn"]["probabilities"], atol=1e-5
    )
    for row, found in zip(outputs["weights"][2], expected["rnn"]["attention"], strict=True):
        np.testing.assert_allclose(row[: len(found[2])], found[2], atol=1e-5)
