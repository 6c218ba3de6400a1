"""Weights of several labels: the loss beside PyTorch's, and a training with them."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.tasks import TextClassifier
from keras_attn.training import WeightedBinaryCrossentropy

WEIGHTS = [2.5, 0.5, 0.0]


@pytest.mark.slow
def test_the_loss_of_torch():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    logits = (rng.normal(size=(5, 3)) * 30).astype("float32")
    labels = rng.integers(0, 2, (5, 3)).astype("float32")
    expected = torch.nn.BCEWithLogitsLoss(
        pos_weight=torch.tensor(WEIGHTS), reduction="none"
    )(torch.tensor(logits), torch.tensor(labels)).numpy()  # fmt: skip
    rows = WeightedBinaryCrossentropy(WEIGHTS, reduction=None)(labels, logits)
    np.testing.assert_allclose(ops.convert_to_numpy(rows), expected.mean(1), rtol=1e-5, atol=1e-6)
    of_rows = np.array([1, 0, 2, 1, 1], "float32")
    found = float(WeightedBinaryCrossentropy(WEIGHTS)(labels, logits, of_rows))
    assert found == pytest.approx((expected.mean(1) * of_rows).mean(), rel=1e-5)


def test_what_is_kept_and_refused():
    loss = WeightedBinaryCrossentropy(WEIGHTS)
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    assert again.pos_weight == WEIGHTS
    for wrong in ([], [-1.0], [np.nan]):
        with pytest.raises(ValueError, match="`pos_weight` must be finite numbers"):
            WeightedBinaryCrossentropy(wrong)
    with pytest.raises(ValueError, match="labels and logits for 3 labels"):
        loss(np.zeros((2, 2)), np.zeros((2, 2)))


EXAMPLES = [("fine and old", ("good", "old"))] + [("dull", ("bad",))] * 3 + [("old", ("old",))] * 2


@pytest.fixture
def classifier():
    data, model = {"vocabulary_size": 280}, {"model": "bag", "dim": 4, "pair_buckets": 0}
    return TextClassifier.create(EXAMPLES, data=data, model=model)


def test_weights_of_a_training(classifier):
    """Each is the number of texts without the label by that with it, or what a table says."""
    training = classifier.Training(class_weight="balanced")
    made = classifier.for_examples(training, EXAMPLES)
    assert classifier.objective(made)["loss"].pos_weight == [1.0, 5.0, 1.0]
    for_table = classifier.Training(class_weight={"good": 3})
    loss = classifier.objective(classifier.for_examples(for_table, EXAMPLES))["loss"]
    assert loss.pos_weight == [1.0, 3.0, 1.0]
    targets = classifier.targets(EXAMPLES)
    weights = classifier.weights_for(targets, training)
    np.testing.assert_array_equal(weights, np.where(targets > 0, [[1.0, 5.0, 1.0]], 1.0))
    with pytest.raises(ValueError, match="Pass it to `fit`"):
        classifier.objective(training)
    with pytest.raises(ValueError, match="is a setting of the loss"):
        classifier.dataset(EXAMPLES, "balanced")


@pytest.mark.slow
def test_a_training_with_weights(classifier, tmp_path):
    """Its first loss is that of the weights; the run resumes, and its settings are as given."""
    settings = {"epochs": 1, "batch_size": 6, "class_weight": {"good": 9.0}, "verbose": 0}
    logits = classifier.predict_logits([text for text, _ in EXAMPLES])
    loss = WeightedBinaryCrossentropy([1.0, 9.0, 1.0])(classifier.targets(EXAMPLES), logits)
    run = classifier.fit(EXAMPLES, run_dir=tmp_path, **settings)
    assert run.history["loss"][0] == pytest.approx(float(loss), rel=0.05)  # dropout
    assert classifier.fit(EXAMPLES, run_dir=tmp_path, **settings).complete
    settings["class_weight"] = "balanced"
    classifier.fit(EXAMPLES, **settings)
    assert classifier.model.loss.pos_weight == [1.0, 5.0, 1.0]
