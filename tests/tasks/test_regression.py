"""Regression: numbers and intervals by hand, training, files, the SavedModel, backends."""

from pathlib import Path

import keras
import numpy as np
import pytest
import regression_toys
from processes import answer
from regression_toys import BAG, EXAMPLES, make
from sklearn.linear_model import Ridge
from tracing import eagerly, unsaved  # noqa: F401

from keras_attn.metrics import conformal_margin
from keras_attn.tasks import PredictedNumber, TextRegressor
from keras_attn.tasks.families.frozen_head import vectors_of

TEXTS = ["the film was great", "", "a dull and a poor dish with a fine song and more words"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A regressor that was trained in a folder, and the run."""
    with eagerly():
        run = TextRegressor.train(
            EXAMPLES[:26], EXAMPLES[26:], tmp_path_factory.mktemp("run") / "a",
            {"max_length": 12, "vocabulary_size": 300}, BAG,
            {"epochs": 3, "learning_rate": 0.05, "coverage": 0.8}, verbose=0,
        )  # fmt: skip
    return TextRegressor.load(run.best), run


def test_numbers_and_intervals_are_those_of_the_model():
    regressor = make()
    ids = np.zeros((3, 12), "int32")
    rows = regressor.field.rows(regressor.tokenizer.encode(TEXTS))
    for row, (own, _) in zip(ids, rows, strict=True):
        row[: len(own)] = own
    outputs = keras.ops.convert_to_numpy(regressor.model(ids))[:, 0]
    for found, output in zip(regressor.predict(TEXTS), outputs, strict=True):
        expected = 3 + 2 * output
        assert found == pytest.approx((expected, expected - 0.5, expected + 0.5), abs=1e-5)
    regressor.relearn(margin=None)
    assert regressor.predict(TEXTS[0])[1:] == (None, None)


def test_standardized_targets():
    regressor = TextRegressor.create([("a", 1), ("b", 2), ("c", 6)], model=BAG)
    learned = regressor.learned
    assert (learned.mean, learned.median) == (3, 2)
    assert learned.deviation == pytest.approx(np.sqrt((4 + 1 + 9) / 3))
    labels = np.concatenate([batch[1] for batch in regressor.dataset([("a", 1), ("b", 6)])])
    assert sorted(labels[:, 0].tolist()) == pytest.approx([-2 / 2.160247, 3 / 2.160247])
    assert regressor.token_classes(regressor.checked([("a", 2), ("b", 3)])).tolist() == [0, 1]


def test_a_new_run_has_the_scale_of_its_numbers(tmp_path):
    """Standardized predictions stay what they were; equal numbers keep the deviation."""
    former = make()
    former.save(tmp_path / "former.task")
    data = {"backbone": str(tmp_path / "former.task"), "max_length": 12}
    texts = [x for x, _ in EXAMPLES]
    before = [(x.number - 3) / 2 for x in former.predict(texts)]
    numbers = np.array([100 * y + 7 for _, y in EXAMPLES])
    regressor = TextRegressor.create(list(zip(texts, numbers, strict=True)), data=data)
    learned = regressor.learned
    assert learned.median == np.median(numbers)
    assert (learned.mean, learned.deviation) == pytest.approx((numbers.mean(), numbers.std()))
    found = [(x.number - numbers.mean()) / numbers.std() for x in regressor.predict(texts)]
    np.testing.assert_allclose(found, before, atol=1e-4)
    for number in (7.0, 0.1):  # whose mean is rounded: the deviation of NumPy is above 0
        equal = [(letter, number) for letter in "abc"]
        learned = TextRegressor.create(equal, data=data).learned
        assert (learned.mean, learned.median, learned.deviation) == pytest.approx(
            (number, number, 2)
        )


@pytest.mark.slow
def test_a_regressor_goes_on_with_other_numbers(tmp_path):
    far = [(x, 100 * y) for x, y in EXAMPLES]
    make().save(tmp_path / "former.task")
    data = {"backbone": str(tmp_path / "former.task"), "max_length": 12}
    training = {"epochs": 20, "batch_size": 4, "learning_rate": 0.05}
    runs = [
        TextRegressor.train(far, far, tmp_path / "run", data, training=training, verbose=0)
        for _ in range(2)
    ]
    assert runs[0].history == runs[1].history  # the second one resumes a finished run
    report = TextRegressor.load(runs[0].best).evaluate(far, num_bootstrap=0)
    assert report.mean_absolute_error.value < 50 < report.guess_error.value < 200


def test_weights_of_the_words_sum_to_the_number():
    """Of a model that is linear in its embeddings, in the units of the numbers."""
    regressor = make({**BAG, "token_weights": "none"})
    (bias,) = keras.ops.convert_to_numpy(regressor.model.get_layer("head").bias)
    for explained, found in zip(
        regressor.explain(TEXTS, method="gradient"), regressor.predict(TEXTS), strict=True
    ):
        assert explained.weights.sum() + 3 + 2 * bias == pytest.approx(found.number, abs=1e-4)
        assert explained.label == f"{found.number:.4g}"


@pytest.mark.slow
def test_a_run_keeps_the_least_error_and_has_intervals(trained):
    regressor, run = trained
    dev = EXAMPLES[26:]
    errors = [row["val_mean_absolute_error"] for row in run.log]
    assert run.best_score == min(errors) == errors[run.best_epoch - 1]
    true, found = zip(*((y, regressor.predict(text).number) for text, y in dev), strict=True)
    assert run.best_score == pytest.approx(np.abs(np.subtract(true, found)).mean(), abs=1e-5)
    margin = conformal_margin(true, found, 0.8)
    assert regressor.learned.margin == pytest.approx(margin, abs=1e-5)
    assert f"intervals of +- {margin:.4g} for 80%" in run.note
    report = regressor.evaluate(dev, num_bootstrap=0)
    assert report.guess == np.median([y for _, y in EXAMPLES[:26]])
    assert report.within.value >= 0.8
    assert report.mean_absolute_error.value < report.guess_error.value


@pytest.mark.slow
def test_too_few_texts_for_intervals(trained):
    regressor = make()
    assert regressor.calibrate(EXAMPLES[:8], 0.9) is None
    assert regressor.predict(TEXTS[0]).low is None
    assert regressor.calibrate(EXAMPLES[:9], 0.9) > 0
    with pytest.raises(ValueError, match=r"`coverage` must be above 0 and below 1. Received: 90"):
        regressor.calibrate(EXAMPLES, 90)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["squared", "absolute", "huber"])
def test_kinds_of_losses(kind):
    regressor = make()
    regressor.fit(EXAMPLES[:8], loss_kind=kind, epochs=1, learning_rate=1e-9, verbose=0)
    z = np.array([(y - 3) / 2 for _, y in EXAMPLES[:8]])
    off = z - [(x.number - 3) / 2 for x in regressor.predict([x for x, _ in EXAMPLES[:8]])]
    expected = {
        "squared": off**2, "absolute": abs(off),
        "huber": np.where(abs(off) <= 1, off**2 / 2, abs(off) - 0.5),
    }  # fmt: skip
    batches = regressor.dataset(EXAMPLES[:8])
    loss = regressor.model.evaluate(batches, verbose=0)
    assert loss == pytest.approx(expected[kind].mean(), abs=1e-4)


@pytest.mark.slow
def test_the_head_is_ridge_regression():
    regressor = make({**BAG, "token_weights": "none"})
    lines = []
    regressor.fit(EXAMPLES, EXAMPLES, tune="head", verbose=0, log=lines.append)
    strength = float(lines[0].rpartition("C=")[2])
    vectors = vectors_of(regressor.model, regressor.dataset(EXAMPLES, shuffle=False))
    numbers = [y for _, y in EXAMPLES]
    spread = vectors.std(0).mean()
    fitted = Ridge(1 / strength).fit(vectors / spread, (np.array(numbers) - 3) / 2)
    expected = 3 + 2 * fitted.predict(vectors / spread)
    found = [x.number for x in regressor.predict([x for x, _ in EXAMPLES])]
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_what_cannot_be_learned():
    with pytest.raises(ValueError, match=r"different numbers. Received: 3 for all 2"):
        TextRegressor.create([("a", 3), ("b", 3.0)])
    with pytest.raises(ValueError, match=r"finite number .* Received: 'good' at position 0"):
        TextRegressor.create([("a", "good")])
    with pytest.raises(ValueError, match=r"resolve, 128 here.* Subtract a constant"):
        TextRegressor.create([("a", 1.7e9), ("b", 1.7e9 + 60.0)])
    with pytest.raises(ValueError, match=r"-1e\+30 and 1e\+30. Received: -1e\+39 at position 1"):
        TextRegressor.create([("a", 3), ("b", -1e39)])
    with pytest.raises(
        ValueError, match=r"`deviation` must be above 0. Received: mean=0.0, deviation=0"
    ):
        make(mean=0.0, deviation=0.0)
    regressor = make()
    with pytest.raises(ValueError, match="Expected single texts"):
        regressor.predict([("a", "b")])
    with pytest.raises(TypeError, match="Expected strings"):
        regressor.predict([7])


@pytest.mark.slow
def test_a_doubt_of_a_constant_prediction():
    run = make().fit(EXAMPLES, epochs=2, learning_rate=1e-9, verbose=0)
    assert "of giving all texts the same number" in run.note


@pytest.mark.slow
@pytest.mark.parametrize("case", ["intervals", "none", "pairs", "big"])
def test_the_saved_model_is_the_object(case, tmp_path, unsaved):  # noqa: F811
    """Numbers of any size: figures are compared in their units."""
    learned = {
        "intervals": {}, "none": {"margin": None}, "pairs": {"pairs": True},
        "big": {"mean": 3e5, "deviation": 1e5, "margin": 2e5},
    }[case]  # fmt: skip
    make(**learned).export(tmp_path / "exported")
    (functions,) = unsaved
    assert set(functions) == {"serving_default"}


@pytest.mark.slow
def test_the_outputs_of_a_saved_model(trained, tmp_path):
    import tensorflow as tf

    regressor, _ = trained
    regressor.export(tmp_path / "exported")
    served = tf.saved_model.load(tmp_path / "exported").signatures["serving_default"]
    found = served(text=tf.constant(TEXTS))
    rows = zip(*(found[name].numpy() for name in PredictedNumber._fields), strict=True)
    for row, expected in zip(rows, regressor.predict(TEXTS), strict=True):
        assert row == pytest.approx(expected, abs=1e-3)
    for weights, explained in zip(
        found["weights"].numpy(), regressor.explain(TEXTS, method="gradient"), strict=True
    ):
        np.testing.assert_allclose(weights[: len(explained.weights)], explained.weights, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_the_same_on_other_backends(trained, backend, tmp_path):
    regressor, _ = trained
    regressor.save(tmp_path / "a.task")
    result = answer(backend, Path(regression_toys.__file__), tmp_path / "a.task")
    assert result["backend"] == backend
    np.testing.assert_allclose(result["found"], regressor.predict(TEXTS), atol=1e-4)
    assert result["loss"][-1] < result["loss"][0]
