"""Heads fitted at once, texts of no class, and thresholds of several labels."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import f1_score
from text_classification_toys import EXAMPLES, TOKENIZERS
from tracing import eagerly

from keras_attn.metrics.classification import best_thresholds
from keras_attn.tasks import TextClassificationData, TextClassifier
from keras_attn.tasks.families.frozen_head import STRENGTHS, fit_head
from keras_attn.tasks.families.unknown import SCORES, choose_threshold, sureness

BERT = {
    "model": "bert", "dim": 8, "num_layers": 2, "num_heads": 2, "intermediate_dim": 8,
    "pooling": "average", "pooled_layers": 2, "unit_length": True,
}  # fmt: skip
BAG = {"model": "bag", "dim": 8, "pair_buckets": 0}
NONE = [(f"{a} {b}", "none") for a in ("zebra", "quartz", "moon", "river") for b in ("of", "in")]


def clouds(classes, seed=0, per=40):
    """Vectors around a centre for each class, far from 0 and of another scale than 1."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes, dtype="int32"), per)
    return (30 + 5 * (np.eye(6)[labels] + rng.normal(size=(len(labels), 6)))), labels


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("held", [True, False])
def test_the_head_is_that_of_scikit_learn(classes, held):
    (x, y), (other, truth) = clouds(classes), clouds(classes, 1)
    weights = np.random.default_rng(2).uniform(0.5, 2, len(x))
    head, c = fit_head(x, y, classes, weights, (other, truth) if held else None)
    assert c in STRENGTHS
    centre, spread = x.mean(0), x.std(0).mean()
    reference = LogisticRegression(C=c, tol=1e-6).fit((x - centre) / spread, y, weights)
    expected = reference.predict_proba((other - centre) / spread)
    np.testing.assert_allclose(softmax(head.logits(other)), expected, atol=2e-3)


def softmax(z):
    z = np.exp(z - z.max(1, keepdims=True))
    return z / z.sum(1, keepdims=True)


def test_heads_of_several_labels_of_numbers_and_of_classes_without_examples():
    x, y = clouds(3)
    members = np.stack([y == 0, y != 1, np.zeros(len(y))], 1).astype("float32")
    head, _ = fit_head(x, members, 3)
    assert (((head.logits(x) > 0) == members).mean(axis=0) > [0.7, 0.7, 0.999]).all()
    numbers = (x @ np.arange(6.0)).astype("float32")
    head, c = fit_head(x, numbers, 1, held=(x, numbers))
    assert c == STRENGTHS[-1]  # nothing is random
    spread = x.std(0).mean()
    expected = Ridge(1 / c).fit(x / spread, numbers).predict(x / spread)
    np.testing.assert_allclose(head.logits(x)[:, 0], expected, rtol=1e-4)
    head, _ = fit_head(x, y * 2, 6, held=(x, y * 2))
    assert set(head.logits(x).argmax(1)) <= {0, 2, 4}


@pytest.mark.slow
def test_weights_of_decisions_are_those_of_scikit_learn():
    (x, y), (other, truth) = clouds(3), clouds(3, 1)
    members, true = (np.eye(3, dtype="float32")[labels] for labels in (y, truth))
    weights = np.where(members > 0, [2.0, 5.0, 0.5], 1.0)
    head, c = fit_head(x, members, 3, weights, (other, true))
    centre, spread = x.mean(0), x.std(0).mean()
    for label in range(3):
        reference = LogisticRegression(C=c, tol=1e-6)
        reference.fit((x - centre) / spread, members[:, label], weights[:, label])
        expected = reference.decision_function((other - centre) / spread)
        np.testing.assert_allclose(head.logits(other)[:, label], expected, atol=2e-2)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A classifier whose head alone is fitted, in a folder, by the command's call."""
    folder = tmp_path_factory.mktemp("head") / "run"
    settings = {"data": {"vocabulary_size": 60}, "model": BERT, "training": {"tune": "head"}}
    again = [
        TextClassifier.train(EXAMPLES[:40], EXAMPLES[40:], folder, **settings, verbose=0)
        for _ in range(2)
    ]
    return folder, again


@pytest.mark.slow
def test_only_the_head_is_fitted(fitted):
    folder, (run, again) = fitted
    assert run.complete and run.best_epoch == 0 and run.best_score >= 0.5
    assert again.best_score == run.best_score and again.log == run.log
    task = TextClassifier.load(run.best)
    keras.utils.set_random_seed(0)
    states = keras.Model(task.model.input, task.model.get_layer("encoder").output)
    texts = [text for text, _ in EXAMPLES]
    rows = task.encoded(texts)["row_ids"]
    vectors = np.stack([states(row[None, row != 0])[0].numpy().mean(0) for row in rows])
    assert vectors.shape == (48, 16)
    first = task.model.get_layer("encoder").blocks[0]
    one = task.encoded(texts[:1])["row_ids"]
    embedded = task.model.get_layer("embedding")(one)
    expected = keras.ops.convert_to_numpy(first(embedded))[0].mean(0)
    np.testing.assert_allclose(vectors[0, :8], expected, atol=1e-5)  # of both blocks
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    labels = task.numbers_of(task.checked(EXAMPLES))
    head, _ = fit_head(vectors[:40], labels[:40], 2, held=(vectors[40:], labels[40:]))
    np.testing.assert_allclose(task.predict_logits(texts), head.logits(vectors), atol=1e-3)
    assert (folder / "log.csv").read_text().splitlines()[1].startswith("0,")


@pytest.mark.parametrize("settings", [{"tune": "head", "epochs": 2}, {"epochs": 0}])
def test_epochs_belong_to_a_training_that_has_some(settings):
    task = TextClassifier(TOKENIZERS["word_piece"], ["bad", "good"], model=BAG)
    with pytest.raises(ValueError, match="`epochs` must be at least 1, and 0 with tune='head'"):
        task.fit(EXAMPLES, **settings)


@pytest.mark.parametrize("name", SCORES)
def test_how_sure(name):
    z = np.array([[1.0, 2.0, -50.0], [300.0, 1.0, 2.0]])
    expected = {
        "energy": [np.log(np.exp(1) + np.exp(2)), 300.0],
        "logit": [2.0, 300.0],
        "probability": [np.exp(2) / (np.exp(1) + np.exp(2)), 1.0],
    }
    np.testing.assert_allclose(sureness(np, z, name), expected[name])


def test_the_score_that_tells_best_is_chosen():
    # The greatest logit is the same for all; only the sum of both tells.
    logits = np.array([[2.0, 2.0 - n / 10] for n in range(20)] + [[2.0, -9.0]] * 5)
    unknown = np.arange(25) >= 20
    score, at = choose_threshold(logits, unknown, 0.1)
    assert score == "energy"
    assert (sureness(np, logits[:20], "energy") < at).sum() == 2


@pytest.fixture(scope="module")
def knows():
    task = TextClassifier.create([*EXAMPLES, *NONE], model=BAG, data={"unknown": "none"})
    run = task.fit(EXAMPLES, [*EXAMPLES, *NONE], epochs=30, learning_rate=0.05, verbose=0)
    assert "none: energy below" in run.note
    return task


@pytest.mark.slow
def test_texts_of_no_class(knows, tmp_path):
    assert knows.class_names == ("bad", "good")
    report = knows.evaluate([*EXAMPLES, *NONE], num_bootstrap=20)
    assert report.num_examples == 48 and report.unknown.num_unknown == 8
    assert report.unknown.auc.value > 0.95 and report.unknown.found.value > 0.9
    assert report.unknown.false_alarms.value <= 0.05
    assert "area under ROC" in str(report) and report.to_dict()["unknown"]["share"] == 0.05
    texts = [text for text, _ in [*EXAMPLES, *NONE]]
    labels = [found.label for found in knows.predict(texts)]
    assert {"none", "bad", "good"} == set(labels)
    assert np.mean([x == "none" for x in labels[48:]]) == report.unknown.found.value
    knows.save(tmp_path / "x.task")
    assert [x.label for x in TextClassifier.load(tmp_path / "x.task").predict(texts)] == labels


@pytest.mark.slow
def test_a_threshold_by_few_development_texts():
    """Too few for the temperature, but `unknown` asks for a threshold."""
    task = TextClassifier.create(EXAMPLES, model=BAG, data={"unknown": "none"})
    with eagerly():
        run = task.fit(EXAMPLES, [*EXAMPLES[:4], *NONE[:2]], epochs=1, verbose=0)
    assert "too few to fit it; none: " in run.note
    assert task.unknown_below is not None


@pytest.mark.slow
def test_the_saved_model_gives_the_label_of_no_class(knows, tmp_path):
    knows.export(tmp_path / "saved")
    texts = [text for text, _ in NONE]
    served = tf.saved_model.load(tmp_path / "saved").signatures["serving_default"](
        text=tf.constant(texts)
    )
    expected = [found.label for found in knows.predict(texts)]
    assert [x.decode() for x in served["label"].numpy()] == expected


def test_without_unknown_no_threshold_is_left(tmp_path):
    """A classifier that continues from one with a threshold gives only the names of classes."""
    learned = {"unknown_score": "logit", "unknown_below": 9.0}
    named = TOKENIZERS["byte_pair"], ["bad", "good"]
    former = TextClassifier(*named, **learned, model=BAG, data={"unknown": "none"})
    former.save(tmp_path / "former.task")
    data = {"backbone": str(tmp_path / "former.task")}
    plain = TextClassifier.create(EXAMPLES, data=data)
    renamed = TextClassifier.create(EXAMPLES, data={**data, "unknown": "other"})
    assert (former.unknown_below, plain.unknown_below) == (("logit", 9.0), None)
    logits = np.array([[1.0, 2.0]], "float32")
    found = [x.decided({"logits": logits, "probabilities": logits}) for x in (plain, renamed)]
    assert [int(x["label"][0]) for x in found] == [1, 2]


def test_texts_of_no_class_alone(monkeypatch):
    """Nothing is computed before the error."""
    task = TextClassifier(
        TOKENIZERS["byte_pair"], ["bad", "good"], model=BAG, data={"unknown": "none"}
    )
    monkeypatch.setattr(TextClassifier, "predicted", lambda *given: pytest.fail("computed"))
    for call in (
        task.evaluate,
        task.calibrate,
        task.fit,
        lambda some: task.fit(EXAMPLES, some, verbose=0),
    ):
        with pytest.raises(ValueError, match=r"with a class, one of .*Received: 8, all with"):
            call(NONE)


def test_no_development_text_of_no_class():
    task = TextClassifier.create(EXAMPLES, model=BAG, data={"unknown": "none"})
    for dev in (EXAMPLES, None):
        with pytest.raises(ValueError, match="development texts with the label 'none'"):
            task.fit(EXAMPLES, dev, epochs=1, verbose=0)


def test_texts_of_no_class_in_files(tmp_path):
    rows = "".join(f"{text},{label}\n" for text, label in [*EXAMPLES, *NONE])
    (tmp_path / "all.csv").write_text("text,label\n" + rows)
    read = TextClassifier.read(TextClassificationData(train=f"{tmp_path}/all.csv", unknown="none"))
    assert "none" not in {x.label for x in read.train}
    assert sum(x.label == "none" for x in read.dev) == 8
    (tmp_path / "dev.csv").write_text("text,label\na great day,good\nbad,bad\na zebra,none\n")
    data = TextClassificationData(
        train=f"{tmp_path}/all.csv", dev=f"{tmp_path}/dev.csv", unknown="none"
    )
    assert {x.label for x in TextClassifier.read(data).dev} == {"bad", "good", "none"}


@pytest.mark.slow
def test_thresholds_of_several_labels():
    rng = np.random.default_rng(0)
    labels = rng.random((80, 3)) < [0.2, 0.5, 0.02]
    p = np.clip(labels * 0.2 + rng.random((80, 3)) * 0.3, 0, 1)
    found = best_thresholds(p, labels)
    assert found[2] == 0.5  # of too few examples
    for c in (0, 1):
        best = max(f1_score(labels[:, c], p[:, c] >= t) for t in np.unique(p[:, c]))
        assert f1_score(labels[:, c], p[:, c] >= found[c]) == pytest.approx(best)


def several(data=None, **learned):
    tokenizer = TOKENIZERS["byte_pair"]
    return TextClassifier(tokenizer, ["bad", "good"], True, **learned, model=BAG, data=data)


def test_several_labels_and_texts_of_no_class():
    """The settings, the examples and the classifier say it before anything is trained."""
    data, lists = {"unknown": "none"}, [(text, (label,)) for text, label in EXAMPLES]
    expected = "Expected one label for each text.*Received: 'none' with "
    with pytest.raises(
        ValueError, match=expected + r"`label_separator` '\|'\. Leave `unknown` out"
    ):
        TextClassificationData(label_separator="|", **data)
    several_labels = expected + "texts with several labels"
    for examples in ([*lists, *NONE], [*lists, ("zebra", ("none",))]):
        with pytest.raises(ValueError, match=several_labels):
            TextClassifier.create(examples, data=data, model={"model": "rnn", "units": 4})
    with pytest.raises(ValueError, match=several_labels):
        several(data).fit(lists, lists, verbose=0)


def test_thresholds_of_an_earlier_fit_are_forgotten(tmp_path):
    """Few development texts leave 0.5, and the scores in training are those of 0.5."""
    task = several(temperature=3.0, thresholds=(0.1, 0.9))
    task.save(tmp_path / "x.task")
    loaded = TextClassifier.load(tmp_path / "x.task")
    assert (loaded.temperature, *loaded.thresholds) == (3.0, 0.1, 0.9)
    assert "too few" in loaded.finish(EXAMPLES[:4], loaded.Training())
    assert (loaded.temperature, *loaded.thresholds) == (1.0, 0.5, 0.5)


@pytest.mark.slow
def test_a_run_scores_without_thresholds_of_an_earlier_one(monkeypatch):
    seen, scorer = [], TextClassifier.scorer

    def watched(self, dev, training):
        score = scorer(self, dev, training)
        return lambda model: seen.append((self.temperature, *self.thresholds)) or score(model)

    monkeypatch.setattr(TextClassifier, "scorer", watched)
    task = several(temperature=3.0, thresholds=(0.1, 0.9))
    with eagerly():
        task.fit(EXAMPLES, EXAMPLES, epochs=1, verbose=0)
    assert seen == [(1.0, 0.5, 0.5)]
    assert task.learned.thresholds and task.temperature != 1


@pytest.mark.parametrize(
    "model",
    [
        {**BERT, "pooled_layers": 3},
        {**BERT, "pooling": "first"},
        {"model": "modern_bert", "unit_length": True},
    ],
)
def test_pooled_layers_that_cannot_be(model):
    with pytest.raises(ValueError, match="`pooled_layers`"):
        TextClassifier(TOKENIZERS["word_piece"], ["bad", "good"], model=model)
